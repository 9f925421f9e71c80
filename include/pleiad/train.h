// The trainer: batch, forward, loss, backward, exchange, update, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/init.h"
#include "pleiad/nn/net.h"
#include "pleiad/options.h"
#include "pleiad/session.h"
#include "pleiad/tensor.h"

namespace pleiad {

/// Where samples come from. One order of samples for all ranks: which sample stands where in which batch depends on the
/// step alone, so the number of ranks does not change the training, and a run can be resumed at any step.
class PLEIAD_API Samples {
 public:
  virtual ~Samples() = default;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// Writes places first to first + count - 1 of the whole run's sequence of samples into the net's inputs, from row 0
  /// on.
  virtual void fill(nn::Net& net, std::int64_t first, std::int64_t count) = 0;
};

/// Samples in memory: one tensor for each input of the net, of as many rows. Every round through them is shuffled anew
/// where `shuffle` says so, by the seed.
struct ArraySamplesOptions {
  bool shuffle = true;
  std::uint64_t seed = 1;
};
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> array_samples(std::vector<std::pair<std::string, Tensor>> inputs,
                                                                ArraySamplesOptions options = {});

struct TrainOptions {
  std::int64_t batch = 64;                             ///< of all ranks together
  UpdaterOptions updater = {.rule = "sgd"};            ///< the tables' own rules
  nn::Schedule schedule = {.type = "", .base = 0.01};  ///< of the learning rate; type "": updater.learning_rate
  nn::Schedule momentum = {.type = "", .base = 0};     ///< of the momentum; type "": updater.momentum
  std::string exchange = "auto";  ///< auto | none | all_reduce | tables; auto: all_reduce where there are more ranks
  bool fuse = true;               ///< update while the gradient is in cache, where nothing is exchanged
  bool check_finite = false;      ///< stop where the loss is no number, and name the layer where it arose
  std::int64_t steps = 1000;
  std::int64_t display = 0;  ///< every so many steps; 0: never
  std::int64_t validate = 0;
  std::int64_t validate_batches = 0;  ///< 0: all samples once
  std::int64_t test = 0;
  std::int64_t test_batches = 0;
  std::int64_t checkpoint = 0;
};

struct Report {
  std::int64_t step = 0;
  nn::Phase phase = nn::Phase::train;
  std::vector<std::pair<std::string, double>>
      metrics;  ///< averages: over the steps since the last report, or the batches
  double samples_per_second = 0;
};

/// Each returns false to end the run after this step; what is empty is not called.
struct TrainCalls {
  std::function<bool(const Report&)> report = {};
  std::function<bool(std::int64_t step)> checkpoint = {};
  std::function<bool(std::int64_t step)> stop = {};  ///< asked after each step, on every rank
};

/// Trains a net on one process, or on the ranks of a session, all of which make the same calls. The net and the session
/// outlive it. One thread calls it.
class PLEIAD_API Trainer {
 public:
  Trainer(nn::Net& net, TrainOptions options);
  Trainer(nn::Net& net, TrainOptions options, Session& session);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One step on what stands in the net's inputs. Returns this rank's loss.
  double step();
  /// From the current step to options.steps, or until a call says stop: validate, test, checkpoint, train, display, as
  /// their frequencies say. True where it came to the end. SIGINT ends it after the step that is under way, where
  /// nobody else handles SIGINT.
  bool run(Samples& train, Samples* validate = nullptr, Samples* test = nullptr, const TrainCalls& calls = {});
  /// Averages of the metrics over batches of `samples`, on all ranks together; `batches` 0: all samples, but for a last
  /// batch that is not full.
  [[nodiscard]] Report evaluate(Samples& samples, nn::Phase phase, std::int64_t batches = 0);

  [[nodiscard]] std::int64_t current_step() const;
  /// This rank's part of the batch.
  [[nodiscard]] std::int64_t local_batch() const;
  /// Everything that a resumed run needs to go on with the same bits: parameters, states, the rule's history, the step.
  /// The tensors are the trainer's own memory. Where tables hold the parameters, this is collective.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state();
  /// From a state() of the same net and rule; a missing or misshapen tensor is an InvalidArgument that names it.
  void load_state(const std::vector<std::pair<std::string, Tensor>>& state);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace pleiad
