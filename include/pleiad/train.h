// The trainer: batch, forward, loss, backward, exchange, update, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/choice.h"
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

/// The source of samples. All ranks see the same order: the position of a sample in a batch depends on the step alone.
/// The number of ranks therefore does not change the training, and a run can be resumed at any step.
class PLEIAD_API Samples {
 public:
  virtual ~Samples() = default;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// Writes samples first to first + count - 1 of the sequence of samples of the whole run into the net's inputs, from
  /// row 0.
  virtual void fill(nn::Net& net, std::int64_t first, std::int64_t count) = 0;
  /// The trainer calls this before a run. It announces that fills come in order, `batch` samples apart, and that each
  /// one asks for shard `rank` of `ranks` of a batch, which begins at sample batch * rank / ranks.
  virtual void expect(std::int64_t batch, int rank, int ranks);
  /// Announces whether every pass over the samples ends with an incomplete batch (LastBatch::shorter) or batches
  /// continue with the next pass (LastBatch::wrap, the default).
  virtual void set_last(LastBatch last);
  /// Returns false if batches must be complete, because row i of a batch continues row i of the previous one.
  [[nodiscard]] virtual bool allows_incomplete() const { return true; }
  /// Returns true if fill also writes the net's sample_weights().
  [[nodiscard]] virtual bool weighted() const { return false; }
  /// Returns one line that identifies these samples in this order. A run that resumes from a checkpoint with a
  /// different identity is refused. An empty identity disables the check.
  [[nodiscard]] virtual std::string identity() const { return {}; }
};

/// Samples in memory: one tensor for each input of the net, all with the same number of rows. If ranks hold tiles of
/// images, the tensors are whole images or this rank's tiles. With `shuffle`, the seed determines a new order for every
/// epoch.
struct ArraySamplesOptions {
  bool shuffle = true;
  std::uint64_t seed = 1;
  /// a factor for each sample in the loss, of the net's element type; empty: all 1
  Tensor weights = {};
};
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> array_samples(std::vector<std::pair<std::string, Tensor>> inputs,
                                                                ArraySamplesOptions options = {});

/// Samples that stay on disk in a store until they are needed. The threads of the loader read and transform them ahead
/// of time.
struct StoreSamplesOptions {
  /// Pairs of a net input and a store field. If empty, the input "label" reads the field "label" and the other input
  /// reads the field "data".
  std::vector<std::pair<std::string, std::string>> inputs = {};
  bool shuffle = true;
  std::uint64_t seed = 1;
  int threads = 1;
  int depth = 4;  ///< number of batches that are ready or in preparation
  TransformOptions transform = {};
};
/// Stores keep images as {channels, height, width}; these samples have the channels last.
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> store_samples(std::shared_ptr<const Store> store,
                                                                StoreSamplesOptions options = {});

/// A text in pieces of steps + 1 characters, as int32 indices into the vocabulary. The last character of a piece is the
/// first of the next one. The text is divided into as many contiguous streams as a batch has rows, and each row
/// continues its stream from batch to batch, as recurrent layers that carry state require.
struct TextSamplesOptions {
  std::string input = "x";  ///< net input of shape {steps + 1}, int32
  std::int64_t steps = 50;
  /// empty: vocabulary_of(text). A character outside the vocabulary is an InvalidArgument that gives its position
  std::string vocabulary = {};
};
[[nodiscard]] PLEIAD_API std::unique_ptr<Samples> text_samples(const std::string& text,
                                                               TextSamplesOptions options = {});
/// Returns the distinct bytes of a text in ascending order.
[[nodiscard]] PLEIAD_API std::string vocabulary_of(const std::string& text);

/// How the ranks combine what they learn in a step. automatic ("auto"): all_reduce if there is more than one rank. With
/// replicas, every group of ranks has its own parameters, and the groups add their changes every `sync_every` steps
/// without waiting for one another.
enum class ExchangeKind : std::uint8_t { all_reduce, automatic, none, replicas, tables };
template <>
struct ChoiceNames<ExchangeKind> {
  static constexpr std::string_view family = "exchange";
  static constexpr std::string_view names[] = {"all_reduce", "auto", "none", "replicas", "tables"};
};

