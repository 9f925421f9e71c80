// Builds a net and runs its forward and backward passes.
#include "pleiad/nn/net.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/kernels.h"
#include "core/text.h"
#include "core/trace.h"
#include "kernel/blas/gemm.h"
#include "kernel/elementwise.h"
#include "nn/net_impl.h"
#include "pleiad/error.h"

namespace pleiad::nn {
namespace {

/// Runs `body`. Prefixes the text of an InvalidArgument that it throws with the layer's name and kind.
template <class Body>
auto with_layer_name(const Node& node, Body&& body) {
  try {
    return body();
  } catch (const InvalidArgument& mistake) {
    throw InvalidArgument(fmt::format("layer \"{}\" ({}): {}", node.name, node.layer->kind(), mistake.what()));
  }
}

unsigned mask_of(const std::vector<Phase>& phases) {
  unsigned mask = 0;
  for (const Phase phase : phases) mask |= static_cast<unsigned>(phase);
  return mask;
}

}  // namespace

Net::Net(NetOptions options) : impl_(std::make_unique<Impl>()) {
  if (options.dtype != DType::float32 && options.dtype != DType::float64) {
    throw InvalidArgument(fmt::format("net \"{}\": expected dtype float32 or float64; received {}", options.name,
                                      name_of(options.dtype)));
  }
  impl_->options = std::move(options);
}
Net::~Net() = default;
Net::Net(Net&&) noexcept = default;
Net& Net::operator=(Net&&) noexcept = default;

int Net::Impl::find_value(const std::string& who, const std::string& name) const {
  if (const auto found = value_of.find(name); found != value_of.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, index] : value_of) known.push_back(key);
  throw InvalidArgument(fmt::format("{}: {}", who, unknown_name("input or layer", name, known)));
}

Net& Net::input(const std::string& name, const Shape& sample) { return input(name, sample, impl_->options.dtype); }

Net& Net::input(const std::string& name, const Shape& sample, DType dtype) {
  if (name.empty() || name.find_first_of(":/") != std::string::npos || impl_->value_of.contains(name)) {
    throw InvalidArgument(fmt::format("net \"{}\": expected an unused input name without : and /; received \"{}\"",
                                      options().name, name));
  }
  impl_->value_of[name] = static_cast<int>(impl_->values.size());
  impl_->values.push_back(
      {.name = name, .sample = sample, .dtype = dtype, .data = Tensor(dtype, sample.with_batch(1), nullptr)});
  impl_->batch = 0;
  return *this;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers pass a temporary placement
Net& Net::add(const std::string& name, LayerPtr layer, Placement placement) {
  Impl& in = *impl_;
  if (layer == nullptr) throw InvalidArgument(fmt::format("layer \"{}\": received no layer", name));
  if (name.empty() || name.find_first_of(":/") != std::string::npos || in.value_of.contains(name)) {
    throw InvalidArgument(fmt::format("net \"{}\": expected an unused layer name without : and /; received \"{}\"",
                                      options().name, name));
  }
  Node node{.name = name, .layer = std::move(layer), .phases = mask_of(placement.phases)};
  if (placement.inputs.empty()) {
    if (in.values.empty()) throw InvalidArgument(fmt::format("layer \"{}\": the net has no input yet", name));
    node.inputs.push_back(in.nodes.empty() ? static_cast<int>(in.values.size()) - 1 : in.nodes.back().outputs[0]);
  }
  for (const std::string& from : placement.inputs) {
    node.inputs.push_back(in.find_value(fmt::format("layer \"{}\"", name), from));
  }
  const int index = static_cast<int>(in.nodes.size());
  Shapes shapes =
      with_layer_name(node, [&] {  // checks shapes now, with batch size 1, so that mistakes are reported by add()
        for (Value& value : in.values) {
          if (value.producer < 0) value.data = Tensor(value.dtype, value.held().with_batch(1), nullptr);
        }
        return node.layer->outputs(in.input_shapes(node));
      });
  const ScoringLayer* const scoring = node.layer->capabilities().scoring;
  if (scoring != nullptr) node.scores = scoring->scores();
  node.loss = scoring != nullptr && scoring->has_loss();
  with_layer_name(node, [&] {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = in.values[static_cast<std::size_t>(node.inputs[i])];
      if (!node.layer->takes(i, value.dtype, in.options.dtype)) {
        throw InvalidArgument(fmt::format("expected \"{}\", its input {}, as {}; received {}", value.name, i,
                                          name_of(node.layer->input_type(i, in.options.dtype)), name_of(value.dtype)));
      }
    }
  });
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    Value value{.name = k == 0 ? name : fmt::format("{}:{}", name, k),
                .dtype = node.layer->output_type(k, in.options.dtype),
                .producer = index};
    value.single = !node.scores.empty();
    value.data = Tensor(value.dtype, shapes[k], nullptr);
    const int id = static_cast<int>(in.values.size());
    node.outputs.push_back(id);
    in.value_of[fmt::format("{}:{}", name, k)] = id;
    if (k == 0) in.value_of[name] = id;
    in.values.push_back(std::move(value));
  }
  with_layer_name(node, [&] { in.add_parameters(node); });
  for (const int input : node.inputs) in.values[static_cast<std::size_t>(input)].consumers.push_back(index);
  in.node_of[name] = index;
  in.nodes.push_back(std::move(node));
  in.find_gradients();
  in.batch = 0;
  return *this;
}

