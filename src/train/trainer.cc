#include "pleiad/train.h"

#include <fmt/format.h>
#include <algorithm>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/process.h"
#include "core/text.h"
#include "core/threads.h"
#include "file/atomic.h"
#include "pleiad/error.h"
#include "train/event_log.h"
#include "train/interrupt.h"
#include "train/named_values.h"
#include "train/trainer_impl.h"
#include "updater/user_rule.h"

namespace pleiad {
namespace {

using Metrics = std::vector<std::pair<std::string, double>>;

/// Weighted averages of metrics over samples.
class MetricsMean {
 public:
  /// `metrics` are averages over `samples` samples.
  void add(const Metrics& metrics, std::int64_t samples) {
    if (names_.empty()) {
      for (const auto& [name, value] : metrics) names_.push_back(name);
      sums_.assign(names_.size() + 1, 0);
    }
    const auto weight = static_cast<double>(samples);
    for (std::size_t i = 0; i < metrics.size(); ++i) sums_[i] += metrics[i].second * weight;
    sums_.back() += weight;
  }
  /// Counts a step of a rank that only serves and computes nothing.
  void add_nothing(const Metrics& like) {
    if (!names_.empty()) return;
    add(like, 0);
    sums_.assign(sums_.size(), 0);
  }
  /// Averages over all ranks and resets. Pass same = true to skip communication when every rank already holds the same
  /// values.
  Metrics take(Communicator& comm, bool same) {
    Metrics means;
    if (names_.empty()) return means;
    if (!same) comm.sum(sums_);
    for (std::size_t i = 0; i < names_.size(); ++i) means.emplace_back(names_[i], sums_[i] / sums_.back());
    names_.clear();
    return means;
  }

 private:
  std::vector<std::string> names_;
  std::vector<double> sums_;  // the last element is the sum of the weights
};

/// Divides the cores of this host among its ranks; ranks that are threads get one each. OMP_NUM_THREADS takes
/// precedence.
void share_cores(const Session& session) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr || session.size() == 1) return;
  int neighbours = 0;
  for (int rank = 0; rank < session.size(); ++rank) {
    neighbours += session.host_of(rank) == session.host_of(session.rank()) ? 1 : 0;
  }
  set_compute_threads(session.engine() == "inproc" ? 1 : usable_cores() / neighbours);
}

/// Gives all ranks the parameters, states and seed of rank 0.
void broadcast_initial_state(nn::Net& net, Communicator& comm) {
  for (const nn::Parameter& p : net.parameters()) comm.broadcast(p.value.view(), 0);
  for (const auto& [name, state] : net.states()) comm.broadcast(state.view(), 0);
  std::vector<std::int64_t> seed = {static_cast<std::int64_t>(net.options().seed)};
  comm.broadcast(seed, 0);
  net.control().set_seed(static_cast<std::uint64_t>(seed[0]));
}

/// Collective. Returns the text of the first rank whose text is not empty, so that all ranks report the same error.
std::string first_error(Communicator& comm, const std::string& mine) {
  const std::vector<std::string> all = comm.gather_texts(mine);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  return fmt::format("on rank {} {}", first - all.begin(), *first);
}

bool due(const TrainOptions& options, std::int64_t frequency, std::int64_t after, std::int64_t step) {
  return frequency > 0 && step >= after && (options.from_zero || step > 0) && (step - after) % frequency == 0;
}

// Ranks that do not wait for one another vote rarely, because a vote makes them wait.
constexpr std::int64_t kAsyncVotes = 16;

}  // namespace