/// The clock of parameters in tables. sync: all ranks add to one round. async: no rank waits.
enum class TrainClock : std::uint8_t { async, sync };
template <>
struct ChoiceNames<TrainClock> {
  static constexpr std::string_view family = "clock";
  static constexpr std::string_view names[] = {"async", "sync"};
};

/// Options of a trainer.
struct TrainOptions {
  std::int64_t batch = 64;                             ///< batch size, summed over all ranks
  UpdaterOptions updater = {.rule = "sgd"};            ///< update rule, the same rules as for tables
  nn::Schedule schedule = {.type = "", .base = 0.01};  ///< learning rate schedule; type "" keeps updater.learning_rate
  nn::Schedule momentum = {.type = "", .base = 0};     ///< momentum schedule; type "" keeps updater.momentum
  Choice<ExchangeKind> exchange = ExchangeKind::automatic;
  Choice<TrainClock> clock = TrainClock::sync;  ///< with tables
  /// Above 0: the gradients of a step are scaled so that their L2 norm over all parameters is at most this. The update
  /// then waits for the last gradient. Not available if `exchange` is tables or replicas.
  double clip_norm = 0;
  /// number of values that a caller's schedule keeps (Trainer::schedule_state), which checkpoints save
  int schedule_state = 0;
  /// With asynchronous tables or replicas: the number of groups that the ranks form. The ranks of a group make one step
  /// together, with the mean gradient over their samples. Groups do not wait for one another. 0: with
  /// tables, every rank is a group of its own, and its steps are scaled by 1/ranks; with replicas, all ranks are one
  /// group.
  int groups = 0;
  std::int64_t sync_every = 1;
  /// which layers are split over the ranks; from then on the net holds this rank's shard of them
  PlanOptions plan = {};
  bool fuse = true;  ///< update while the gradient is in cache; has an effect only if nothing is exchanged
  /// true: a NaN or infinite loss is a StateError with the step and the first layer whose output is not finite. false:
  /// it is printed once, and training continues.
  bool check_finite = true;
  std::int64_t steps = 1000;
  std::int64_t display = 0;        ///< print a report every N steps; 0 disables it
  std::int64_t display_after = 0;  ///< first step to report at; the interval counts from this step
  std::int64_t validate = 0;       ///< run a validation every N steps; 0 disables it
  std::int64_t validate_after = 0;
  std::int64_t validate_batches = 0;  ///< number of batches in a validation; 0: all whole batches
  std::int64_t validate_batch = 0;    ///< batch size of a validation, over all ranks; 0: same as in training
  std::int64_t test = 0;              ///< run a test every N steps; 0 disables it
  std::int64_t test_after = 0;
  std::int64_t test_batches = 0;
  std::int64_t test_batch = 0;
  /// Reports, validations, tests and checkpoints that are due every N steps are also due at step 0, and a report gives
  /// the number of the previous step, so that the first report is for step 0 (SINGA).
  bool from_zero = false;
  std::int64_t checkpoint = 0;         ///< save every N steps, and when run() returns; 0 disables it
  std::int64_t checkpoint_after = 0;   ///< no checkpoint before this step
  bool checkpoint_at_end = false;      ///< save when a run ends or is stopped, even if checkpoint is 0
  std::string checkpoint_folder = {};  ///< folder for checkpoints; empty: only the caller's function is called
  int checkpoint_keep = 3;             ///< number of most recent checkpoints to keep; 0 keeps all
  std::string trace = {};              ///< trace file for Perfetto (ui.perfetto.dev); empty disables it
  std::int64_t trace_from = 2;         ///< first step to trace, counted from the start of the run
  std::int64_t trace_steps = 10;
  std::string events = {};  ///< folder for TensorBoard files with the reports; rank 0 writes them; empty disables it
  std::int64_t events_details = 0;  ///< also call log_parameters every N steps; 0 disables it
  /// layers whose outputs log_pictures writes at the same steps, such as reconstructions
  std::vector<std::string> events_pictures = {};
};

