// The trainer: batch, forward, loss, backward, exchange, update, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/data.h"
#include "pleiad/events.h"
#include "pleiad/nn/init.h"
#include "pleiad/nn/net.h"
#include "pleiad/options.h"
#include "pleiad/plan.h"
#include "pleiad/session.h"
#include "pleiad/tensor.h"

namespace pleiad {

class ParameterRule;

/// Where samples come from. One order of samples for all ranks: which sample stands where in which batch depends on the
/// step alone, so the number of ranks does not change the training, and a run can be resumed at any step.
class PLEIAD_API Samples {
 public:
  virtual ~Samples() = default;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// Writes places first to first + count - 1 of the whole run's sequence of samples into the net's inputs, from row 0
  /// on.
  virtual void fill(nn::Net& net, std::int64_t first, std::int64_t count) = 0;
  /// Called before a run: fills come in order, `batch` samples apart. Each asks for part `rank` of `ranks` of a batch,
  /// which begins at sample batch * rank / ranks.
  virtual void expect(std::int64_t batch, int rank, int ranks);
  /// One line that tells these samples, in this order, from others. A run that goes on from a checkpoint with samples
  /// that differ is refused; empty: nobody looks.
  [[nodiscard]] virtual std::string identity() const { return {}; }
};

/// Samples in memory: one tensor for each input of the net, of as many rows; where ranks hold tiles of images, whole
/// images or this rank's tiles. Every round through them is shuffled anew
/// where `shuffle` says so, by the seed.
struct ArraySamplesOptions {
  bool shuffle = true;
  std::uint64_t seed = 1;
};
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> array_samples(std::vector<std::pair<std::string, Tensor>> inputs,
                                                                ArraySamplesOptions options = {});

/// Samples from a store, which lie on the disk until they are needed: read and transformed ahead of time by the
/// loader's threads.
struct StoreSamplesOptions {
  /// Pairs of an input of the net and a field of the store. Empty: "label", and the field "data" for the other input.
  std::vector<std::pair<std::string, std::string>> inputs = {};
  bool shuffle = true;
  std::uint64_t seed = 1;
  int threads = 1;
  int depth = 4;  ///< batches that are ready or in work
  TransformOptions transform = {};
};
/// Images, which stores have as {channels, height, width}, come with their channels last.
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> store_samples(std::shared_ptr<const Store> store,
                                                                StoreSamplesOptions options = {});

/// A text in pieces of steps + 1 characters, as int32 places in the vocabulary; the last character of a piece begins
/// the next. The batch's rows are as many parts of the text, read on from batch to batch: what layers carry fits.
struct TextSamplesOptions {
  std::string input = "x";  ///< of shape {steps + 1}, int32
  std::int64_t steps = 50;
  std::string vocabulary = {};  ///< empty: vocabulary_of(text). Another character is an InvalidArgument with its place
};
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> text_samples(const std::string& text,
                                                               TextSamplesOptions options = {});
/// The bytes of a text, each once, in order.
[[nodiscard]] PLEIAD_API std::string vocabulary_of(const std::string& text);

struct TrainOptions {
  std::int64_t batch = 64;                             ///< of all ranks together
  UpdaterOptions updater = {.rule = "sgd"};            ///< the tables' own rules
  nn::Schedule schedule = {.type = "", .base = 0.01};  ///< of the learning rate; type "": updater.learning_rate
  nn::Schedule momentum = {.type = "", .base = 0};     ///< of the momentum; type "": updater.momentum
  /// auto | none | all_reduce | tables | replicas; auto: all_reduce where there are more ranks. replicas: every group
  /// of ranks has parameters of its own, and the groups add up their changes every `sync_every` steps, none waiting.
  std::string exchange = "auto";
  std::string clock = "sync";  ///< of tables: sync, where ranks add to one round; async, where none waits
  /// Asynchronous tables, replicas: the ranks in so many groups. Those of a group make one step together, of the mean
  /// over their samples; groups do not wait for one another. 0: each rank by itself, with steps of 1/ranks.
  int groups = 0;
  std::int64_t sync_every = 1;
  PlanOptions plan = {};  ///< which layers are cut over the ranks; the net has this rank's parts from then on
  bool fuse = true;       ///< update while the gradient is in cache, where nothing is exchanged
  /// A NaN or infinite loss is a StateError with the step and the first layer whose output is not finite. false: it is
  /// printed once, and training continues.
  bool check_finite = true;
  std::int64_t steps = 1000;
  std::int64_t display = 0;        ///< every so many steps; 0: never
  std::int64_t display_after = 0;  ///< not before this step, from which the steps between are counted
  std::int64_t validate = 0;
  std::int64_t validate_after = 0;
  std::int64_t validate_batches = 0;  ///< 0: all samples once
  std::int64_t validate_batch = 0;    ///< samples of one, of all ranks together; 0: as in training
  std::int64_t test = 0;
  std::int64_t test_after = 0;
  std::int64_t test_batches = 0;
  std::int64_t test_batch = 0;
  /// What comes every so many steps, checkpoints included, comes at step 0 too, and a display tells the number of the
  /// step before it, so that the first one is of step 0 (SINGA).
  bool from_zero = false;
  std::int64_t checkpoint = 0;         ///< every so many steps, and at the end, however that comes
  std::int64_t checkpoint_after = 0;   ///< not before this step
  bool checkpoint_at_end = false;      ///< save at the end of a run or when it is stopped, also where checkpoint is 0
  std::string checkpoint_folder = {};  ///< where they are saved; empty: only the caller's function is called
  int checkpoint_keep = 3;             ///< the last so many; 0: all
  std::string trace = {};              ///< a file for Perfetto (ui.perfetto.dev); empty: none
  std::int64_t trace_from = 2;         ///< the first step of it, counted from the run's start
  std::int64_t trace_steps = 10;
  std::string events = {};                        ///< a folder for TensorBoard: what reports say. Rank 0 writes
  std::int64_t events_details = 0;                ///< every so many steps log_parameters too; 0: never
  std::vector<std::string> events_pictures = {};  ///< with them, log_pictures of these layers' outputs: reconstructions
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
  /// A checkpoint that could not be written; the one before is whole. Where this is empty, the error ends the run.
  std::function<bool(const std::string& error)> checkpoint_failed = {};
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
  /// their frequencies say. True where it came to the end. SIGINT and SIGTERM end it after the current step, unless the
  /// program handles the signal itself.
  bool run(Samples& train, Samples* validate = nullptr, Samples* test = nullptr, const TrainCalls& calls = {});
  /// Averages of the metrics over batches of `samples`, on all ranks together; `batches` 0: all samples, but for a last
  /// batch that is not full. `batch`: samples of one, of all ranks together; 0: as in training.
  [[nodiscard]] Report evaluate(Samples& samples, nn::Phase phase, std::int64_t batches = 0, std::int64_t batch = 0);

