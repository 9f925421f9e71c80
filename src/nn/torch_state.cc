// Converts a net's parameters to and from PyTorch's state dicts. Images are channels last here and channels first
// there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/text.h"
#include "kernel/types.h"
#include "nn/net_impl.h"
#include "pleiad/error.h"

namespace pleiad::nn {
namespace {

/// The parts of a net that the conversion reads.
struct Graph {
  const std::vector<Value>& values;
  const std::vector<Node>& nodes;
  const std::vector<Parameter>& parameters;
  const NamedTensors& states;
};

/// One array of a PyTorch module and the tensor that holds its values here.
struct TorchArray {
  std::string name;  ///< name in the module, for example "weight"
  Tensor own;
  Shape view;             ///< shape of `own`, split into the axes that are permuted
  std::vector<int> axes;  ///< axes of `view` in PyTorch's order
  Shape torch;            ///< shape in PyTorch
  /// Name of a second PyTorch array to add to this one on loading, or empty. From element `apart` on its values must be
  /// 0.
  std::string also = {};
  std::int64_t apart = 0;
};

struct Module {
  std::string layer;
  std::vector<TorchArray> arrays;
};

TorchArray as_is(const std::string& name, const Tensor& own) {
  const Shape flat{own.count()};
  return {.name = name, .own = own, .view = flat, .axes = {0}, .torch = own.shape()};
}

/// Returns the shape of the image that the flat value `id` was made from, or nothing. Looks through layers that keep
/// the order of the elements.
std::optional<Shape> image_behind(const Graph& net, int id) {
  while (true) {
    const Value& value = net.values[static_cast<std::size_t>(id)];
    if (value.data.shape().rank() == 4) return value.data.shape();
    if (value.producer < 0) return std::nullopt;
    const Node& node = net.nodes[static_cast<std::size_t>(value.producer)];
    constexpr std::string_view kKeepOrder[] = {"activation", "batch_norm", "dropout", "flatten"};
    if (std::ranges::find(kKeepOrder, node.layer->kind()) == std::end(kKeepOrder)) return std::nullopt;
    id = node.inputs[0];
  }
}

/// A parameter or a state of a layer, and what its conversion depends on.
struct LayerArray {
  std::string torch;  ///< name in the PyTorch module
  const Tensor& own;
  std::optional<Shape> image;  ///< shape of the image that the layer's input was made from
  bool flat = false;           ///< the layer's input is (batch, values)
  bool transposed = false;     ///< the layer has the option transposed
};

TorchArray same(const LayerArray& array) { return as_is(array.torch, array.own); }

TorchArray filters(const LayerArray& array) {
  const Shape& s = array.own.shape();
  return {.name = array.torch, .own = array.own, .view = s, .axes = {0, 3, 1, 2}, .torch = {s[0], s[3], s[1], s[2]}};
}

TorchArray dense_weight(const LayerArray& array) {
  const Tensor& own = array.own;
  const bool transposed = array.transposed;
  const std::int64_t in = own.shape()[transposed ? 0 : 1];
  const std::int64_t out = own.shape()[transposed ? 1 : 0];
  TorchArray weight{.name = array.torch, .own = own, .view = own.shape(), .axes = {0, 1}, .torch = {out, in}};
  if (transposed) weight.axes = {1, 0};
  if (array.image) {
    const Shape& i = *array.image;
    weight.view = transposed ? Shape{i[1], i[2], i[3], out} : Shape{out, i[1], i[2], i[3]};
    weight.axes = transposed ? std::vector{3, 2, 0, 1} : std::vector{0, 3, 1, 2};
  }
  return weight;
}

/// Converts the weight of a pooling over maps, which is equivalent to a convolution with 1x1 filters.
TorchArray one_by_one(const LayerArray& array) {
  TorchArray weight = same(array);
  weight.torch = {array.own.shape()[0], array.own.shape()[1], 1, 1};
  return weight;
}

/// Converts an array of batch normalisation: one element per channel, or per element of a flattened image.
TorchArray by_place(const LayerArray& array) {
  if (!array.flat || !array.image) return same(array);
  const Shape& i = *array.image;
  return {
      .name = array.torch, .own = array.own, .view = {i[1], i[2], i[3]}, .axes = {2, 0, 1}, .torch = array.own.shape()};
}

/// Converts the bias of a recurrent layer. PyTorch has a second bias next to U h', which is equivalent to ours.
TorchArray recurrent_bias(const LayerArray& array) {
  TorchArray bias = same(array);
  bias.also = "bias_hh_l0";
  bias.apart = array.own.count();
  return bias;
}

/// The second bias is not equivalent to ours in the gate n of a GRU, where r multiplies it.
TorchArray gru_bias(const LayerArray& array) {
  TorchArray bias = recurrent_bias(array);
  bias.apart = array.own.count() / 3 * 2;
  return bias;
}

/// The PyTorch array for each array of the layers that have a module in PyTorch.
struct Conversion {
  std::string_view kind;  ///< of the layer
  std::string_view name;  ///< of the parameter or state in the layer
  const char* torch;      ///< name in the PyTorch module
  TorchArray (*convert)(const LayerArray& array);
};
constexpr Conversion kConversions[] = {
    {"batch_norm", "scale", "weight", by_place},
    {"batch_norm", "shift", "bias", by_place},
    {"batch_norm", "mean", "running_mean", by_place},
    {"batch_norm", "variance", "running_var", by_place},
    {"convolution", "weight", "weight", filters},
    {"convolution", "bias", "bias", same},
    {"cross_map_pooling", "weight", "weight", one_by_one},
    {"dense", "weight", "weight", dense_weight},
    {"dense", "bias", "bias", same},
    {"embedding", "weight", "weight", same},
    {"gru", "weight", "weight_ih_l0", same},
    {"gru", "recurrent", "weight_hh_l0", same},
    {"gru", "bias", "bias_ih_l0", gru_bias},
    {"lstm", "weight", "weight_ih_l0", same},
    {"lstm", "recurrent", "weight_hh_l0", same},
    {"lstm", "bias", "bias_ih_l0", recurrent_bias},
    {"rnn", "weight", "weight_ih_l0", same},
    {"rnn", "recurrent", "weight_hh_l0", same},
    {"rnn", "bias", "bias_ih_l0", recurrent_bias},
};

bool is_transposed(const LayerFields& options) {
  const auto found = std::ranges::find(options, std::string("transposed"), [](const auto& o) { return o.first; });
  return found != options.end() && found->second != "false";
}

Module module_of(const Graph& net, const Node& node) {
  Module module{.layer = node.name, .arrays = {}};
  const std::string kind = node.layer->kind();
  const std::optional<Shape> image = image_behind(net, node.inputs[0]);
  const bool flat = net.values[static_cast<std::size_t>(node.inputs[0])].data.shape().rank() == 2;
  const bool transposed = is_transposed(node.layer->options());
  const auto add = [&](std::string_view name, const Tensor& own) {
    const auto* const found = std::ranges::find_if(
        kConversions, [&](const Conversion& each) { return each.kind == kind && each.name == name; });
    if (found == std::end(kConversions)) {
      throw InvalidArgument(
          fmt::format("layer \"{}\": PyTorch has no module for layers of the kind \"{}\"", node.name, kind));
    }
    module.arrays.push_back(
        found->convert({.torch = found->torch, .own = own, .image = image, .flat = flat, .transposed = transposed}));
  };
  const auto name_in_layer = [](std::string_view full) { return full.substr(full.rfind('/') + 1); };
  for (const int id : node.parameters) {
    const Parameter& parameter = net.parameters[static_cast<std::size_t>(id)];
    const std::string_view name = name_in_layer(parameter.name);
    if (parameter.name != fmt::format("{}/{}", node.name, name)) continue;  // the parameter belongs to another layer
    add(name, parameter.value);
  }
  for (const int id : node.states) {
    const auto& [name, own] = net.states[static_cast<std::size_t>(id)];
    add(name_in_layer(name), own);
  }
  return module;
}

std::vector<Module> modules_of(const Graph& net) {
  std::vector<Module> modules;
  for (const Node& node : net.nodes) {
    Module module = module_of(net, node);
    if (!module.arrays.empty()) modules.push_back(std::move(module));
  }
  return modules;
}

/// Calls each(index here, index in PyTorch) for every element.
template <class F>
void each_place(const TorchArray& array, F&& each) {
  const int rank = array.view.rank();
  std::array<std::int64_t, Shape::kMaxRank> stride{};  // of the axes of the view, in elements
  std::int64_t step = 1;
  for (int axis = rank; axis-- > 0;) {
    stride[static_cast<std::size_t>(axis)] = step;
    step *= array.view[axis];
  }
  const std::int64_t count = array.own.count();
  for (std::int64_t there = 0; there < count; ++there) {
    std::int64_t left = there;
    std::int64_t here = 0;
    for (int axis = rank; axis-- > 0;) {
      const int own = array.axes[static_cast<std::size_t>(axis)];
      here += left % array.view[own] * stride[static_cast<std::size_t>(own)];
      left /= array.view[own];
    }
    each(here, there);
  }
}

std::string module_in(const std::string& name) { return name.substr(0, name.rfind('.')); }

/// Returns the module for each layer: by `named` and by the layers' names, or in order if `named` is empty and no name
/// matches.
std::vector<std::string> names_of(const std::vector<Module>& modules, const NamedTensors& state,
                                  const std::vector<std::pair<std::string, std::string>>& named) {
  std::vector<std::string> there;
  for (const auto& [name, tensor] : state) {
    if (const std::string module = module_in(name); std::ranges::find(there, module) == there.end()) {
      there.push_back(module);
    }
  }
  std::vector<std::string> layers;
  for (const Module& module : modules) layers.push_back(module.layer);
  for (const auto& [layer, module] : named) {
    if (std::ranges::find(layers, layer) == layers.end()) {
      throw InvalidArgument("modules: " + unknown_name("layer with parameters", layer, layers));
    }
  }
  const bool any =
      std::ranges::any_of(layers, [&](const auto& l) { return std::ranges::find(there, l) != there.end(); });
  if (named.empty() && !any) {
    if (there.size() == layers.size()) return there;
    throw InvalidArgument(fmt::format("state: {} modules ({}) for {} layers with parameters ({})", there.size(),
                                      join(there), layers.size(), join(layers)));
  }
  for (std::string& layer : layers) {
    const auto found = std::ranges::find(named, layer, [](const auto& pair) { return pair.first; });
    if (found != named.end()) layer = found->second;
  }
  return layers;
}

bool is_count(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

}  // namespace

NamedTensors torch_state(const Net& net) {
  const Net::Impl& in = *net.impl_;
  NamedTensors state;
  for (const Module& module : modules_of({in.values, in.nodes, in.parameters, in.states})) {
    for (const TorchArray& array : module.arrays) {
      const Tensor copy(array.own.dtype(), array.torch);
      const std::size_t size = size_of(copy.dtype());
      each_place(array, [&](std::int64_t here, std::int64_t there) {
        std::memcpy(static_cast<std::byte*>(copy.raw()) + static_cast<std::size_t>(there) * size,
                    static_cast<const std::byte*>(array.own.raw()) + static_cast<std::size_t>(here) * size, size);
      });
      state.emplace_back(module.layer + "." + array.name, copy);
      if (!array.also.empty()) state.emplace_back(module.layer + "." + array.also, Tensor(copy.dtype(), array.torch));
    }
  }
  return state;
}

void load_torch_state(Net& net, const NamedTensors& state, const ModuleNames& named) {
  const Net::Impl& in = *net.impl_;
  const std::vector<Module> modules = modules_of({in.values, in.nodes, in.parameters, in.states});
  const std::vector<std::string> names = names_of(modules, state, named);
  struct Pair {
    const TorchArray* array;
    const Tensor* from;
    const Tensor* also;  ///< to be added, or null
  };
  std::vector<Pair> pairs;
  std::vector<std::string> known;
  std::vector<std::string> received;
  for (const auto& [name, tensor] : state) received.push_back(name);
  const auto wanted = [&](const std::string& name, const std::string& layer, const TorchArray& array) {
    known.push_back(name);
    const auto found = std::ranges::find(state, name, [](const auto& pair) { return pair.first; });
    if (found == state.end()) {
      throw InvalidArgument(
          fmt::format("state: \"{}\", for layer \"{}\", is missing; received {}", name, layer, join(received)));
    }
    const Tensor& tensor = found->second;
    const bool number = tensor.dtype() == DType::float32 || tensor.dtype() == DType::float64;
    if (!number || tensor.shape() != array.torch) {
      throw InvalidArgument(
          fmt::format("state: \"{}\", for layer \"{}\": expected floats of shape {}; received {} of shape {}", name,
                      layer, array.torch.text(), name_of(tensor.dtype()), tensor.shape().text()));
    }
    return &tensor;
  };
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const std::string& layer = modules[m].layer;
    for (const TorchArray& array : modules[m].arrays) {
      Pair pair{.array = &array, .from = wanted(names[m] + "." + array.name, layer, array), .also = nullptr};
      if (!array.also.empty()) {
        const std::string name = names[m] + "." + array.also;
        pair.also = wanted(name, layer, array);
        for (std::int64_t i = array.apart; i < pair.also->count(); ++i) {
          if (pair.also->at(i) == 0) continue;
          throw InvalidArgument(
              fmt::format("state: \"{}\", for layer \"{}\": a GRU has no bias beside U_n h' here, so elements from {} "
                          "on must be 0; element {} is {}",
                          name, layer, array.apart, i, pair.also->at(i)));
        }
      }
      pairs.push_back(pair);
    }
  }
  for (const std::string& name : received) {
    if (!is_count(name) && std::ranges::find(known, name) == known.end()) {
      throw InvalidArgument("state: " + unknown_name("array", name, known));
    }
  }
  for (const auto& [array, from, also] : pairs) {
    kernel::by_type(array->own.dtype(), [&]<class To>(To) {
      const auto to = array->own.values<To>();
      each_place(*array, [&](std::int64_t here, std::int64_t there) {
        const double more = also == nullptr ? 0 : also->at(there);
        to[static_cast<std::size_t>(here)] = static_cast<To>(from->at(there) + more);
      });
    });
  }
}

}  // namespace pleiad::nn