Trainer::Impl::Impl(nn::Net& n, TrainOptions o, Session* session) : net(n), options(std::move(o)) {
  if (session != nullptr) share_cores(*session);
  comm = std::make_shared<Communicator>(exchanges(options, session) ? session : nullptr);
  if (!options.schedule.type.empty()) check(options.schedule);
  if (!options.momentum.type.empty()) check(options.momentum);
  if (comm->size() > ranks()) check_servers();
  if (comm->shared()) {
    expect_same(comm->session(), "trainer", named_values(options));
    expect_same(comm->session(), fmt::format("net \"{}\"", net.options().name), named_values(net));
  }
  const Plan plan = make_plan(net, options.plan, ranks(), options.batch);
  broadcast_initial_state(net, *comm);
  shares = plan.shares();
  layout = Layout(net, plan, comm);
  exchange = make_exchange(net, options, layout, *comm);
  own_rule = find_user_rule(options.updater.rule) != nullptr;
  net.control().set_gradient_scale(plan.deterministic ? 1 : gradient_scale());
  net.control().set_deterministic(plan.deterministic);
  if (ranks() > 1 && synchronous()) net.control().set_parts(comm.get());
  net.prepare(local());
  seed.values<std::int64_t>()[0] = static_cast<std::int64_t>(net.options().seed);
  ready = [this](std::size_t parameter) {
    exchange->ready(parameter);
    if (net.parameters()[parameter].apart) exchange->finish();  // the memory of its gradient is reused
  };
}

Trainer::Impl::~Impl() {
  net.control().set_gradient_scale(1);
  net.control().set_deterministic(false);
  net.control().set_parts(nullptr);
  net.control().set_trace(nullptr);
}

void Trainer::Impl::check_servers() const {
  if (options.exchange != ExchangeKind::tables || options.plan.kind != PlanKind::data) {
    throw InvalidArgument(
        fmt::format("{} of {} ranks only serve, which requires exchange \"tables\" and plan \"data\"; "
                    "received \"{}\" and \"{}\"",
                    comm->size() - ranks(), comm->size(), options.exchange.text(), options.plan.kind.text()));
  }
  for (const std::string& name : net.layer_names()) {
    if (net.layer(name).capabilities().coupled != nullptr) {
      throw InvalidArgument(fmt::format("layer \"{}\" sums over the batch of all ranks, of which {} only serve", name,
                                        comm->size() - ranks()));
    }
  }
}

StepRates Trainer::Impl::rates() const {
  return {
      .learning_rate = options.schedule.type.empty() ? options.updater.learning_rate : rate_at(options.schedule, now()),
      .momentum = options.momentum.type.empty() ? options.updater.momentum : rate_at(options.momentum, now())};
}

double Trainer::Impl::gradient_scale() const {
  const int groups = std::max(options.groups, 1);
  if (shares != ranks() || serves())
    return static_cast<double>(groups) / ranks();  // ranks that split images share samples
  return static_cast<double>(groups) * static_cast<double>(local()) / static_cast<double>(options.batch);
}

std::string Trainer::Impl::where_not_finite(double loss) const {
  return fmt::format("the loss is {}; the first layer, in forward order, with an output that is not finite is \"{}\"",
                     loss, nn::first_not_finite(net));
}

void Trainer::Impl::check_loss(double loss) {
  const bool bad = !std::isfinite(loss);
  if (!options.check_finite) {
    if (bad && !reported_not_finite) {
      fmt::print(stderr, "pleiad: step {}: {}; training continues because check_finite is off\n", now(),
                 where_not_finite(loss));
      reported_not_finite = true;
    }
    return;
  }
  if (!(synchronous() ? any(bad) : bad)) return;
  std::string where = bad ? where_not_finite(loss) : "";
  if (synchronous() && comm->size() > 1) where = first_error(*comm, where);
  throw StateError(fmt::format("step {}: {}", now(), where));
}

void Trainer::Impl::check_rule() {
  if (!own_rule) return;
  std::string problem = exchange->take_problem();
  if (!(synchronous() ? any(!problem.empty()) : !problem.empty())) return;
  if (synchronous() && comm->size() > 1) problem = first_error(*comm, problem);
  throw RuleError(fmt::format("step {}: {}", now(), problem));
}