/// The metrics of the steps since the last report, or of a validation or test.
struct Report {
  std::int64_t step = 0;
  nn::Phase phase = nn::Phase::train;
  std::vector<std::pair<std::string, double>>
      metrics;  ///< averages over the steps since the last report, or over the batches of a validation or test
  double samples_per_second = 0;
};

/// Functions that are empty are not called. `report`, `checkpoint` and `checkpoint_failed` return false to end the run
/// after this step; `stop` returns true to end it. Ranks that do not wait for one another end within 16 steps.
struct TrainCalls {
  std::function<bool(const Report&)> report = {};
  std::function<bool(std::int64_t step)> checkpoint = {};
  std::function<bool(std::int64_t step)> stop = {};  ///< called after each step on every rank
  /// Called if a checkpoint could not be written; the previous one is intact. If this is empty, the error ends the run.
  std::function<bool(const std::string& error)> checkpoint_failed = {};
};

/// Trains a net on one process, or on the ranks of a session, all of which make the same calls. The net and the session
/// must outlive the trainer. Not thread-safe: one thread calls it.
class PLEIAD_API Trainer {
 public:
  Trainer(nn::Net& net, TrainOptions options);
  Trainer(nn::Net& net, TrainOptions options, Session& session);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Makes one step on the values in the net's inputs. Returns this rank's loss.
  double step();
  /// Sets the size, over all ranks, of the batches of the following steps, at most TrainOptions::batch. Used for the
  /// incomplete last batch of an epoch. Prepares the net for this rank's rows; if there are none, for one sample that
  /// does not count. A size that is not possible is an InvalidArgument (check_batch).
  void prepare_batch(std::int64_t batch);
  /// Throws InvalidArgument unless steps on batches of this size are possible: layers that carry state from batch to
  /// batch need complete batches, and ranks that split layers need equal shares.
  void check_batch(std::int64_t batch) const;
  /// Returns the rows of the current batch that this rank computes.
  [[nodiscard]] Interval local_rows() const;
  /// Moves current_place() to the start of the next pass over `samples`, unless it is at the start of one.
  void begin_pass(const Samples& samples);
  /// Runs from the current step to options.steps, or until a function in `calls` ends it. Validates, tests,
  /// saves, trains and reports at the configured intervals. Returns true if the run reached the end. SIGINT and SIGTERM
  /// end it after the current step, unless the program handles the signal itself.
  bool run(Samples& train, Samples* validate = nullptr, Samples* test = nullptr, const TrainCalls& calls = {});
  /// Returns the metrics averaged over `batches` batches of `samples`, over all ranks. batches = 0 uses all samples
  /// except an incomplete last batch. `batch` is the batch size over all ranks; 0: same as in training.
  [[nodiscard]] Report evaluate(Samples& samples, nn::Phase phase, std::int64_t batches = 0, std::int64_t batch = 0);
  /// For callers that evaluate by their own forward passes: says where the loss of the net's last pass is not finite.
  /// Empty if it is finite.
  [[nodiscard]] std::string where_not_finite() const;
  /// Collective. Ends such an evaluation. `where` is this rank's first text that is not empty. If any rank has one,
  /// throws StateError on every rank; with options.check_finite off, rank 0 prints it instead.
  void expect_finite(const std::string& where);

  /// For callers that run their own loop of step(): declares that the following steps use these samples, from
  /// current_place() on, in batches that end as `last` says. If a checkpoint was loaded, it must be of the same samples
  /// (Samples::identity). The next checkpoint records their identity.
  void train_on(Samples& samples, LastBatch last = LastBatch::wrap);

  /// Replaces TrainOptions::schedule or momentum for the following steps, for callers whose rates depend on more than
  /// the step. All ranks must set the same.
  void set_schedule(nn::Schedule schedule);
  void set_momentum(nn::Schedule momentum);
  /// Returns TrainOptions::schedule_state values of float64. The caller reads and writes them; checkpoints save them.
  [[nodiscard]] Tensor schedule_state() const;

