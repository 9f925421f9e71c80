#include "plan/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/kernels.h"
#include "plan/loss_layer.h"
#include "plan/ordered_layer.h"
#include "plan/split_layer.h"
#include "plan/spread_layer.h"
#include "plan/tile_layer.h"
#include "plan/tower_layer.h"
#include "pleiad/nn/layers.h"

namespace pleiad {
namespace {

/// The positions that the parts of a layer's parameters belong to: those of each tile, and their number in the image.
struct Positions {
  const std::vector<Rect>* rects = nullptr;  // null if each rank holds the whole parameters
  std::int64_t all = 0;
};
Positions positions_of(const TileWork& work) { return {&work.out, work.out_h * work.out_w}; }
Positions positions_of(const SpreadWork& work) { return {&work.own, work.in_h * work.in_w}; }
Positions positions_of(const TowerWork& work) { return {&work.own, work.in_h * work.in_w}; }
template <class Work>
Positions positions_of(const Work&) {
  return {};
}

/// Tells each tile layer which layers follow it, so that their exchanges overlap with its computation.
void link(const nn::Net& net, const std::map<std::string, TileLayer*>& layers) {
  std::map<std::string, std::vector<std::string>> consumers;
  for (const std::string& name : net.layer_names()) {
    for (const std::string& from : net.graph().placement(name).inputs) consumers[from].push_back(name);
  }
  for (const auto& [name, layer] : layers) {
    const std::vector<std::string>& after = consumers[name];
    for (const std::string& next : after) {
      const auto found = layers.find(next);
      if (found == layers.end() || net.graph().placement(next).phases != net.graph().placement(name).phases) continue;
      if (net.graph().placement(next).inputs.size() == 1) layer->followed_by(*found->second, after.size() == 1);
    }
  }
}

}  // namespace

Layout::Layout(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm) {
  plan.kind == PlanKind::spatial ? split_images(net, plan, comm) : split_outputs(net, plan, comm);
}

void Layout::split_outputs(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm) {
  for (const LayerPlan& of : plan.layers) {
    const auto* const work = of.as<SplitWork>();
    if (work == nullptr) continue;
    const nn::Layer& whole = net.layer(of.name);
    const nn::OutputSplitLayer& outputs = *whole.capabilities().output_split;
    const OutputSplit cut{work->begin};
    const std::vector<nn::ParamSpec> specs = whole.parameters(net.graph().input_shapes(of.name));
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::string name = of.name + "/" + specs[i].name;
      values.push_back(net.parameter(name).value);
      const auto rank = static_cast<std::size_t>(comm->rank());
      parts_[name] =
          ParameterPart::along(specs[i].shape, outputs.output_axis(i), {{cut.begin[rank], cut.begin[rank + 1]}});
    }
    net.control().replace(of.name, split_layer(whole, outputs.with_outputs(cut.length(comm->rank())), cut, comm));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::string name = of.name + "/" + specs[i].name;
      extract_part(parts_[name], values[i], net.parameter(name).value);
    }
  }
}