  /// For steps of one's own: these samples from now on, whose place `current_place` says. A checkpoint that was loaded
  /// must be of the same (Samples::identity); the next one will say that it is of these.
  void train_on(Samples& samples);

  [[nodiscard]] std::int64_t current_step() const;
  /// Of the next batch's first sample in the run's sequence of samples.
  [[nodiscard]] std::int64_t current_place() const;
  /// The samples of a batch that this rank computes: part share() of shares(), whose sizes differ by at most one. Ranks
  /// that split images have a part together.
  [[nodiscard]] std::int64_t local_batch() const;
  /// The samples of a step, of all ranks.
  [[nodiscard]] std::int64_t batch() const;
  [[nodiscard]] int share() const;
  [[nodiscard]] int shares() const;
  /// Everything that a resumed run needs to go on with the same bits: parameters, states, the rule's history, the step,
  /// the place in the samples. Of layers that the plan cuts, this rank's parts. The tensors are the trainer's own
  /// memory, or copies where tables hold them; then this is collective.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state();
  /// From a state() of the same net and rule; a missing or misshapen tensor is an InvalidArgument that names it.
  void load_state(const std::vector<std::pair<std::string, Tensor>>& state);

  /// Collective: a net of its own with the numbers of this one, of which no layer or image is cut.
  [[nodiscard]] nn::Net whole_net();

  /// Collective: writes the state into a folder (docs/data.md, "Saved arrays"), whole or not at all: a FileError on all
  /// ranks where one of them fails, and what was there stays. It loads at any number of ranks, with any plan and
  /// exchange.
  void save(const std::string& folder);
  /// Collective: saves into options.checkpoint_folder under the number of the step, and removes what is older than the
  /// last options.checkpoint_keep.
  void checkpoint();
  /// Collective: from a folder that save wrote, for the same net and rule. Nothing is changed where anything is wrong.
  void load(const std::string& folder);
  /// Collective: loads the last whole checkpoint in options.checkpoint_folder. False where there is none. What is
  /// damaged is passed over with a warning.
  bool resume();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// An update rule and what it keeps for one parameter, for a loop of one's own.
class PLEIAD_API ParameterUpdate {
 public:
  /// The parameter's memory outlives this.
  ParameterUpdate(const nn::Parameter& parameter, const UpdaterOptions& options);
  ~ParameterUpdate();
  ParameterUpdate(ParameterUpdate&&) noexcept;
  void step(const Tensor& gradient, double learning_rate, double momentum);

 private:
  std::unique_ptr<ParameterRule> rule_;
};
/// A histogram of every parameter, and pictures of filters: of convolutions, and of dense layers over squares.
PLEIAD_API void log_parameters(EventLog& log, const nn::Net& net, std::int64_t step);
/// (count, height, width, channels), or rows that make squares, side by side as one picture from the least number
/// (black) to the greatest. False where the numbers make no pictures.
PLEIAD_API bool log_pictures(EventLog& log, const std::string& tag, const Tensor& numbers, std::int64_t step);

/// Parameters and states of a net of these names and shapes, from a checkpoint. Nothing is changed where anything is
/// wrong.
PLEIAD_API void load_parameters(nn::Net& net, const std::string& folder);
/// Writes parameters and states as a safetensors file. layout "torch": names and order of numbers of PyTorch's modules
/// (Net::torch_state), "pleiad": as they are.
PLEIAD_API void export_parameters(const nn::Net& net, const std::string& path, const std::string& layout = "torch");
/// From a safetensors file of either layout, or from a state dict that torch.save wrote, of which nothing is executed;
/// `modules` as in Net::load_torch_state. A FileError that names the file for what does not fit; then nothing is
/// changed.
PLEIAD_API void import_parameters(nn::Net& net, const std::string& path,
                                  const std::vector<std::pair<std::string, std::string>>& modules = {});
/// The net that a checkpoint was made of, with its numbers.
[[nodiscard]] PLEIAD_API nn::Net load_net(const std::string& folder);

}  // namespace pleiad
