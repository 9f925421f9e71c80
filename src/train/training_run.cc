// A run of the trainer: its steps, and the reports, evaluations, checkpoints and event logs between them.
#include <fmt/format.h>

#include <optional>

#include "plan/expect_same.h"
#include "pleiad/error.h"
#include "train/event_log.h"
#include "train/interrupt.h"
#include "train/metrics_mean.h"
#include "train/trainer_impl.h"

namespace pleiad {
namespace {

bool due(const TrainOptions& options, std::int64_t frequency, std::int64_t after, std::int64_t step) {
  return frequency > 0 && step >= after && (options.from_zero || step > 0) && (step - after) % frequency == 0;
}

// Ranks that do not wait for one another vote rarely, because a vote makes them wait.
constexpr std::int64_t kAsyncVotes = 16;

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

void Trainer::train_on(Samples& samples, LastBatch last) {
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
  if (in.serves()) return;
  samples.expect(in.options.batch, in.share(), in.shares);
  samples.set_last(last);
}

bool Trainer::run(Samples& train, Samples* validate, Samples* test, const TrainCalls& calls) {
  Impl& in = *impl_;
  const TrainOptions& o = in.options;
  train_on(train);
  if (!in.serves()) prepare_batch(o.batch);
  in.trace.begin_at(in.now() + o.trace_from);
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
        const Trace::Span span(in.trace.at(in.now()), Trace::Track::loader, "fill", no_name);
        in.net.control().weigh_samples(train.weighted());
        train.fill(in.net, in.place.values<std::int64_t>()[0] + in.first(), in.local());
      }
      (void)in.train();
      run.count();
      if (due(o, o.display, o.display_after, in.now() - (o.from_zero ? 1 : 0))) go_on &= run.display();
      if (o.events_details > 0 && in.now() % o.events_details == 0) run.details();
      if (calls.stop && calls.stop(in.now())) go_on = false;
    }
    stop |= !go_on || interrupt.raised();
    if ((sync || in.now() % kAsyncVotes == 0) && in.comm->any(stop)) ended = false;
  }
  if (ended && o.test > 0) {
    if (!sync) (void)in.exchange->optimizer_state();  // copies everything that all ranks have added to this rank
    (void)run.evaluate(test, nn::Phase::test);
  }
  if ((o.checkpoint > 0 || o.checkpoint_at_end) && !run.saved()) (void)run.checkpoint();
  in.trace.write(*in.comm);
  return ended;
}

}  // namespace pleiad
