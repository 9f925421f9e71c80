// A net: a graph of named layers, the memory they work in, and a pass through it.
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

struct NetOptions {
  std::string name = "net";
  DType dtype = DType::float32;  ///< float32 or float64
  std::uint64_t seed = 1;
};

/// How a layer is put into a net.
struct Placement {
  /// What the layer takes: names of inputs and layers, "layer:1" for a layer's second output. Empty: the layer that was
  /// added last.
  std::vector<std::string> inputs = {};
  /// The phases it takes part in.
  std::vector<Phase> phases = {Phase::train, Phase::validate, Phase::test};
};

/// A parameter of a net. Layers that share it have one.
struct Parameter {
  std::string name;  ///< "layer/weight"
  Tensor value;
  Tensor gradient = {};  ///< empty where an update takes it piece by piece
  double rate_scale = 1;
  double decay_scale = 1;
  int uses = 1;
  bool pieces = false;  ///< its layer can hand the gradient over piece by piece
  bool fixed = false;   ///< not trained
  bool apart = false;   ///< each use is an update of its own
  double norm = 0;      ///< above 0: what each run of `row` numbers is scaled to after an update
  std::int64_t row = 0;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Calls from one thread at a time. A step allocates nothing.
class PLEIAD_API Net {
 public:
  explicit Net(NetOptions options = {});
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  /// What comes from outside: the shape of one sample (labels: {}).
  Net& input(const std::string& name, const Shape& sample, DType dtype);
  Net& input(const std::string& name, const Shape& sample);
  /// Names are unique, and inputs are there already: so a net has no cycles. Mistakes name the layer.
  Net& add(const std::string& name, LayerPtr layer, Placement placement = {});

  /// Puts another layer in a layer's place: one that takes and gives the same shapes and has as many parameters, which
  /// keep their names and begin anew. Its parameters are not shared. Before prepare.
  void replace(const std::string& name, LayerPtr layer);

  /// From now on this process holds a part of each image of an input: input_tensor is (batch, rows, columns, channels)
  /// of the tile. The other layers follow: each is handed to `with`, which gives what takes its place (maybe itself)
  /// and has as many parameters; those whose shapes change begin as zeros. Before prepare.
  void lay_out(const std::map<std::string, Rect>& tiles,
               const std::function<LayerPtr(const std::string& name, LayerPtr layer)>& with);
  /// The places of an input's images that this process holds; empty where it holds them all.
  [[nodiscard]] std::optional<Rect> input_tile(const std::string& name) const;
  /// The shape of one sample of an input: of the whole image.
  [[nodiscard]] Shape input_sample(const std::string& name) const;
  /// The inputs and layers that a layer takes, "layer:1" for a layer's second output; and the phases it takes part in.
  [[nodiscard]] Placement placement(const std::string& layer) const;

  /// Plans memory for batches of `batch` samples and initialises new parameters; the numbers of parameters stay. Quick
  /// where the batch is the same as before. forward calls it where it was not called.
  void prepare(std::int64_t batch);
  /// Parameters whose update takes the gradient piece by piece (null: into memory again); before prepare.
  void set_update(std::size_t parameter, kernel::BlockUpdate* update);

  /// A parameter that keeps its numbers in training, or is trained again. A trainer that is there already goes on with
  /// it. Layers before which nothing learns are left out of backward.
  void fix(const std::string& parameter, bool fixed = true);

  /// The tensor an input's batch is written to: (batch, sample...).
  [[nodiscard]] Tensor input_tensor(const std::string& name) const;
  /// Of `step` and `first_sample` random numbers are functions.
  void forward(Phase phase, std::int64_t step = 0, std::int64_t first_sample = 0);
  /// After a forward in training. Calls ready(i) as soon as the gradient of parameter i is whole; for a parameter whose
  /// uses are apart, after each of them.
  void backward(const std::function<void(std::size_t)>& ready = {});
  /// Of the random numbers that steps draw from now on (dropout): a resumed run goes on with those of the saved one.
  void set_seed(std::uint64_t seed);
  /// What gradients are multiplied by: 1 / ranks, where ranks sum their gradients.
  void set_gradient_scale(double scale);
  /// Layer::set_deterministic for all layers; before prepare.
  void set_deterministic(bool on);
  /// The parts that this net's batch is one of; null: it is the whole batch. Outlives the net's passes.
  void set_parts(BatchParts* parts);
  /// Who writes down when each layer's passes began and ended; null: nobody.
  void set_trace(Trace* trace);
  /// The sum of the losses of the last forward; and the metrics, as "layer/accuracy" (or "accuracy" where one loss
  /// only).
  [[nodiscard]] double loss() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> metrics() const;

  [[nodiscard]] std::int64_t batch() const;
  [[nodiscard]] const NetOptions& options() const;
  [[nodiscard]] std::vector<std::string> input_names() const;
  [[nodiscard]] std::vector<std::string> layer_names() const;
  [[nodiscard]] const Layer& layer(const std::string& name) const;
  /// The shapes that a layer takes, of a batch of batch(), or of one sample before prepare.
  [[nodiscard]] Shapes input_shapes(const std::string& layer) const;
  /// False where nothing before a layer learns, so that its backward gives no gradient by its first input.
  [[nodiscard]] bool needs_input_gradient(const std::string& layer) const;
  /// The output of a layer in the last forward, "layer" or "layer:1".
  [[nodiscard]] Tensor output(const std::string& name) const;
  /// The gradient by that output; only until the layers before it have been passed. For tests and tools.
  [[nodiscard]] Tensor output_gradient(const std::string& name) const;
  [[nodiscard]] std::vector<Parameter>& parameters();
  [[nodiscard]] const std::vector<Parameter>& parameters() const;
  [[nodiscard]] Parameter& parameter(const std::string& name);
  /// Untrained numbers that belong to the model, as running means: name and tensor.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> states() const;
  /// What training's next batch finds of the last one: name and tensor, (batch, ...). Empty before prepare.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> carried() const;
  /// What layers carry from batch to batch is 0 again, in a phase.
  void forget(Phase phase);
  /// Copies of parameters and states as PyTorch's modules have them, where it has such modules: "conv.weight" as
  /// (filters, channels, height, width); that of a dense layer over an image by channels first; of batch normalisation
  /// weight, bias, running_mean and running_var. An InvalidArgument names a layer that PyTorch has no module for.
  [[nodiscard]] NamedTensors torch_state() const;
  /// Takes such a state, of float32 or float64; all is checked before anything is changed. `modules` are pairs of a
  /// layer and the name of its module in the state. A layer that is not named there has its own name, or, where no
  /// layer's name is in the state, the modules belong to the layers in their order.
  void load_torch_state(const NamedTensors& state,
                        const std::vector<std::pair<std::string, std::string>>& modules = {});
  /// The first layer with a NaN or an infinity in its output, or empty.
  [[nodiscard]] std::string first_not_finite() const;

  /// Layers, shapes, parameters, memory, products; and the graph in Graphviz's language.
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::string dot() const;
  /// The net without its numbers, as JSON. net_from_text makes the same net again, unless it has layers of the user's
  /// own kinds.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// From Net::text(). A FileError that begins with `where`, or names the layer, for what is no net.
[[nodiscard]] PLEIAD_API Net net_from_text(const std::string& text, const std::string& where = "net");

}  // namespace pleiad::nn
