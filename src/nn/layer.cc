#include "pleiad/nn/layer.h"

#include <algorithm>

#include "pleiad/nn/layers.h"

namespace pleiad::nn {

std::vector<ParamSpec> Layer::parameters(const Shapes&) const { return {}; }
std::vector<ParamSpec> Layer::states(const Shapes&) const { return {}; }
Shapes Layer::workspace(const Shapes&) const { return {}; }
Shapes Layer::carried(const Shapes&) const { return {}; }
DType Layer::input_type(std::size_t, DType net) const { return net; }
DType Layer::output_type(std::size_t, DType net) const { return net; }
bool Layer::takes(std::size_t i, DType given, DType net) const { return given == input_type(i, net); }
Interval Layer::input_interval(Interval out, int) const { return out; }
Interval Layer::output_interval(Interval in, int) const { return in; }
bool Layer::differentiable(std::size_t) const { return true; }
LayerPtr Layer::on_tile(const TilePlace&) const {
  const std::vector<std::string> kinds = layer_kinds();
  return spatial() && std::ranges::find(kinds, kind()) != kinds.end() ? make_layer(kind(), options()) : nullptr;
}
double Layer::products(const Shapes&) const { return 0; }
void Layer::prepare(const Shapes&, DType) {}

}  // namespace pleiad::nn