void NetControl::replace(const std::string& name, LayerPtr layer) {
  Net::Impl& in = *net_->impl_;
  (void)net_->layer(name);  // throws an error that lists the known layers
  Node& node = in.nodes[static_cast<std::size_t>(in.node_of.at(name))];
  const Shapes shapes = in.input_shapes(node);
  with_layer_name(node, [&] {
    const std::vector<ParamSpec> specs = layer->parameters(shapes);
    if (layer->outputs(shapes) != node.layer->outputs(shapes) || specs.size() != node.parameters.size()) {
      throw InvalidArgument("its replacement has different outputs or a different number of parameters");
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Parameter& parameter = in.parameters[static_cast<std::size_t>(node.parameters[i])];
      if (parameter.uses > 1 || parameter.name != node.name + "/" + specs[i].name) {
        throw InvalidArgument(fmt::format("its {} is shared, so it cannot be replaced", specs[i].name));
      }
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Parameter& parameter = in.parameters[static_cast<std::size_t>(node.parameters[i])];
      parameter.value = Tensor(in.options.dtype, specs[i].shape);
      parameter.gradient = {};
    }
  });
  node.layer = std::move(layer);
  in.batch = 0;
}

void Net::prepare(std::int64_t batch) {
  Impl& in = *impl_;
  if (batch < 1)
    throw InvalidArgument(
        fmt::format("net \"{}\": expected a batch size of at least 1; received {}", options().name, batch));
  if (in.batch == batch) return;
  kernel::need_gemm();
  in.batch = 0;
  for (Value& value : in.values) {
    if (value.producer < 0) value.data = Tensor(value.dtype, value.held().with_batch(batch), nullptr);
  }
  for (Node& node : in.nodes) {
    with_layer_name(node, [&] {
      const Shapes from = in.input_shapes(node);
      const Shapes to = node.layer->outputs(from);
      for (std::size_t k = 0; k < to.size(); ++k) {
        Value& value = in.values[static_cast<std::size_t>(node.outputs[k])];
        value.data = Tensor(value.dtype, to[k], nullptr);
      }
      node.layer->set_deterministic(in.deterministic);
      node.layer->prepare(from, in.options.dtype);
    });
  }
  in.plan_activations();
  in.plan_gradients();
  in.bind();
  in.weights = Tensor(in.options.dtype, {batch});
  in.weights.fill(1);
  in.batch = batch;
  in.forward_done = false;
}

void Net::fix(const std::string& name, bool fixed) {
  Parameter& p = parameter(name);
  if (p.fixed == fixed) return;
  p.fixed = fixed;
  impl_->find_gradients();
  impl_->batch = 0;
}

void NetControl::set_update(std::size_t parameter, kernel::BlockUpdate* update) {
  Net::Impl& in = *net_->impl_;
  const Parameter& p = in.parameters.at(parameter);
  if (update != nullptr && (!p.pieces || p.uses > 1)) {
    throw InvalidArgument(fmt::format("parameter \"{}\" cannot be updated block by block", p.name));
  }
  if (in.updates[parameter] == update) return;
  in.updates[parameter] = update;
  in.batch = 0;
}