void Layout::split_images(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm) {
  if (plan.ranks == 1) return;
  const int tile = plan.grid.tile_of(comm->rank());
  std::map<std::string, Rect> tiles;
  for (const std::string& input : plan.tiled_inputs) {
    const Shape sample = net.graph().input_sample(input);
    tiles[input] = plan.grid.tile(sample[0], sample[1], tile);
  }
  std::map<std::string, const LayerPlan*> plans;
  for (const LayerPlan& layer : plan.layers) plans[layer.name] = &layer;
  std::map<std::string, Tensor> wholes;
  for (const nn::Parameter& p : net.parameters()) wholes[p.name] = p.value;
  const auto hold = [&](const std::string& name, ParameterPart part) {
    part.writes = plan.grid.group_of(comm->rank()) == 0;
    parts_[name] = std::move(part);
  };
  for (const LayerPlan& layer : plan.layers) {
    const nn::Layer& whole = net.layer(layer.name);
    const std::vector<nn::ParamSpec> specs = whole.parameters(net.graph().input_shapes(layer.name));
    const Positions positions = std::visit([](const auto& work) { return positions_of(work); }, layer.work);
    for (std::size_t i = 0; positions.rects != nullptr && i < specs.size(); ++i) {
      if (!nn::of_places(whole, i) || !specs[i].wanted.share.empty()) continue;
      const Rect& places = (*positions.rects)[static_cast<std::size_t>(tile)];
      ParameterPart part = ParameterPart::along(specs[i].shape, 0, {places.h});
      part.runs[1] = {places.w};
      hold(layer.name + "/" + specs[i].name, std::move(part));
    }
    const auto* const tower = layer.as<TowerWork>();
    if (tower == nullptr) continue;
    const std::string name = layer.name + "/" + specs[0].name;
    const Rect& own = tower->own[static_cast<std::size_t>(tile)];
    std::vector<Interval> runs;  // intervals of the flattened image, one per row of the tile
    for (std::int64_t h = own.h.begin; h < own.h.end; ++h) {
      const std::int64_t row = h * tower->in_w;
      runs.push_back({(row + own.w.begin) * tower->in_c, (row + own.w.end) * tower->in_c});
    }
    const int axis = whole.capabilities().output_split->output_axis(0) == 1 ? 0 : 1;
    hold(name, ParameterPart::along(specs[0].shape, axis, std::move(runs)));
  }
  std::map<std::string, TileLayer*> tile_layers;
  net.control().lay_out(tiles, [&](const std::string& name, nn::LayerPtr layer) -> nn::LayerPtr {
    const LayerPlan& of = *plans.at(name);
    const nn::Capabilities has = layer->capabilities();
    if (const auto* tower = of.as<TowerWork>()) return tower_layer(std::move(layer), of, *tower, plan, comm);
    if (of.as<GatherWork>() != nullptr) return gather_layer(std::move(layer), of, plan, comm);
    if (of.as<WholeWork>() != nullptr) {
      if (has.coupled == nullptr && !plan.deterministic) return layer;
      return gather_layer(std::move(layer), of, plan, comm);
    }
    if (has.flattening != nullptr) return layer;
    if (of.as<LossWork>() != nullptr) return loss_layer(std::move(layer), plan);
    const auto* const spread = of.as<SpreadWork>();
    const auto* const tiled = of.as<TileWork>();
    if (plan.deterministic) {
      const TiledWork& work = spread != nullptr ? static_cast<const TiledWork&>(*spread) : *tiled;
      return ordered_layer(std::move(layer), name, work, plan, comm);
    }
    if (spread != nullptr) return spread_layer(std::move(layer), name, *spread, plan, comm);
    auto part = std::make_unique<TileLayer>(std::move(layer), name, *tiled, plan, comm);
    tile_layers[name] = part.get();
    return part;
  });
  for (auto& [name, part] : parts_) extract_part(part, wholes.at(name), net.parameter(name).value);
  link(net, tile_layers);
  if (plan.grid.groups == 1) return;
  for (const auto& [name, part] : parts_) {
    // Every rank uses the size of the largest part, so that all ranks make the same exchange. Smaller parts are padded
    // with zeros.
    const LayerPlan& of = *plans.at(name.substr(0, name.find('/')));
    const Positions positions = std::visit([](const auto& work) { return positions_of(work); }, of.work);
    std::int64_t places = 0;
    for (const Rect& rect : *positions.rects) places = std::max(places, rect.places());
    const std::int64_t most = part.whole.count() / positions.all * places;
    HaloSpec spec{.name = name, .teams = plan.grid.twins(), .own = {}, .need = {}};
    spec.dtype = net.options().dtype;
    for (int g = 0; g < plan.grid.groups; ++g) {
      spec.own.push_back({pleiad::part_of(most, plan.grid.groups, g), {0, 1}});
      spec.need.push_back({{0, most}, {0, 1}});
    }
    holder_sums_[name] = std::make_unique<HaloExchange>(comm->session(), spec);
  }
}

void Layout::sum_over_holders(const std::string& parameter, const Tensor& gradient) {
  const auto found = holder_sums_.find(parameter);
  if (found == holder_sums_.end()) return;
  HaloExchange& sum = *found->second;
  const Tensor all(gradient.dtype(), {sum.need().places()});
  const Tensor part(gradient.dtype(), {sum.own().places()});
  copy_bytes(all.raw(), gradient.raw(), gradient.bytes());
  sum.backward(all.raw(), part.raw());
  sum.forward(part.raw(), all.raw());
  copy_bytes(gradient.raw(), all.raw(), gradient.bytes());
}

const ParameterPart* Layout::part_of(const std::string& parameter) const {
  const auto found = parts_.find(parameter);
  return found == parts_.end() ? nullptr : &found->second;
}

}  // namespace pleiad
