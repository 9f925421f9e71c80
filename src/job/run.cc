// Runs a job with the trainer, which performs the actions of a step in SINGA's order.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/text.h"
#include "file/series.h"
#include "job/blobs.h"
#include "job/build.h"
#include "job/cluster.h"
#include "job/data.h"
#include "job/dummy.h"
#include "job/metric_names.h"
#include "job/named_values.h"
#include "job/results.h"
#include "job/updater.h"
#include "job/workspace.h"
#include "pleiad/train.h"

namespace pleiad::job {
namespace {

/// Collective. Throws the error of rank 0 on all ranks; `problem` is empty if there is none.
void share_problem(Session* session, std::string problem) {
  if (session != nullptr) {
    std::vector<std::int64_t> length = {static_cast<std::int64_t>(problem.size())};
    session->broadcast(length, 0);
    std::vector<std::int32_t> letters(static_cast<std::size_t>(length[0]) + 1);
    std::copy(problem.begin(), problem.end(), letters.begin());
    session->broadcast(letters, 0);
    problem.assign(letters.begin(), letters.end() - 1);
  }
  if (!problem.empty()) throw FileError(problem);
}

/// The run of one rank.
class JobRun {
 public:
  JobRun(const Job& job, const JobOptions& options, Session* session)
      : job_(job), in_(job.impl()), options_(options), session_(session), built_(build(job)) {}

  JobResult go() {
    check_display();
    lock_workspace();
    load();
    for (const Source& source : built_.sources) open(source);
    TrainOptions train = train_options();
    if (rank() == 0) {
      results_ = std::make_unique<Results>(keeps_results() ? job_.workspace() : "", options_.display, job_.name(),
                                           train.steps);
      for (const std::string& note : topology_.notes) results_->line("note: " + note);
    }
    const auto trainer = session_ == nullptr ? std::make_unique<Trainer>(built_.net, train)
                                             : std::make_unique<Trainer>(built_.net, train, *session_);
    return options_.test ? test(*trainer, train) : train_all(*trainer, train);
  }

 private:
  [[nodiscard]] int rank() const { return session_ == nullptr ? 0 : session_->rank(); }
  [[nodiscard]] bool keeps_results() const { return options_.where != "none"; }
  [[nodiscard]] bool resuming() const { return options_.resume || in_.proto.resume(); }

  void check_display() const {
    static const std::vector<std::string> known = {"lines", "live", "off"};
    if (std::ranges::find(known, options_.display) == known.end()) {
      throw InvalidArgument(unknown_name("display", options_.display, known));
    }
  }

