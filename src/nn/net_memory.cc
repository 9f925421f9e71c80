// The memory of a net: allocates parameters, activations and gradients, and binds them to the layers' passes.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/elementwise.h"
#include "nn/net_impl.h"
#include "nn/plan_memory.h"
#include "pleiad/error.h"

namespace pleiad::nn {

Shapes Net::Impl::input_shapes(const Node& node) const {
  Shapes shapes;
  for (const int id : node.inputs) shapes.push_back(values[static_cast<std::size_t>(id)].data.shape());
  return shapes;
}

void Net::Impl::add_parameters(Node& node) {
  const Shapes in = input_shapes(node);
  for (const ParamSpec& spec : node.layer->parameters(in)) {
    const std::string name = node.name + "/" + spec.name;
    if (!spec.wanted.share.empty()) {
      const auto found = parameter_of.find(spec.wanted.share);
      if (found == parameter_of.end()) {
        throw InvalidArgument(
            fmt::format("{} shares \"{}\", which no earlier layer has", spec.name, spec.wanted.share));
      }
      Parameter& shared = parameters[static_cast<std::size_t>(found->second)];
      if (shared.value.shape() != spec.shape) {
        throw InvalidArgument(fmt::format("{} of shape {} shares \"{}\" of shape {}", spec.name, spec.shape.text(),
                                          shared.name, shared.value.shape().text()));
      }
      ++shared.uses;
      shared.pieces = false;
      parameter_of[name] = found->second;
      node.parameters.push_back(found->second);
      continue;
    }
    Parameter parameter{.name = name,
                        .value = Tensor(options.dtype, spec.shape),
                        .rate_scale = spec.wanted.rate_scale,
                        .decay_scale = spec.wanted.decay_scale,
                        .pieces = spec.pieces && spec.wanted.norm == 0,
                        .apart = spec.wanted.apart,
                        .norm = spec.wanted.norm,
                        .row = spec.fan_in};
    initialise(parameter.value, spec.wanted.init, spec.fan_in, spec.fan_out, options.seed, name);
    if (parameter.norm != 0) {
      if (!(parameter.norm > 0) || parameter.value.count() % spec.fan_in != 0) {
        throw InvalidArgument(
            fmt::format("{} of shape {} cannot be kept at norm {}", spec.name, spec.shape.text(), spec.wanted.norm));
      }
      kernel::scale_rows(parameter.value, parameter.row, parameter.norm);
    }
    const int id = static_cast<int>(parameters.size());
    node.parameters.push_back(id);
    parameter_of[name] = id;
    parameters.push_back(std::move(parameter));
    updates.push_back(nullptr);
  }
  for (const ParamSpec& spec : states_of(*node.layer, in)) {
    Tensor value(options.dtype, spec.shape);
    initialise(value, spec.wanted.init, 1, 1, options.seed, node.name + "/" + spec.name);
    node.states.push_back(static_cast<int>(states.size()));
    states.emplace_back(node.name + "/" + spec.name, value);
  }
}

void Net::Impl::find_gradients() {
  for (Node& node : nodes) {
    node.needs_gradient =
        std::ranges::any_of(node.parameters, [&](int p) { return !parameters[static_cast<std::size_t>(p)].fixed; });
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (values[static_cast<std::size_t>(node.inputs[i])].needs_gradient && node.layer->differentiable(i)) {
        node.needs_gradient = true;
      }
    }
    for (const int out : node.outputs) {
      Value& value = values[static_cast<std::size_t>(out)];
      value.needs_gradient = node.needs_gradient && (value.dtype == options.dtype);
    }
  }
}

// Activations are not reused within a step: they stay valid until the next forward, so that callers may read them.
void Net::Impl::plan_activations() {
  activation_bytes = 0;
  for (Value& value : values) {
    value.data = Tensor(value.dtype, value.data.shape());
    activation_bytes += value.data.bytes();
  }
  for (Node& node : nodes) {
    node.pass.workspace.clear();
    for (const Shape& shape : node.layer->workspace(input_shapes(node))) {
      node.pass.workspace.emplace_back(options.dtype, shape);
      activation_bytes += node.pass.workspace.back().bytes();
    }
    const Shapes in = input_shapes(node);
    for (auto& carried : node.carried) {  // the state of other batch sizes is kept until that batch size is used again
      const Shapes wanted = carried_by(*node.layer, in);
      if (wanted.empty() || carried.contains(in[0][0])) continue;
      for (const Shape& shape : wanted) carried[in[0][0]].emplace_back(options.dtype, shape);
    }
  }
}

