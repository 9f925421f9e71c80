// Python bindings of samples and the trainer. The loop over epochs is in Python; each call runs several steps without
// the GIL.
#include "pleiad/train.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "core/option_list.h"
#include "core/threads.h"
#include "nn/interrupt.h"
#include "nn/phase.h"
#include "nn/tensors.h"
#include "plan/expect_same.h"
#include "session.h"
#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

using Sums = std::vector<std::pair<std::string, double>>;

/// Adds factor * metrics to sums, in the order of the metrics. With factor 0 it adds their names only.
void add(Sums& sums, const Sums& metrics, double factor) {
  if (sums.empty()) {
    for (const auto& [name, value] : metrics) sums.emplace_back(name, 0);
  }
  for (std::size_t i = 0; factor != 0 && i < sums.size(); ++i) sums[i].second += factor * metrics[i].second;
}

/// Samples that a Python object with the protocol of pleiad.nn.indexed.Filler writes into the net.
class PythonSamples final : public Samples {
 public:
  explicit PythonSamples(nb::object object)
      : object_(std::move(object)),
        count_(nb::cast<std::int64_t>(object_.attr("count"))),
        weighted_(nb::cast<bool>(object_.attr("weighted"))),
        identity_(nb::cast<std::string>(object_.attr("identity"))) {}
  ~PythonSamples() override {
    const nb::gil_scoped_acquire lock;
    object_.reset();
  }
  PythonSamples(const PythonSamples&) = delete;
  PythonSamples& operator=(const PythonSamples&) = delete;

  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] bool weighted() const override { return weighted_; }
  [[nodiscard]] std::string identity() const override { return identity_; }
  void fill(nn::Net& /*net*/, std::int64_t first, std::int64_t count) override {
    const nb::gil_scoped_acquire lock;
    object_.attr("fill")(first, count);
  }

 private:
  nb::object object_;
  const std::int64_t count_;
  const bool weighted_;
  const std::string identity_;
};

class TrainerHandle {
 public:
  TrainerHandle(nn::Net& net, TrainOptions options, const SessionHandle* session) : net_(net), batch_(options.batch) {
    if (session == nullptr) {
      waiting([&] { trainer_ = std::make_unique<Trainer>(net, std::move(options)); });
      return;
    }
    const std::shared_ptr<Session> shared = session->share();
    session_ = shared;
    in_session_ = true;
    if (options.exchange != ExchangeKind::none) {
      rank_ = shared->rank();
      ranks_ = shared->size();
    }
    // The exchange waits on its own thread, where Python signal handlers do not run.
    shared->set_interrupt([check = signal_check()] { return check() || Interrupt::overdue(); });
    waiting([&] { trainer_ = std::make_unique<Trainer>(net, std::move(options), *shared); });
  }
  ~TrainerHandle() {
    const nb::gil_scoped_release release;
    trainer_.reset();
  }
  TrainerHandle(const TrainerHandle&) = delete;
  TrainerHandle& operator=(const TrainerHandle&) = delete;

  /// Runs body(trainer) without the GIL and keeps the session alive meanwhile.
  template <class F>
  auto use(F&& body) {
    const std::shared_ptr<Session> held = session_.lock();
    if (in_session_ && held == nullptr)
      throw StateError("the session of this trainer has ended; create another trainer");
    const Interrupt interrupt;
    return waiting([&] { return body(*trainer_); });
  }

  /// Makes up to `steps` steps. Returns their number, the number of samples that this rank computed, and the sum of the
  /// metrics over these samples. With `incomplete`, each pass over the samples ends with an incomplete batch. On one
  /// rank Ctrl-C ends it after a step. Several ranks must make the same number of steps, so they agree on ending
  /// afterwards.
  std::tuple<std::int64_t, std::int64_t, Sums> train(Samples& samples, std::int64_t steps, bool incomplete) {
    return use([&](Trainer& trainer) {
      Sums sums;
      std::int64_t done = 0;
      std::int64_t seen = 0;
      samples.expect(batch_, trainer.share(), trainer.shares());
      samples.set_last(incomplete ? LastBatch::shorter : LastBatch::wrap);
      net_.control().weigh_samples(samples.weighted());
      while (done < steps && !(ranks_ == 1 && Interrupt::raised())) {
        trainer.prepare_batch(incomplete ? batch_at(trainer.current_place(), samples.count()) : batch_);
        const Interval rows = trainer.local_rows();
        if (rows.size() > 0) samples.fill(net_, trainer.current_place() + rows.begin, rows.size());
        (void)trainer.step();
        add(sums, net_.metrics(), static_cast<double>(rows.size()));
        seen += rows.size();
        ++done;
      }
      return std::tuple(done, seen, sums);
    });
  }