Tensor Net::input_tensor(const std::string& name) const {
  const Value& value =
      impl_->values[static_cast<std::size_t>(impl_->find_value(fmt::format("net \"{}\"", options().name), name))];
  if (value.producer >= 0) throw InvalidArgument(fmt::format("\"{}\" is a layer, not an input of the net", name));
  if (impl_->batch == 0) throw StateError(fmt::format("net \"{}\" is not prepared yet", options().name));
  return value.data;
}

void Net::forward(Phase phase, std::int64_t step, std::int64_t first_sample) {
  Impl& in = *impl_;
  if (in.batch == 0) throw StateError(fmt::format("net \"{}\": call prepare before forward", options().name));
  in.phase = phase;
  for (Node& node : in.nodes) {
    if (!in.active(node)) continue;
    if (!node.carried[0].empty())
      node.pass.carried = node.carried[phase == Phase::train ? 0 : 1].at(node.pass.x[0].shape()[0]);
    node.pass.phase = phase;
    node.pass.step = static_cast<std::uint32_t>(step);
    node.pass.first_sample = first_sample;
    node.pass.parts = in.parts;
    node.pass.placeholder = in.placeholder;
    node.pass.weights = in.weighted ? in.weights : Tensor();
    const Trace::Span span(in.trace, Trace::Track::compute, "forward", node.name);
    with_layer_name(node, [&] { node.layer->forward(node.pass); });
  }
  in.forward_done = true;
}

void Net::backward(const std::function<void(std::size_t)>& ready) {
  Impl& in = *impl_;
  if (!in.forward_done || in.phase != Phase::train) {
    throw StateError(fmt::format("net \"{}\": call forward in the training phase before backward", options().name));
  }
  in.forward_done = false;
  for (const auto& [gradient, value] : in.seeds) gradient.fill(value * in.gradient_scale);
  std::vector<int>& left = in.uses_left;
  for (std::size_t i = 0; i < in.parameters.size(); ++i) left[i] = in.active_uses[i];
  for (std::size_t n = in.nodes.size(); n-- > 0;) {
    Node& node = in.nodes[n];
    if (!in.active(node) || !node.needs_gradient) continue;
    const Trace::Span span(in.trace, Trace::Track::compute, "backward", node.name);
    with_layer_name(node, [&] { node.layer->backward(node.pass); });
    for (std::size_t i = 0; i < node.sums.size(); ++i) {
      if (!node.sums[i].empty()) kernel::add(node.sums[i], node.pass.dx[i]);
    }
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      if (!node.own_piece[i].empty()) kernel::add(node.own_piece[i], node.pass.gradient[i]);
      const auto p = static_cast<std::size_t>(node.parameters[i]);
      if (in.parameters[p].fixed) continue;
      if ((--left[p] == 0 || in.parameters[p].apart) && ready) ready(p);
    }
  }
}

void NetControl::set_seed(std::uint64_t seed) {
  net_->impl_->options.seed = seed;
  for (Node& node : net_->impl_->nodes) node.pass.seed = seed;
}

void NetControl::set_deterministic(bool on) {
  if (net_->impl_->deterministic != on) net_->impl_->batch = 0;
  net_->impl_->deterministic = on;
}
void NetControl::set_parts(BatchParts* parts) { net_->impl_->parts = parts; }
void NetControl::weigh_samples(bool on) {
  for (const Node& node : net_->impl_->nodes) {
    if (on && node.loss && !node.layer->capabilities().scoring->takes_weights()) {
      throw InvalidArgument(fmt::format("layer \"{}\" ({}) takes no sample weights", node.name, node.layer->kind()));
    }
  }
  net_->impl_->weighted = on;
}
Tensor NetControl::sample_weights() const { return net_->impl_->weights; }
void NetControl::set_placeholder(bool on) { net_->impl_->placeholder = on; }
void NetControl::set_trace(Trace* trace) { net_->impl_->trace = trace; }
void NetControl::set_gradient_scale(double scale) { net_->impl_->gradient_scale = scale; }

double Net::loss() const {
  double sum = 0;
  for (const Node& node : impl_->nodes) {
    if (impl_->active(node) && node.loss) sum += node.pass.y[0].at(0);
  }
  return sum;
}