double Trainer::Impl::train() {
  if (serves()) {
    check_loss(0);
    check_rule();
    ++step.values<std::int64_t>()[0];
    place.values<std::int64_t>()[0] += options.batch;
    return 0;
  }
  Trace* const tracer = tracing();
  net.control().set_trace(tracer);
  net.forward(nn::Phase::train, now(), first());
  const double loss = net.loss();
  check_loss(loss);
  exchange->begin(rates(), tracer);
  net.backward(ready);
  exchange->finish();
  net.control().set_trace(nullptr);
  check_rule();
  ++step.values<std::int64_t>()[0];
  place.values<std::int64_t>()[0] += options.batch;
  return loss;
}

bool Trainer::Impl::any(bool mine) {
  if (comm->size() == 1) return mine;
  double vote = mine ? 1 : 0;
  comm->sum({&vote, 1});
  return vote > 0;
}

Trace* Trainer::Impl::tracing() {
  if (options.trace.empty() || now() < trace_begin || now() >= trace_begin + options.trace_steps) return nullptr;
  traced = true;
  return &trace;
}

void Trainer::Impl::write_trace() {
  if (!any(traced)) return;
  traced = false;
  const std::vector<std::string> all = comm->gather_texts(trace.take(rank()));
  if (rank() != 0) return;
  const std::string document = Trace::document(all);
  write_whole_file(options.trace, std::as_bytes(std::span(document)));
}

Trainer::Trainer(nn::Net& net, TrainOptions options)
    : impl_(std::make_unique<Impl>(net, std::move(options), nullptr)) {}
Trainer::Trainer(nn::Net& net, TrainOptions options, Session& session)
    : impl_(std::make_unique<Impl>(net, std::move(options), &session)) {}
Trainer::~Trainer() = default;

double Trainer::step() { return impl_->train(); }
std::int64_t Trainer::current_step() const { return impl_->now(); }
std::int64_t Trainer::current_place() const { return impl_->place.values<std::int64_t>()[0]; }
std::int64_t Trainer::local_batch() const { return impl_->local(); }
std::int64_t Trainer::batch() const { return impl_->options.batch; }
int Trainer::share() const { return impl_->share(); }
int Trainer::shares() const { return impl_->shares; }

std::string Trainer::where_not_finite() const {
  const double loss = impl_->net.loss();
  return std::isfinite(loss) ? "" : impl_->where_not_finite(loss);
}

void Trainer::expect_finite(const std::string& where) {
  Impl& in = *impl_;
  if (!in.any(!where.empty())) return;
  const std::string first = in.comm->size() > 1 ? first_error(*in.comm, where) : where;
  const std::string text = fmt::format("evaluation at step {}: {}", in.now(), first);
  if (in.options.check_finite) throw StateError(text);
  if (in.rank() == 0) fmt::print(stderr, "pleiad: {}\n", text);
}

Report Trainer::evaluate(Samples& samples, nn::Phase phase, std::int64_t batches, std::int64_t batch) {
  Impl& in = *impl_;
  if (batch <= 0) {
    batch = in.options.batch;
  } else if (batch < in.shares) {
    throw InvalidArgument(fmt::format("batch size {} is less than the {} ranks", batch, in.shares));
  } else if (batch % in.shares != 0 && !in.uneven()) {
    throw InvalidArgument(
        fmt::format("batch size {} is not divisible by the {} ranks, which split layers", batch, in.shares));
  }
  const Interval part = in.part_of_batch(batch);
  const std::int64_t whole = samples.count() / batch;
  if (whole == 0) {
    throw InvalidArgument(fmt::format("{} samples are less than one batch of {}", samples.count(), batch));
  }
  in.net.prepare(part.size());
  if (batches <= 0 || batches > whole) batches = whole;
  const std::int64_t start = now_ns();
  MetricsMean mean;
  if (in.serves()) {
    mean.add_nothing(in.net.metrics());
    batches = 0;
  } else {
    samples.expect(batch, in.share(), in.shares);
  }
  in.net.control().forget(phase == nn::Phase::train ? nn::Phase::test : phase);
  std::string not_finite;
  for (std::int64_t b = 0; b < batches; ++b) {
    samples.fill(in.net, b * batch + part.begin, part.size());
    in.net.forward(phase, in.now(), part.begin);
    mean.add(in.net.metrics(), part.size());
    if (not_finite.empty()) not_finite = where_not_finite();
  }
  Report report{.step = in.now(), .phase = phase, .metrics = mean.take(*in.comm, in.options.plan.deterministic)};
  report.samples_per_second = static_cast<double>(batches * batch) * 1e9 / static_cast<double>(now_ns() - start);
  expect_finite(not_finite);
  in.net.prepare(in.local());
  return report;
}