// A gradient is live from the backward pass of its last consumer to that of its producer. Gradients that are not live
// at the same time share memory.
void Net::Impl::plan_gradients() {
  struct GradientBuffer {
    Lifetime life;
    Tensor* to;
    DType dtype;
    Shape shape;
  };
  std::vector<GradientBuffer> buffers;
  const int count = static_cast<int>(nodes.size());
  const auto moment = [&](int node) { return count - 1 - node; };
  for (Node& node : nodes) {
    node.pass.dx.assign(node.inputs.size(), {});
    node.sums.assign(node.inputs.size(), {});
  }
  const auto wish = [&](const Tensor& like, int first, int last, Tensor* to) {
    buffers.push_back({.life = {.bytes = like.bytes(), .first = first, .last = last},
                       .to = to,
                       .dtype = like.dtype(),
                       .shape = like.shape()});
  };
  for (Value& value : values) {
    value.gradient = {};
    if (!value.needs_gradient) continue;
    int last_consumer = -1;
    for (const int c : value.consumers) {
      const Node& node = nodes[static_cast<std::size_t>(c)];
      if (node.needs_gradient && (node.phases & static_cast<unsigned>(Phase::train)) != 0) {
        last_consumer = std::max(last_consumer, c);
      }
    }
    // A value without a consumer is an output of the net: a loss, which is seeded with 1, or an unused output.
    wish(value.data, last_consumer < 0 ? -1 : moment(last_consumer), moment(value.producer), &value.gradient);
  }
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    if (!node.needs_gradient) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = values[static_cast<std::size_t>(node.inputs[i])];
      if (!value.needs_gradient || !node.layer->differentiable(i)) continue;
      const bool again = first_consumer_in_backward(value) != std::pair{static_cast<int>(n), i};
      if (again) wish(value.data, moment(static_cast<int>(n)), moment(static_cast<int>(n)), &node.pass.dx[i]);
    }
  }
  std::vector<Lifetime> lives;
  for (const GradientBuffer& w : buffers) lives.push_back(w.life);
  gradient_bytes = plan_memory(lives);
  const Tensor arena(DType::int32, {static_cast<std::int64_t>(gradient_bytes / 4) + 1});
  const auto owner = std::make_shared<Tensor>(arena);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    *buffers[i].to =
        Tensor(buffers[i].dtype, buffers[i].shape, static_cast<std::byte*>(arena.raw()) + lives[i].offset, owner);
  }
  seeds.clear();
  for (const Value& value : values) {
    if (value.needs_gradient && first_consumer_in_backward(value).first < 0) {
      seeds.emplace_back(value.gradient, value.single && is_loss(value) ? 1 : 0);
    }
  }
}

bool Net::Impl::is_loss(const Value& value) const {
  return nodes[static_cast<std::size_t>(value.producer)].outputs[0] == value_of.at(value.name);
}

std::pair<int, std::size_t> Net::Impl::first_consumer_in_backward(const Value& value) const {
  for (std::size_t c = value.consumers.size(); c-- > 0;) {
    const Node& node = nodes[static_cast<std::size_t>(value.consumers[c])];
    if (!node.needs_gradient || (node.phases & static_cast<unsigned>(Phase::train)) == 0) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool same = &values[static_cast<std::size_t>(node.inputs[i])] == &value;
      if (same && node.layer->differentiable(i)) return {value.consumers[c], i};
    }
  }
  return {-1, 0};
}

bool Net::Impl::shift_is_removed(const Node& node) const {
  const Value& out = values[static_cast<std::size_t>(node.outputs[0])];
  if (out.consumers.size() != 1) return false;
  const ShiftLayer* const next = nodes[static_cast<std::size_t>(out.consumers[0])].layer->capabilities().shift;
  return next != nullptr && next->removes_shift();
}

void Net::Impl::bind() {
  active_uses.assign(parameters.size(), 0);
  uses_left.assign(parameters.size(), 0);
  std::vector<bool> written(parameters.size(), false);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    Parameter& parameter = parameters[p];
    if (updates[p] != nullptr && !parameter.fixed) {
      parameter.gradient = {};
    } else if (parameter.gradient.empty()) {
      parameter.gradient = Tensor(options.dtype, parameter.value.shape());
    }
  }
  for (std::size_t n = nodes.size(); n-- > 0;) {
    Node& node = nodes[n];
    Pass& pass = node.pass;
    pass.seed = options.seed;
    pass.name = node.name;
    pass.x.clear();
    pass.y.clear();
    pass.dy.clear();
    pass.parameter.clear();
    pass.gradient.clear();
    pass.update.clear();
    pass.state.clear();
    node.own_piece.clear();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Value& value = values[static_cast<std::size_t>(node.inputs[i])];
      pass.x.push_back(value.data);
      if (!node.needs_gradient || !value.needs_gradient || !node.layer->differentiable(i)) continue;
      if (first_consumer_in_backward(value) == std::pair{static_cast<int>(n), i}) {
        pass.dx[i] = value.gradient;
      } else {
        node.sums[i] = value.gradient;
      }
    }
    for (const int id : node.outputs) {
      pass.y.push_back(values[static_cast<std::size_t>(id)].data);
      pass.dy.push_back(values[static_cast<std::size_t>(id)].gradient);
    }
    const bool trains = (node.phases & static_cast<unsigned>(Phase::train)) != 0;
    const ShiftLayer* const adds = node.layer->capabilities().shift;
    const int shift = adds != nullptr && shift_is_removed(node) ? adds->shift_parameter() : -1;
    for (const int id : node.parameters) {
      const auto p = static_cast<std::size_t>(id);
      if (trains && node.needs_gradient) ++active_uses[p];
      pass.parameter.push_back(parameters[p].value);
      pass.update.push_back(parameters[p].fixed ? nullptr : updates[p]);
      // The first layer in backward writes the gradient of a shared parameter; the others add to it.
      const bool again = written[p] && !parameters[p].apart;
      // The true gradient is 0. The layer writes what it computes, which is only rounding error, to a scratch tensor.
      const bool zero = shift == static_cast<int>(pass.gradient.size()) && parameters[p].uses == 1;
      const bool elsewhere = again || zero;
      pass.gradient.push_back(elsewhere ? Tensor(options.dtype, parameters[p].value.shape()) : parameters[p].gradient);
      node.own_piece.push_back(again ? parameters[p].gradient : Tensor());
      if (trains && node.needs_gradient) written[p] = true;
    }
    for (const int id : node.states) pass.state.push_back(states[static_cast<std::size_t>(id)].second);
  }
}

}  // namespace pleiad::nn
