// A net: a graph of named layers, their memory, and the forward and backward passes through it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/layer.h"

namespace pleiad {
class Trace;
}

namespace pleiad::nn {

/// The name, element type and seed of a net.
struct NetOptions {
  std::string name = "net";
  DType dtype = DType::float32;  ///< float32 or float64
  std::uint64_t seed = 1;
};

/// How a layer is connected in a net.
struct Placement {
  /// The layer's inputs: names of net inputs and layers, with "layer:1" for a layer's second output. Empty: the layer
  /// that was added last.
  std::vector<std::string> inputs = {};
  /// The phases in which the layer runs.
  std::vector<Phase> phases = {Phase::train, Phase::validate, Phase::test};
};

/// A parameter of a net. Layers that share it have one Parameter in common.
struct Parameter {
  std::string name;  ///< "layer/weight"
  Tensor value;
  Tensor gradient = {};  ///< empty if an update takes the gradient block by block
  double rate_scale = 1;
  double decay_scale = 1;
  int uses = 1;
  bool pieces = false;  ///< the layer can pass the gradient on block by block
  bool fixed = false;   ///< not trained
  bool apart = false;   ///< each layer that shares it makes a separate update
  double norm = 0;      ///< above 0: norm to which each run of `row` elements is scaled after an update
  std::int64_t row = 0;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Pairs of a layer and the name of its module in a PyTorch state.
using ModuleNames = std::vector<std::pair<std::string, std::string>>;

class Net;
class NetControl;

/// How the layers of a net are connected. Valid as long as the net.
class PLEIAD_API NetGraph {
 public:
  explicit NetGraph(const Net& net) : net_(&net) {}
  /// Returns the inputs of a layer, with "layer:1" for a layer's second output, and the phases in which it runs.
  [[nodiscard]] Placement placement(const std::string& layer) const;
  /// Returns the shapes of a layer's inputs, with batch() samples, or with one sample before prepare.
  [[nodiscard]] Shapes input_shapes(const std::string& layer) const;
  /// Returns the shape of one sample of an input, for whole images.
  [[nodiscard]] Shape input_sample(const std::string& name) const;
  /// Returns the tile of an input's images that this process holds, or nothing if it holds whole images.
  [[nodiscard]] std::optional<Rect> input_tile(const std::string& name) const;
  /// Returns false if no layer before this one learns, so that its backward computes no gradient of its first input.
  [[nodiscard]] bool needs_input_gradient(const std::string& layer) const;
  /// Returns the gradient of an output ("layer" or "layer:1"), which is valid only until backward has run the layers
  /// before it. For tests and tools.
  [[nodiscard]] Tensor output_gradient(const std::string& name) const;
  /// Returns the graph in Graphviz's language.
  [[nodiscard]] std::string dot() const;

 private:
  const Net* net_;
};

/// A net of layers. Not thread-safe: one thread at a time may call it. A step allocates no memory.
class PLEIAD_API Net {
 public:
  explicit Net(NetOptions options = {});
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  /// Adds an input with the shape of one sample (labels: {}).
  Net& input(const std::string& name, const Shape& sample, DType dtype);
  Net& input(const std::string& name, const Shape& sample);
  /// Adds a layer. Names are unique, and the inputs of the layer must exist already, so a net has no cycles. Errors
  /// name the layer.
  Net& add(const std::string& name, LayerPtr layer, Placement placement = {});

  /// Plans memory for batches of `batch` samples. Parameters keep their values. Fast if the batch size has not changed.
  /// Call it before input_tensor and forward.
  void prepare(std::int64_t batch);
  /// Stops or resumes training of a parameter. Prepare the net again before the next step; an existing trainer then
  /// follows the change. Backward skips the layers before
  /// which no layer learns.
  void fix(const std::string& parameter, bool fixed = true);

  /// Returns the tensor to write an input's batch into: (batch, sample...).
  [[nodiscard]] Tensor input_tensor(const std::string& name) const;
  /// Runs a forward pass. Random numbers depend on the seed, `step` and `first_sample`.
  void forward(Phase phase, std::int64_t step = 0, std::int64_t first_sample = 0);
  /// Runs a backward pass after a forward pass in the training phase. Calls ready(i) as soon as the gradient of
  /// parameter i is complete; for a parameter whose shared uses are updated separately, after each use.
  void backward(const std::function<void(std::size_t)>& ready = {});
  /// loss() returns the sum of the losses of the last forward pass; metrics() returns the metrics as "layer/accuracy"
  /// (or "accuracy" if only one layer has metrics).
  [[nodiscard]] double loss() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> metrics() const;