namespace {

/// Excludes its lifetime from the measured training time by moving `moment` forward.
class TimingPause {
 public:
  explicit TimingPause(std::int64_t& moment) : moment_(moment), start_(now_ns()) {}
  ~TimingPause() { moment_ += now_ns() - start_; }
  TimingPause(const TimingPause&) = delete;
  TimingPause& operator=(const TimingPause&) = delete;

 private:
  std::int64_t& moment_;
  const std::int64_t start_;
};

/// The periodic actions of a run: reports, evaluation, checkpoints and event logs.
class TrainingRun {
 public:
  TrainingRun(Trainer& trainer, Trainer::Impl& in, const TrainCalls& calls)
      : trainer_(trainer), in_(in), calls_(calls), shown_at_(in.now()), shown_ns_(now_ns()) {
    for (const std::string& layer : in.options.events_pictures) {  // throws on all ranks, before the first step
      if (const Shape shape = in.net.output(layer).shape(); !makes_pictures(shape)) {
        throw InvalidArgument(fmt::format(
            "events_pictures: outputs of \"{}\" have shape {} and cannot be shown as images", layer, shape.text()));
      }
    }
    if (!in.options.events.empty() && in.rank() == 0) log_.emplace(in.options.events);
  }

  bool tell(const Report& report) {
    if (log_) log(report);
    return !calls_.report || calls_.report(report);
  }
  /// Writes parameters and layer outputs to the event log.
  void details() {
    if (!log_) return;
    log_parameters(*log_, in_.net, in_.now());
    for (const std::string& layer : in_.options.events_pictures) {
      log_pictures(*log_, "outputs/" + layer, in_.net.output(layer), in_.now());
    }
    log_->flush();
  }

  bool evaluate(Samples* samples, nn::Phase phase) {
    const TimingPause pause(shown_ns_);
    const TrainOptions& o = in_.options;
    const bool test = phase == nn::Phase::test;
    return samples == nullptr || tell(trainer_.evaluate(*samples, phase, test ? o.test_batches : o.validate_batches,
                                                        test ? o.test_batch : o.validate_batch));
  }

  bool checkpoint() {
    const TimingPause pause(shown_ns_);
    saved_at_ = in_.now();
    bool go_on = true;
    if (!in_.options.checkpoint_folder.empty()) go_on = save();
    return (!calls_.checkpoint || calls_.checkpoint(in_.now())) && go_on;
  }
  [[nodiscard]] bool saved() const { return saved_at_ == in_.now(); }

  void count() {
    if (in_.options.display == 0) return;
    in_.serves() ? mean_.add_nothing(in_.net.metrics()) : mean_.add(in_.net.metrics(), in_.local());
  }
  bool display() {
    const std::int64_t ns = now_ns();
    const double samples = static_cast<double>((in_.now() - shown_at_) * in_.options.batch);
    const double seconds = static_cast<double>(ns - shown_ns_) / 1e9;
    shown_at_ = in_.now();
    shown_ns_ = ns;
    return tell({.step = in_.now() - (in_.options.from_zero ? 1 : 0),
                 .phase = nn::Phase::train,
                 .metrics = mean_.take(*in_.comm, in_.options.plan.deterministic),
                 .samples_per_second = samples / seconds});
  }