  /// Locks the workspace on rank 0 until the run ends.
  void lock_workspace() {
    std::string problem;
    if (rank() == 0 && keeps_results()) {
      try {
        workspace_ = std::make_unique<Workspace>(job_.workspace(), job_.name());
        if (resuming() && workspace_->last() && workspace_->last()->job != job_.name()) workspace_->resume();  // throws
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    share_problem(session_, std::move(problem));
  }

  /// Reads the parameters on rank 0. All ranks throw if that fails.
  void load() {
    std::string problem;
    if (rank() == 0) {
      try {
        options_.test ? load_to_test() : load_to_train();
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    share_problem(session_, std::move(problem));
    if (session_ == nullptr) return;
    std::vector<std::int64_t> steps = {loaded_step_, first_step_};
    session_->broadcast(steps, 0);
    loaded_step_ = steps[0];
    first_step_ = steps[1];
  }

  void load_to_train() {
    const auto& given = in_.proto.checkpoint_path();
    std::vector<std::string> paths(given.begin(), given.end());
    const bool state = resuming() && !steps_in(state_folder(job_.workspace()), true).empty();
    // SINGA's own workspaces contain parameter files only. Parameter files next to a run of ours may belong to another
    // run.
    const bool of_singa = resuming() && !state && (workspace_ == nullptr || !workspace_->last());
    const std::string last = of_singa ? last_checkpoint_file(job_.workspace()) : "";
    if (!last.empty()) paths = {last};
    const std::vector<std::string> found = load_blobs(built_, built_.net, paths, &loaded_step_);
    if (!last.empty()) {
      expect_all(built_, found, last);
      first_step_ = std::max(step_of_file(last), std::int64_t{0});
      resumed_file_ = last;
    } else if (!state) {
      expect_loaded(in_, built_, found);
    }
  }

  /// Requires that a checkpoint provides every parameter, because testing initial values would be meaningless.
  void load_to_test() {
    const auto& given = in_.proto.checkpoint_path();
    std::vector<std::string> paths(given.begin(), given.end());
    if (resuming()) paths = {own_checkpoint()};
    if (paths.empty()) {
      throw_invalid(in_, "checkpoint_path",
                    "expected a checkpoint to test in checkpoint_path, or -resume to test the last one of the "
                    "workspace; received neither");
    }
    expect_all(built_, load_blobs(built_, built_.net, paths, &loaded_step_), join(paths));
  }

  /// Returns the last checkpoint of the most recent run in the workspace.
  [[nodiscard]] std::string own_checkpoint() {
    const std::string state = state_folder(job_.workspace());
    if (const auto steps = steps_in(state, true); !steps.empty()) {
      loaded_step_ = steps.back();
      return step_folder(state, steps.back()).string();
    }
    const std::string file = workspace_ != nullptr && workspace_->last() ? "" : last_checkpoint_file(job_.workspace());
    if (!file.empty()) return file;
    throw FileError(
        fmt::format("{}: has no checkpoint of a run to test; expected {}/step-N or checkpoint/stepN-worker0",
                    job_.workspace(), state));
  }

  void open(const Source& source) {
    const auto take = [&](nn::Phase phase, std::unique_ptr<Samples>& to, std::int64_t& batch) {
      if ((source.phases & static_cast<unsigned>(phase)) == 0) return;
      if (to != nullptr) {
        throw_invalid(in_, source.index, "include",
                      "another layer already provides the records of this phase; only one is allowed");
      }
      to = samples_of(in_, source);
      batch = batch_size(in_, source.index);
    };
    if (!options_.test) take(nn::Phase::train, train_, train_batch_);
    // Tests, checkpoints and restarts come between training steps, after which the previous output is lost.
    if (const LayerProto& layer = in_.proto.neuralnet().layer(source.index);
        !options_.test && (source.phases & static_cast<unsigned>(nn::Phase::train)) != 0 && is_dummy(layer) &&
        !feeding_layer(layer).empty()) {
      throw_invalid(in_, source.index, "rnn_dummy_conf.dynamic_srclayer",
                    "a net can be fed its own output only in tests and validation; expected exclude: kTrain, or a run "
                    "with -test");
    }
    const bool tests = options_.test || in_.proto.test_freq() > 0;
    if (tests) take(nn::Phase::test, test_, test_batch_);
    if (tests && (source.phases & static_cast<unsigned>(nn::Phase::test)) != 0 && in_.proto.test_steps() == 0 &&
        is_dummy(in_.proto.neuralnet().layer(source.index))) {
      throw_invalid(in_, "test_steps", fmt::format("expected 1 or more: \"{}\" never ends", source.input));
    }
    if (in_.proto.validate_freq() > 0 && !options_.test) take(nn::Phase::validate, validate_, validate_batch_);
  }

  TrainOptions train_options() {
    const JobProto& p = in_.proto;
    topology_ = topology_of(in_, session_ == nullptr ? 1 : session_->workers());
    if (session_ != nullptr) note_servers(in_, session_->size() - session_->workers(), topology_);
    if (options_.test) {  // a test has no use for groups
      topology_.groups = 1;
      topology_.exchange = session_ == nullptr     ? ExchangeKind::none
                           : topology_.servers > 0 ? ExchangeKind::tables
                                                   : ExchangeKind::all_reduce;
      topology_.clock = TrainClock::sync;
      if (test_ == nullptr)
        throw_invalid(in_, "neuralnet", "expected a layer that provides records to test, with include: kTest");
    } else if (train_ == nullptr) {
      throw_invalid(in_, "neuralnet", "expected a layer that provides records to train, with include: kTrain");
    }
    TrainOptions to;
    lay_out(in_, topology_, built_, options_.test ? test_batch_ : train_batch_, to);
    if (!options_.test) {
      to.updater = updater_of(in_);
      to.schedule = schedule_of(in_);
    }
    for (const Source& source : built_.sources) {
      check_share(source, nn::Phase::test, test_ != nullptr, to);
      check_share(source, nn::Phase::validate, validate_ != nullptr, to);
    }
    if (!options_.test && !p.has_train_steps()) {
      throw_invalid(in_, "train_steps", "expected the number of steps to train; received none");
    }
    to.check_finite = p.check_finite();
    to.steps = p.train_steps();
    to.display = p.disp_freq();
    to.display_after = p.disp_after();
    to.from_zero = true;
    to.test = test_ == nullptr ? 0 : p.test_freq();
    to.test_after = p.test_after();
    to.test_batches = p.test_steps();
    to.test_batch = test_batch_;
    to.validate = validate_ == nullptr ? 0 : p.validate_freq();
    to.validate_after = p.validate_after();
    to.validate_batches = p.validate_steps();
    to.validate_batch = validate_batch_;
    to.checkpoint = p.checkpoint_freq();
    to.checkpoint_after = p.checkpoint_after();
    to.checkpoint_at_end = keeps_results();
    to.checkpoint_folder = state_folder(job_.workspace());
    to.checkpoint_keep = 2;
    return to;
  }

  /// Tests are distributed over all workers.
  void check_share(const Source& source, nn::Phase phase, bool used, const TrainOptions& train) const {
    if (!used || (source.phases & static_cast<unsigned>(phase)) == 0) return;
    check_batch(in_, source, topology_.ranks, train.plan.kind != PlanKind::data);
  }

  JobResult test(Trainer& trainer, const TrainOptions& train) {
    Report report = trainer.evaluate(*test_, nn::Phase::test, train.test_batches, train.test_batch);
    report.step = loaded_step_;
    if (results_) results_->keep();
    tell(report);
    if (results_) results_->write_json();
    return std::move(result_);
  }

  bool tell(const Report& from) {
    const JobReport report = with_singa_names(from, built_);
    result_.reports.push_back(report);
    if (results_) results_->add(report);
    return rank() != 0 || !options_.report || options_.report(report);
  }

  JobResult train_all(Trainer& trainer, const TrainOptions& train) {
    begin(trainer);
    TrainCalls calls;
    calls.report = [&](const Report& report) { return tell(report); };
    calls.checkpoint = [&](std::int64_t step) {
      result_.checkpoint = fmt::format("{}/checkpoint/step{}-worker0", job_.workspace(), step);
      if (rank() == 0) write_blobs(train, step);
      if (workspace_) workspace_->saved(step);
      return true;
    };
    calls.stop = [&](std::int64_t step) {
      if (results_ && results_->tick_due()) {
        const Report latest{.step = step, .phase = nn::Phase::train, .metrics = built_.net.metrics()};
        results_->tick(with_singa_names(latest, built_), train.batch);
      }
      return options_.stop && options_.stop();
    };
    result_.ended = trainer.run(*train_, validate_.get(), test_.get(), calls);
    result_.step = trainer.current_step();
    if (results_) {
      if (!result_.ended) {
        results_->line(fmt::format("stopped at step {}{}", result_.step,
                                   result_.checkpoint.empty()
                                       ? ""
                                       : fmt::format("; saved {}; -resume continues from there", result_.checkpoint)));
      }
      results_->write_json();
    }
    if (workspace_) workspace_->end(result_.ended ? "ended" : "stopped", result_.step);
    return std::move(result_);
  }

  /// Begins a new run or continues the last one.
  void begin(Trainer& trainer) {
    std::string problem;
    std::string note;
    if (workspace_) {
      try {
        resuming() ? workspace_->resume() : static_cast<void>(note = workspace_->begin());
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    share_problem(session_, std::move(problem));
    if (!note.empty() && results_) results_->line("note: " + note);
    if (!resuming()) return;
    const bool found = trainer.resume();
    if (!found && first_step_ > 0) start_at(trainer, first_step_);
    if (!results_) return;
    if (found || first_step_ > 0) results_->resume(trainer.current_step());
    results_->line(
        found ? fmt::format("resumed at step {}", trainer.current_step())
        : !resumed_file_.empty()
            ? fmt::format("resumed at step {} from {}, which has the parameters alone: the updater's history "
                          "restarts",
                          first_step_, resumed_file_)
            : fmt::format("{} has no checkpoint to resume from: starts at step 0", state_folder(job_.workspace())));
  }

  /// Sets the step, and with it the position in the data, of a run whose state is lost.
  static void start_at(Trainer& trainer, std::int64_t step) {
    for (const auto& [name, tensor] : trainer.state()) {
      if (name == "step") tensor.values<std::int64_t>()[0] = step;
      if (name == "place") tensor.values<std::int64_t>()[0] = step * trainer.batch();
    }
  }

  /// Writes a parameter file. The trainer has just saved its state, which contains the whole parameters.
  void write_blobs(const TrainOptions& train, std::int64_t step) {
    if (train.plan.kind == PlanKind::data) {
      save_blobs(built_, built_.net, result_.checkpoint, step);
    } else {
      JobNet whole = build(job_);
      load_parameters(whole.net, step_folder(state_folder(job_.workspace()), step).string());
      save_blobs(whole, whole.net, result_.checkpoint, step);
    }
    if (results_) results_->write_json();
  }

  const Job& job_;
  const JobImpl& in_;
  const JobOptions& options_;
  Session* const session_;
  JobNet built_;
  Topology topology_;
  std::unique_ptr<Samples> train_, validate_, test_;
  std::unique_ptr<Workspace> workspace_;  // only on rank 0
  std::int64_t loaded_step_ = 0;          // step of the checkpoint that the parameters come from
  std::int64_t first_step_ = 0;           // first step of a run that is resumed from a parameter file
  std::string resumed_file_;              // that file; only on rank 0
  std::int64_t train_batch_ = 1, validate_batch_ = 0, test_batch_ = 0;
  std::unique_ptr<Results> results_;
  JobResult result_;
};

}  // namespace
}  // namespace pleiad::job

namespace pleiad {

SessionOptions session_of_job(const Job& job) {
  SessionOptions options;
  const job::ClusterProto& c = job.impl().proto.cluster();
  if (c.server_worker_separate()) {
    options.role = fmt::format("{}+{}", job.workers(), std::int64_t{c.nserver_groups()} * c.nservers_per_group());
  }
  return options;
}

JobResult run_job(const Job& job, const JobOptions& options, Session* session) {
  if (session != nullptr) {
    NamedValues asked = job::named_values(job.impl().proto);
    asked.emplace_back("-resume", options.resume ? "given" : "not given");
    asked.emplace_back("-test", options.test ? "given" : "not given");
    expect_same(*session, fmt::format("job \"{}\"", job.name()), asked);
  }
  if (session == nullptr && job.workers() > 1) {
    JobResult result;
    run_cluster(static_cast<int>(job.workers()), [&](Session& each) {
      JobResult mine = job::JobRun(job, options, &each).go();
      if (each.rank() == 0) result = std::move(mine);
    });
    return result;
  }
  return job::JobRun(job, options, session != nullptr && session->size() > 1 ? session : nullptr).go();
}

}  // namespace pleiad