  [[nodiscard]] std::int64_t current_step() const;
  /// Returns the position of the next batch's first sample in the sequence of samples of the run.
  [[nodiscard]] std::int64_t current_place() const;
  /// Returns the number of samples of a batch that this rank computes: shard share() of shares() shards, whose sizes
  /// differ by at most one. Ranks that split images work on the same shard together.
  [[nodiscard]] std::int64_t local_batch() const;
  /// Returns the batch size over all ranks.
  [[nodiscard]] std::int64_t batch() const;
  [[nodiscard]] int share() const;
  [[nodiscard]] int shares() const;
  /// Returns everything that a run needs to resume bit-identically: parameters, states, the rule's history, the step
  /// and the position in the samples. For layers that the plan splits, this is this rank's shard. The tensors are the
  /// trainer's own memory, or copies if tables hold the values; in that case this call is collective.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state();
  /// Restores a state() of the same net and rule. A tensor that is missing or has the wrong shape is an InvalidArgument
  /// that names it.
  void load_state(const std::vector<std::pair<std::string, Tensor>>& state);

  /// Collective. Returns a separate net with the same values, in which no layer or image is split.
  [[nodiscard]] nn::Net whole_net();

  /// Collective. Writes the state into a folder (docs/data.md, "Saved arrays"), all or nothing: if one rank fails, all
  /// ranks throw a FileError, and the previous content stays. The result loads with any number of ranks, plan and
  /// exchange.
  void save(const std::string& folder);
  /// Collective. Saves into options.checkpoint_folder under the number of the step, and removes all but the
  /// options.checkpoint_keep most recent checkpoints.
  void checkpoint();
  /// Collective. Loads a folder that save() wrote, for the same net and rule. Changes nothing if any part is invalid.
  void load(const std::string& folder);
  /// Collective. Loads the most recent complete checkpoint in options.checkpoint_folder. Returns false if there is
  /// none. Warns of damaged checkpoints and skips them.
  bool resume();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// An update rule and its state for one parameter, for callers that write their own loop.
class PLEIAD_API ParameterUpdate {
 public:
  /// The parameter's memory must outlive this object.
  ParameterUpdate(const nn::Parameter& parameter, const UpdaterOptions& options);
  ~ParameterUpdate();
  ParameterUpdate(ParameterUpdate&&) noexcept;
  void step(const Tensor& gradient, double learning_rate, double momentum);

 private:
  std::unique_ptr<ParameterRule> rule_;
};
/// Writes a histogram of every parameter, and images of the filters of convolutions and of dense layers over square
/// inputs.
PLEIAD_API void log_parameters(EventLog& log, const nn::Net& net, std::int64_t step);
/// Writes a tensor (count, height, width, channels), or rows that form squares, side by side as one image from the
/// smallest value (black) to the largest. Returns false if the values do not form images.
PLEIAD_API bool log_pictures(EventLog& log, const std::string& tag, const Tensor& numbers, std::int64_t step);

/// Loads the parameters and states of a net with the same names and shapes from a checkpoint. Changes nothing if any
/// part is invalid.
PLEIAD_API void load_parameters(nn::Net& net, const std::string& folder);
/// The names and the order of the values in a file of parameters.
enum class ParameterLayout : std::uint8_t { pleiad, torch };
template <>
struct ChoiceNames<ParameterLayout> {
  static constexpr std::string_view family = "layout";
  static constexpr std::string_view names[] = {"pleiad", "torch"};
};
/// Writes parameters and states as a safetensors file. layout "torch": names and memory order of PyTorch's modules
/// (nn::torch_state); "pleiad": unchanged.
PLEIAD_API void export_parameters(const nn::Net& net, const std::string& path,
                                  Choice<ParameterLayout> layout = ParameterLayout::torch);
/// Reads a safetensors file of either layout, or a state dict that torch.save wrote, without executing anything from
/// it. `modules` is that of nn::load_torch_state. A mismatch is a FileError that names the file, and nothing is
/// changed.
PLEIAD_API void import_parameters(nn::Net& net, const std::string& path,
                                  const std::vector<std::pair<std::string, std::string>>& modules = {});
/// Returns the net that a checkpoint was made of, with its values.
[[nodiscard]] PLEIAD_API nn::Net load_net(const std::string& folder);

}  // namespace pleiad