  /// Prepares the net for a batch of `batch` samples over all ranks, and returns this rank's rows of it. The caller
  /// writes the inputs and calls step_prepared.
  std::pair<std::int64_t, std::int64_t> prepare_batch(std::int64_t batch) {
    return use([&](Trainer& trainer) {
      trainer.prepare_batch(batch);
      return std::pair(trainer.local_rows().begin, trainer.local_rows().end);
    });
  }
  /// Makes one step on the prepared batch. Returns the metrics, each multiplied by the number of this rank's samples.
  Sums step_prepared() {
    return use([&](Trainer& trainer) {
      (void)trainer.step();
      Sums sums;
      add(sums, net_.metrics(), static_cast<double>(trainer.local_rows().size()));
      return sums;
    });
  }

  /// Makes one step on the current contents of the net's inputs.
  double step() {
    return use([&](Trainer& trainer) {
      if (net_.batch() != trainer.local_batch()) {
        throw StateError(fmt::format("the trainer expects a batch of {}; the net is prepared for {}",
                                     trainer.local_batch(), net_.batch()));
      }
      trainer.prepare_batch(batch_);
      return trainer.step();
    });
  }

  /// Returns the sums of the metrics of `count` samples from `first` on: each mean multiplied by the number of samples
  /// that it covers. Collective, because a loss that is not finite on one rank is an error on all.
  Sums evaluate(Samples& samples, const std::string& phase_name, std::int64_t first, std::int64_t count) {
    const nn::Phase phase = phase_named(phase_name);
    return use([&](Trainer& trainer) {
      Sums sums;
      std::string not_finite;
      const std::int64_t end = first + count;
      samples.expect(trainer.local_batch(), 0, 1);  // this rank reads all positions, not a shard
      samples.set_last(LastBatch::wrap);
      net_.control().weigh_samples(samples.weighted());
      if (phase != nn::Phase::train) net_.control().forget(phase);
      for (std::int64_t at = first; at < end && !(ranks_ == 1 && Interrupt::raised());) {
        const std::int64_t rows = std::min(trainer.local_batch(), end - at);
        net_.prepare(rows);
        samples.fill(net_, at, rows);
        net_.forward(phase, trainer.current_step(), at);
        add(sums, net_.metrics(), static_cast<double>(rows));
        if (not_finite.empty()) not_finite = trainer.where_not_finite();
        at += rows;
      }
      trainer.expect_finite(not_finite);
      net_.prepare(trainer.local_batch());
      return sums;
    });
  }

  /// Returns the averages over whole batches. Collective, because layers that are split over the ranks need all of
  /// them.
  Sums evaluate_together(Samples& samples, const std::string& phase_name) {
    const nn::Phase phase = phase_named(phase_name);
    return use([&](Trainer& trainer) {
      net_.prepare(trainer.local_batch());
      return trainer.evaluate(samples, phase).metrics;
    });
  }

  [[nodiscard]] Trainer& trainer() const { return *trainer_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  /// Returns the size of the batch that begins at a position of the sequence, if a pass has `count` samples.
  [[nodiscard]] std::int64_t batch_at(std::int64_t place, std::int64_t count) const {
    const std::int64_t within = place % count;
    return std::min(batch_ - within % batch_, count - within);
  }

  nn::Net& net_;
  std::int64_t batch_;
  std::weak_ptr<Session> session_;  // weak, because leaving a session must destroy it
  bool in_session_ = false;
  int rank_ = 0;
  int ranks_ = 1;
  std::unique_ptr<Trainer> trainer_;
};

TrainOptions options_of(std::int64_t batch, const std::map<std::string, std::string>& updater,
                        const nn::Schedule* schedule, const nn::Schedule* momentum, const std::string& exchange,
                        const std::string& clock, bool fuse, bool check_finite, const PlanOptions& plan,
                        const std::string& checkpoint, int keep, double clip_norm, int schedule_state) {
  TableOptions rule;
  for (const auto& [name, value] : updater) set_option(rule, name, value);
  TrainOptions options{.batch = batch, .updater = rule.updater, .exchange = exchange, .fuse = fuse};
  options.clock = clock;
  options.check_finite = check_finite;
  options.plan = plan;
  options.checkpoint_folder = checkpoint;
  options.checkpoint_keep = keep;
  options.clip_norm = clip_norm;
  options.schedule_state = schedule_state;
  if (schedule != nullptr) options.schedule = *schedule;
  if (momentum != nullptr) options.momentum = *momentum;
  return options;
}

}  // namespace