std::vector<std::pair<std::string, double>> Net::metrics() const {
  std::vector<std::pair<std::string, double>> all;
  const auto scoring = std::ranges::count_if(impl_->nodes, [](const Node& node) { return !node.scores.empty(); });
  for (const Node& node : impl_->nodes) {
    if (!impl_->active(node)) continue;
    for (std::size_t i = 0; i < node.scores.size(); ++i) {
      all.emplace_back(scoring == 1 ? node.scores[i] : node.name + "/" + node.scores[i], node.pass.y[i].at(0));
    }
  }
  return all;
}

NetGraph Net::graph() const { return NetGraph(*this); }
NetControl Net::control() { return NetControl(*this); }

std::int64_t Net::batch() const { return impl_->batch; }
const NetOptions& Net::options() const { return impl_->options; }

std::vector<std::string> Net::input_names() const {
  std::vector<std::string> names;
  for (const Value& value : impl_->values) {
    if (value.producer < 0) names.push_back(value.name);
  }
  return names;
}

std::vector<std::string> Net::layer_names() const {
  std::vector<std::string> names;
  for (const Node& node : impl_->nodes) names.push_back(node.name);
  return names;
}

const Layer& Net::layer(const std::string& name) const {
  const auto found = impl_->node_of.find(name);
  if (found == impl_->node_of.end()) throw InvalidArgument(unknown_name("layer", name, layer_names()));
  return *impl_->nodes[static_cast<std::size_t>(found->second)].layer;
}

Shapes NetGraph::input_shapes(const std::string& name) const {
  (void)net_->layer(name);  // throws an error that lists the known layers
  return net_->impl_->input_shapes(net_->impl_->nodes[static_cast<std::size_t>(net_->impl_->node_of.at(name))]);
}

bool NetGraph::needs_input_gradient(const std::string& name) const {
  (void)net_->layer(name);
  const Node& node = net_->impl_->nodes[static_cast<std::size_t>(net_->impl_->node_of.at(name))];
  return net_->impl_->values[static_cast<std::size_t>(node.inputs[0])].needs_gradient;
}

Tensor Net::output(const std::string& name) const {
  return impl_->values[static_cast<std::size_t>(impl_->find_value("output", name))].data;
}

Tensor NetGraph::output_gradient(const std::string& name) const {
  return net_->impl_->values[static_cast<std::size_t>(net_->impl_->find_value("output_gradient", name))].gradient;
}

std::vector<Parameter>& Net::parameters() { return impl_->parameters; }
const std::vector<Parameter>& Net::parameters() const { return impl_->parameters; }

Parameter& Net::parameter(const std::string& name) {
  const auto found = impl_->parameter_of.find(name);
  if (found != impl_->parameter_of.end()) return impl_->parameters[static_cast<std::size_t>(found->second)];
  std::vector<std::string> known;
  for (const Parameter& p : impl_->parameters) known.push_back(p.name);
  throw InvalidArgument(unknown_name("parameter", name, known));
}

std::vector<std::pair<std::string, Tensor>> Net::states() const { return impl_->states; }

NamedTensors NetControl::carried() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const Node& node : net_->impl_->nodes) {
    if (net_->impl_->batch == 0 || node.carried[0].empty()) continue;
    const std::vector<Tensor>& tensors = node.carried[0].at(node.pass.x[0].shape()[0]);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      all.emplace_back(fmt::format("{}/carried{}", node.name, i), tensors[i]);
    }
  }
  return all;
}

void NetControl::forget(Phase phase) {
  for (const Node& node : net_->impl_->nodes) {
    for (const auto& [batch, tensors] : node.carried[phase == Phase::train ? 0 : 1]) {
      for (const Tensor& tensor : tensors) tensor.fill(0);
    }
  }
}

std::string first_not_finite(const Net& net) {
  for (const Node& node : net.impl_->nodes) {
    if (!net.impl_->active(node)) continue;
    for (const Tensor& y : node.pass.y) {
      if (y.dtype() == DType::int32 || y.dtype() == DType::int64) continue;
      const auto count = static_cast<std::size_t>(y.count());
      if (pleiad::first_not_finite(y.dtype(), y.raw(), count) < count) return node.name;
    }
  }
  return {};
}

}  // namespace pleiad::nn
