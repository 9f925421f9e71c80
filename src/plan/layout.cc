#include "plan/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/elementwise.h"
#include "plan/cut_layer.h"
#include "pleiad/nn/layers.h"

namespace pleiad {
namespace {

nn::LayerPtr with_outputs(const nn::Layer& layer, std::int64_t outputs) {
  nn::LayerFields fields = layer.options();
  for (auto& [name, value] : fields) {
    if (name == outputs_option(layer)) value = fmt::format("{}", outputs);
  }
  return nn::make_layer(layer.kind(), fields);
}

/// Copies a part of `whole` into `part`.
void take(const HeldPart& held, const Tensor& whole, const Tensor& part) {
  const std::size_t size = size_of(whole.dtype());
  const int rank = held.whole.rank();
  const auto inner = static_cast<std::size_t>(held.whole.count(held.axis + 1, rank)) * size;
  const auto begin = static_cast<std::size_t>(held.begin) * inner;
  kernel::copy_strided(part.raw(), static_cast<std::size_t>(held.length) * inner,
                       static_cast<const std::byte*>(whole.raw()) + begin,
                       static_cast<std::size_t>(held.whole[held.axis]) * inner,
                       static_cast<std::size_t>(held.length) * inner, held.whole.count(0, held.axis));
}

}  // namespace

std::string outputs_option(const nn::Layer& layer) {
  if (layer.kind() == "dense") return "out";
  return layer.kind() == "convolution" ? "filters" : "";
}

int cut_axis(const nn::Layer& layer, std::size_t index) {
  const auto transposed = [&] {
    return std::ranges::any_of(layer.options(), [](const auto& o) { return o.first == "transposed"; });
  };
  return index == 0 && transposed() ? 1 : 0;
}

Layout::Layout(nn::Net& net, const Plan& plan, const std::shared_ptr<Crew>& crew) {
  for (const LayerPlan& of : plan.layers) {
    if (!of.cut) continue;
    const nn::Layer& whole = net.layer(of.name);
    const Cut cut{of.begin};
    const std::vector<nn::ParamSpec> specs = whole.parameters(net.input_shapes(of.name));
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::string name = of.name + "/" + specs[i].name;
      values.push_back(net.parameter(name).value);
      parts_[name] = {.whole = specs[i].shape,
                      .axis = cut_axis(whole, i),
                      .begin = of.begin[static_cast<std::size_t>(crew->rank())],
                      .length = cut.length(crew->rank())};
    }
    net.replace(of.name, cut_layer(whole, with_outputs(whole, cut.length(crew->rank())), cut, crew));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::string name = of.name + "/" + specs[i].name;
      take(parts_[name], values[i], net.parameter(name).value);
    }
  }
}

const HeldPart* Layout::part_of(const std::string& parameter) const {
  const auto found = parts_.find(parameter);
  return found == parts_.end() ? nullptr : &found->second;
}

}  // namespace pleiad