void bind_training(nb::module_& m) {
  m.def("threads", &compute_threads);
  m.def("set_threads", &set_compute_threads, nb::arg("count"));

  m.def(
      "expect_same",
      [](const SessionHandle& session, const std::string& what, const NamedValues& mine) {
        const std::shared_ptr<Session> shared = session.share();
        waiting([&] { expect_same(*shared, what, mine); });
      },
      nb::arg("session"), nb::arg("what"), nb::arg("mine"),
      nb::sig("def expect_same(session: pleiad._core.Session, what: str, mine: "
              "collections.abc.Sequence[tuple[str, str]]) -> None"));

  nb::class_<Samples>(m, "Samples")
      .def("count", &Samples::count)
      .def_prop_ro("allows_incomplete", &Samples::allows_incomplete);
  m.def(
      "array_samples",
      [](const nb::dict& arrays, bool shuffle, std::uint64_t seed, const nb::object& weights) {
        ArraySamplesOptions options{.shuffle = shuffle, .seed = seed};
        if (!weights.is_none()) options.weights = tensor_of(weights, "sample weights");
        return array_samples(tensors_of(arrays, "samples"), std::move(options)).release();
      },
      nb::rv_policy::take_ownership, nb::arg("arrays"), nb::arg("shuffle"), nb::arg("seed"), nb::arg("weights").none(),
      nb::sig(
          "def array_samples(arrays: dict[str, numpy.typing.NDArray[typing.Any]], shuffle: bool, seed: int, weights: "
          "numpy.typing.NDArray[typing.Any] | None) -> Samples"));
  m.def(
      "python_samples",
      [](nb::object object) -> Samples* { return std::make_unique<PythonSamples>(std::move(object)).release(); },
      nb::rv_policy::take_ownership, nb::arg("object"), nb::sig("def python_samples(object: object) -> Samples"));

  m.def(
      "text_samples",
      [](const nb::bytes& text, const std::string& input, std::int64_t steps, const nb::bytes& vocabulary) {
        return text_samples(std::string(text.c_str(), text.size()),
                            {.input = input, .steps = steps, .vocabulary = {vocabulary.c_str(), vocabulary.size()}})
            .release();
      },
      nb::rv_policy::take_ownership, nb::arg("text"), nb::arg("input"), nb::arg("steps"), nb::arg("vocabulary"));
  m.def(
      "explain",
      [](const nn::Net& net, const std::string& plan, const std::vector<std::string>& split, const std::string& grid,
         int ranks, std::int64_t batch, bool deterministic) {
        return explain(
            make_plan(net, {.kind = plan, .split = split, .grid = grid, .deterministic = deterministic}, ranks, batch));
      },
      nb::arg("net"), nb::arg("plan"), nb::arg("split"), nb::arg("grid"), nb::arg("ranks"), nb::arg("batch"),
      nb::arg("deterministic"));

  using H = TrainerHandle;
  nb::class_<H>(m, "Trainer")
      .def(
          "__init__",
          [](H* self, nn::Net& net, std::int64_t batch, const std::map<std::string, std::string>& updater,
             const nn::Schedule* schedule, const nn::Schedule* momentum, const std::string& exchange,
             const std::string& clock, bool fuse, bool check_finite, const std::string& plan,
             const std::vector<std::string>& split, const std::string& grid, bool deterministic,
             const std::string& checkpoint, int keep, double clip_norm, int schedule_state,
             const SessionHandle* session) {
            const PlanOptions how{.kind = plan, .split = split, .grid = grid, .deterministic = deterministic};
            new (self) H(net,
                         options_of(batch, updater, schedule, momentum, exchange, clock, fuse, check_finite, how,
                                    checkpoint, keep, clip_norm, schedule_state),
                         session);
          },
          nb::keep_alive<1, 2>(), nb::arg("net"), nb::arg("batch"), nb::arg("updater"), nb::arg("schedule").none(),
          nb::arg("momentum").none(), nb::arg("exchange"), nb::arg("clock"), nb::arg("fuse"), nb::arg("check_finite"),
          nb::arg("plan"), nb::arg("split"), nb::arg("grid"), nb::arg("deterministic"), nb::arg("checkpoint"),
          nb::arg("keep"), nb::arg("clip_norm"), nb::arg("schedule_state"), nb::arg("session").none(),
          nb::sig("def __init__(self, net: Net, batch: int, updater: collections.abc.Mapping[str, str], schedule: "
                  "Schedule | None, "
                  "momentum: Schedule | None, exchange: str, clock: str, fuse: bool, check_finite: bool, plan: str, "
                  "split: collections.abc.Sequence[str], grid: str, deterministic: bool, checkpoint: str, keep: int, "
                  "clip_norm: float, schedule_state: int, session: pleiad._core.Session | None) -> None"))
      .def(
          "train_on",
          [](H& h, Samples& samples, bool incomplete) {
            h.use([&](Trainer& t) { t.train_on(samples, incomplete ? LastBatch::shorter : LastBatch::wrap); });
          },
          nb::arg("samples"), nb::arg("incomplete"))
      .def(
          "begin_pass", [](H& h, const Samples& samples) { h.use([&](Trainer& t) { t.begin_pass(samples); }); },
          nb::arg("samples"))
      .def(
          "check_batch", [](const H& h, std::int64_t batch) { h.trainer().check_batch(batch); }, nb::arg("batch"))
      .def("evaluate_together", &H::evaluate_together, nb::arg("samples"), nb::arg("phase"))
      .def(
          "save", [](H& h, const std::string& folder) { h.use([&](Trainer& t) { t.save(folder); }); },
          nb::arg("folder"))
      .def(
          "load", [](H& h, const std::string& folder) { h.use([&](Trainer& t) { t.load(folder); }); },
          nb::arg("folder"))
      .def("whole_net", [](H& h) { return h.use([](Trainer& t) { return t.whole_net(); }); })
      .def("checkpoint", [](H& h) { h.use([](Trainer& t) { t.checkpoint(); }); })
      .def("resume", [](H& h) { return h.use([](Trainer& t) { return t.resume(); }); })
      .def("train", &H::train, nb::arg("samples"), nb::arg("steps"), nb::arg("incomplete"))
      .def("prepare_batch", &H::prepare_batch, nb::arg("batch"))
      .def("step_prepared", &H::step_prepared)
      .def("step", &H::step)
      .def("evaluate", &H::evaluate, nb::arg("samples"), nb::arg("phase"), nb::arg("first"), nb::arg("count"))
      .def_prop_ro("current_step", [](const H& h) { return h.trainer().current_step(); })
      .def(
          "set_schedule", [](H& h, const nn::Schedule& schedule) { h.trainer().set_schedule(schedule); },
          nb::arg("schedule"))
      .def(
          "set_momentum", [](H& h, const nn::Schedule& momentum) { h.trainer().set_momentum(momentum); },
          nb::arg("momentum"))
      .def(
          "schedule_state", [](const H& h) { return array_of(h.trainer().schedule_state()); },
          nb::sig("def schedule_state(self) -> numpy.typing.NDArray[typing.Any]"))
      .def_prop_ro("current_place", [](const H& h) { return h.trainer().current_place(); })
      .def_prop_ro("local_batch", [](const H& h) { return h.trainer().local_batch(); })
      .def_prop_ro("share", [](const H& h) { return h.trainer().share(); })
      .def_prop_ro("shares", [](const H& h) { return h.trainer().shares(); })
      .def_prop_ro("rank", &H::rank)
      .def_prop_ro("ranks", &H::ranks)
      .def(
          "state", [](H& h) { return arrays_of(h.use([](Trainer& t) { return t.state(); })); },
          nb::sig("def state(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def(
          "load_state",
          [](H& h, const nb::dict& arrays) {
            const auto tensors = tensors_of(arrays, "state");
            h.use([&](Trainer& t) { t.load_state(tensors); });
          },
          nb::arg("arrays"),
          nb::sig("def load_state(self, arrays: dict[str, numpy.typing.NDArray[typing.Any]]) -> None"));
}

}  // namespace pleiad::python