 private:
  bool save() const {
    try {
      trainer_.checkpoint();
    } catch (const FileError& error) {
      if (!calls_.checkpoint_failed) throw;
      return calls_.checkpoint_failed(error.what());
    }
    return true;
  }

  void log(const Report& report) {
    const std::string phase = report.phase == nn::Phase::train      ? "train"
                              : report.phase == nn::Phase::validate ? "validate"
                                                                    : "test";
    for (const auto& [name, value] : report.metrics)
      log_->scalar(fmt::format("{}/{}", phase, name), report.step, value);
    log_->scalar(phase + "/samples_per_second", report.step, report.samples_per_second);
    log_->flush();
  }

  std::optional<EventLog> log_;
  Trainer& trainer_;
  Trainer::Impl& in_;
  const TrainCalls& calls_;
  MetricsMean mean_;
  std::int64_t shown_at_;
  std::int64_t shown_ns_;
  std::int64_t saved_at_ = -1;
};

}  // namespace

void Trainer::train_on(Samples& samples) {
  Impl& in = *impl_;
  in.trained_on = samples.identity();
  if (in.comm->shared()) {
    in.comm->run([&] {
      expect_same(in.comm->session(), "samples",
                  {{"count", fmt::format("{}", samples.count())}, {"identity", in.trained_on}});
    });
  }
  if (!in.loaded_on.empty() && !in.trained_on.empty() && in.loaded_on != in.trained_on) {
    throw InvalidArgument(fmt::format("the checkpoint was trained on {}; received {}", in.loaded_on, in.trained_on));
  }
  in.loaded_on.clear();
  if (!in.serves()) samples.expect(in.options.batch, in.share(), in.shares);
}

bool Trainer::run(Samples& train, Samples* validate, Samples* test, const TrainCalls& calls) {
  Impl& in = *impl_;
  const TrainOptions& o = in.options;
  train_on(train);
  in.trace_begin = in.now() + o.trace_from;
  const Interrupt interrupt;
  TrainingRun run(*this, in, calls);
  const bool sync = in.synchronous();
  bool stop = false;
  bool ended = true;
  while (ended && in.now() < o.steps) {
    const std::int64_t at = in.now();
    bool go_on = true;
    if (due(o, o.validate, o.validate_after, at)) go_on &= run.evaluate(validate, nn::Phase::validate);
    if (due(o, o.test, o.test_after, at)) go_on &= run.evaluate(test, nn::Phase::test);
    if (due(o, o.checkpoint, o.checkpoint_after, at)) go_on &= run.checkpoint();
    if (go_on || !sync) {  // without a common clock, a rank continues until all have voted
      if (!in.serves()) {
        static const std::string no_name;
        const Trace::Span span(in.tracing(), Trace::Track::loader, "fill", no_name);
        train.fill(in.net, in.place.values<std::int64_t>()[0] + in.first(), in.local());
      }
      (void)in.train();
      run.count();
      if (due(o, o.display, o.display_after, in.now() - (o.from_zero ? 1 : 0))) go_on &= run.display();
      if (o.events_details > 0 && in.now() % o.events_details == 0) run.details();
      if (calls.stop && calls.stop(in.now())) go_on = false;
    }
    stop |= !go_on || interrupt.raised();
    if ((sync || in.now() % kAsyncVotes == 0) && in.any(stop)) ended = false;
  }
  if (ended && o.test > 0) {
    if (!sync) (void)in.exchange->optimizer_state();  // copies everything that all ranks have added to this rank
    (void)run.evaluate(test, nn::Phase::test);
  }
  if ((o.checkpoint > 0 || o.checkpoint_at_end) && !run.saved()) (void)run.checkpoint();
  in.write_trace();
  return ended;
}

}  // namespace pleiad