  [[nodiscard]] std::int64_t batch() const;
  [[nodiscard]] const NetOptions& options() const;
  [[nodiscard]] std::vector<std::string> input_names() const;
  [[nodiscard]] std::vector<std::string> layer_names() const;
  [[nodiscard]] const Layer& layer(const std::string& name) const;
  /// Returns the output of a layer in the last forward pass, by "layer" or "layer:1".
  [[nodiscard]] Tensor output(const std::string& name) const;
  [[nodiscard]] std::vector<Parameter>& parameters();
  [[nodiscard]] const std::vector<Parameter>& parameters() const;
  [[nodiscard]] Parameter& parameter(const std::string& name);
  /// Returns the untrained tensors that belong to the model, such as running means, with their names.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> states() const;
  /// Returns layers, shapes, parameters, memory and multiplications as text.
  [[nodiscard]] std::string describe() const;
  /// Returns the net as JSON, without its values, its seed and which parameters are fixed. net_from_text makes such a
  /// net from it, unless the net has layers of user-defined kinds.
  [[nodiscard]] std::string text() const;

  /// Returns how the layers are connected.
  [[nodiscard]] NetGraph graph() const;
  /// Returns what a plan and a trainer set in a net.
  [[nodiscard]] NetControl control();

 private:
  friend class NetGraph;
  friend class NetControl;
  friend NamedTensors torch_state(const Net& net);
  friend void load_torch_state(Net& net, const NamedTensors& state, const ModuleNames& modules);
  friend std::string first_not_finite(const Net& net);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The settings of a net that a plan and a trainer change. Valid as long as the net.
class PLEIAD_API NetControl {
 public:
  explicit NetControl(Net& net) : net_(&net) {}
  /// Replaces a layer by one that takes and produces the same shapes and has the same number of parameters. The
  /// parameters keep their names and become zeros, which the caller fills. They must not be shared. Call it before
  /// prepare.
  void replace(const std::string& name, LayerPtr layer);

  /// Declares that this process holds a tile of each image of the given inputs: input_tensor is then (batch, rows,
  /// columns, channels) of the tile. Passes each of the other layers to `with`, which returns its replacement (possibly
  /// the layer itself) with the same number of parameters. Parameters whose shapes change become zeros. Call it before
  /// prepare.
  void lay_out(const std::map<std::string, Rect>& tiles,
               const std::function<LayerPtr(const std::string& name, LayerPtr layer)>& with);
  /// Makes `update` take the gradient of a parameter block by block; null restores gradients in memory. Call it before
  /// prepare.
  void set_update(std::size_t parameter, kernel::BlockUpdate* update);
  /// Sets the seed of the random numbers that later steps draw (dropout). A resumed run takes the seed of the saved
  /// one.
  void set_seed(std::uint64_t seed);
  /// Sets a factor for all gradients, such as 1 / ranks if ranks sum their gradients.
  void set_gradient_scale(double scale);
  /// Calls Layer::set_deterministic on all layers. Call it before prepare.
  void set_deterministic(bool on);
  /// Declares that this net's batch is one shard of a larger batch; null: it is the whole batch. `parts` must outlive
  /// the passes of the net.
  void set_parts(BatchParts* parts);
  /// Whether the losses multiply what each sample adds by sample_weights(). A loss that cannot is an InvalidArgument.
  void weigh_samples(bool on);
  /// Returns the tensor to write the factors of a batch into: (batch), of the net's element type. Prepared batches
  /// start with 1.
  [[nodiscard]] Tensor sample_weights() const;
  /// Declares that the net holds one sample only because this process has none of the batch (Pass::placeholder).
  void set_placeholder(bool on);
  /// Records in `trace` when the passes of each layer begin and end; null disables it.
  void set_trace(Trace* trace);
  /// Returns the state that training carries to the next batch: name and tensor, (batch, ...). Empty before prepare.
  [[nodiscard]] NamedTensors carried() const;
  /// Resets the state that layers carry from batch to batch in a phase to 0. Validation and test share it.
  void forget(Phase phase);

 private:
  Net* net_;
};

/// Returns copies of parameters and states in the form of the corresponding PyTorch modules: "conv.weight" as (filters,
/// channels, height, width); the weight of a dense layer over an image with channels first; for batch normalisation
/// weight, bias, running_mean and running_var. Throws an InvalidArgument that names a layer without a corresponding
/// PyTorch module.
[[nodiscard]] PLEIAD_API NamedTensors torch_state(const Net& net);
/// Loads such a state, of float32 or float64. Everything is checked before anything is changed. A layer that `modules`
/// does not list matches the module of its own name; if no layer's name occurs in the state, modules are assigned to
/// layers in order.
PLEIAD_API void load_torch_state(Net& net, const NamedTensors& state, const ModuleNames& modules = {});

/// Returns the name of the first layer with a NaN or an infinity in its output, or an empty string.
[[nodiscard]] PLEIAD_API std::string first_not_finite(const Net& net);

/// Makes a net from Net::text(). Invalid text is a FileError that begins with `where` or names the layer.
[[nodiscard]] PLEIAD_API Net net_from_text(const std::string& text, const std::string& where = "net");

}  // namespace pleiad::nn
