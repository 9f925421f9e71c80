#include "plan/spatial_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/spatial.h"

namespace pleiad {
namespace {

// The assumed speed of a rank and its connections. The model only compares grids, so ratios matter rather than absolute
// values.
constexpr double kProducts = 2e10;  // products per second
constexpr double kBandwidth = 4e9;  // bytes per second
constexpr double kLatency = 10e-6;  // seconds per message

/// How a value is distributed: whole on every rank, or in tiles of h x w x c images, possibly flattened.
struct ValueLayout {
  bool tiled = false;
  bool flat = false;
  std::int64_t h = 0, w = 0, c = 0;
};

Interval inside(Interval interval, std::int64_t length) { return intersect(interval, {0, length}); }

/// Returns the input region that the outputs `out` need. An axis is empty if its windows only see padding. A layer that
/// is not spatial (flatten) needs the same region.
Rect needed(const nn::SpatialLayer* layer, const Rect& out, std::int64_t in_h, std::int64_t in_w) {
  if (layer == nullptr) return {inside(out.h, in_h), inside(out.w, in_w)};
  return {inside(layer->input_interval(out.h, 1), in_h), inside(layer->input_interval(out.w, 2), in_w)};
}

std::vector<Rect> tiles_of(const Grid& grid, std::int64_t h, std::int64_t w) {
  std::vector<Rect> all;
  for (int tile = 0; tile < grid.tiles(); ++tile) {
    const Rect rect = grid.tile(h, w, tile);
    all.push_back(rect.empty() ? Rect{} : rect);
  }
  return all;
}

std::int64_t most_places(const std::vector<Rect>& rects) {
  std::int64_t most = 0;
  for (const Rect& rect : rects) most = std::max(most, rect.places());
  return most;
}

class Planner {
 public:
  Planner(const nn::Net& net, const PlanOptions& options, const Grid& grid, int ranks, std::int64_t batch)
      : net_(net), size_(static_cast<std::int64_t>(size_of(net.options().dtype))) {
    plan_ = {.net = net.options().name,
             .kind = PlanKind::spatial,
             .ranks = ranks,
             .batch = batch,
             .layers = {},
             .grid = grid};
    plan_.overlap = options.overlap;
    plan_.deterministic = options.deterministic;
    plan_.halo_delay = options.halo_delay;
  }

  Plan make() {
    place_inputs();
    for (const std::string& name : net_.layer_names()) plan_.layers.push_back(place_layer(name));
    for (const LayerPlan& layer : plan_.layers) plan_.seconds += seconds_of(layer);
    return std::move(plan_);
  }

 private:
  void place_inputs() {
    for (const std::string& input : net_.input_names()) {
      const Shape sample = net_.graph().input_sample(input);
      bool used = false;
      for (const std::string& name : net_.layer_names()) {
        const std::vector<std::string> from = net_.graph().placement(name).inputs;
        used |= std::ranges::find(from, input) != from.end() && takes_tiles(net_.layer(name).capabilities());
      }
      if (sample.rank() != 3 || !used) continue;
      layouts_[input] = {.tiled = true, .h = sample[0], .w = sample[1], .c = sample[2]};
      plan_.tiled_inputs.push_back(input);
    }
    if (plan_.tiled_inputs.empty()) {
      throw InvalidArgument(fmt::format(
          "net \"{}\" has no image inputs (height, width, channels), which a spatial plan splits", plan_.net));
    }
  }

  static bool takes_tiles(const nn::Capabilities& has) {
    return has.spatial != nullptr || has.product != nullptr || (has.scoring != nullptr && has.scoring->sums_places());
  }

  LayerPlan place_layer(const std::string& name) {
    const nn::Layer& layer = net_.layer(name);
    const nn::Shapes in = net_.graph().input_shapes(name);
    const nn::Shapes out = layer.outputs(in);
    const std::vector<std::string> from = net_.graph().placement(name).inputs;
    LayerPlan of{.name = name, .kind = layer.kind()};
    of.outputs = out[0].rank() < 2 ? 0 : out[0][out[0].rank() - 1];
    const double batches = static_cast<double>(local_batch()) / static_cast<double>(in[0][0]);
    of.products = layer.products(in) * batches;
    std::optional<ValueLayout> first;
    bool alike = true;
    for (const std::string& value : from) {
      const ValueLayout layout = layouts_[value];
      of.tiled.push_back(layout.tiled);
      if (layout.tiled && !first) first = layout;
      alike &= layout.tiled && !layout.flat && layout.h == first->h && layout.w == first->w;
    }
    of.work = work_of(layer, name, in, out, first, alike);
    for (const std::string& value : from) {
      const ValueLayout& layout = layouts_[value];
      if (of.as<GatherWork>() != nullptr && layout.tiled && (layout.h != first->h || layout.w != first->w)) {
        throw InvalidArgument(
            fmt::format("layer \"{}\": its inputs are images of {}x{} and {}x{}, which a spatial plan "
                        "cannot gather",
                        name, first->h, first->w, layout.h, layout.w));
      }
    }
    count_parameters(of, layer.parameters(in), layer);
    if (plan_.grid.tiles() > 1) {
      std::visit([&](const auto& work) { count_exchange(of, work, layer, in, out); }, of.work);
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      ValueLayout layout;
      if (const auto* spread = of.as<SpreadWork>()) {
        layout = {.tiled = true, .h = spread->out_h, .w = spread->out_w, .c = out[k][3]};
      } else if (const auto* tile = of.as<TileWork>()) {
        const bool flat = layer.capabilities().flattening != nullptr;
        layout = {.tiled = true, .flat = flat, .h = tile->out_h, .w = tile->out_w, .c = flat ? tile->in_c : out[k][3]};
      }
      layouts_[k == 0 ? name : fmt::format("{}:{}", name, k)] = layout;
    }
    return of;
  }

  /// Chooses what a rank computes. `first` is the layout of the first tiled input, if there is one; `alike`: all inputs
  /// are images in the same tiles.
  [[nodiscard]] LayerWork work_of(const nn::Layer& layer, const std::string& name, const nn::Shapes& in,
                                  const nn::Shapes& out, const std::optional<ValueLayout>& first, bool alike) const {
    const nn::Capabilities has = layer.capabilities();
    const bool tower = can_tower(has, name);
    if (!first) {
      if (!tower || !tower_pays(name, in, out)) return WholeWork{};
      TowerWork work{{.in_h = 1, .in_w = in[0].count(1, in[0].rank()), .in_c = 1}};
      for (int m = 0; m < plan_.grid.tiles(); ++m) {
        work.own.push_back({{0, 1}, part_of(work.in_w, plan_.grid.tiles(), m)});
      }
      return work;
    }
    const ImageTiles tiles{
        .in_h = first->h, .in_w = first->w, .in_c = first->c, .own = tiles_of(plan_.grid, first->h, first->w)};
    if (has.flattening != nullptr && !first->flat) return tile_work(tiles, nullptr, first->h, first->w);
    if (tower) return TowerWork{tiles};
    if (alike && has.spreading != nullptr) return spread_work(tiles, *has.spreading, out[0]);
    if (alike && has.scoring != nullptr && has.scoring->sums_places() && !plan_.deterministic) return LossWork{tiles};
    if (alike && runs_on_tiles(layer, in, out)) return tile_work(tiles, has.spatial, out[0][1], out[0][2]);
    return GatherWork{tiles};
  }

  /// Returns true for a spatial layer whose inputs and outputs are all images and which can run on a part of them.
  [[nodiscard]] static bool runs_on_tiles(const nn::Layer& layer, const nn::Shapes& in, const nn::Shapes& out) {
    const auto image = [](const Shape& shape) { return shape.rank() == 4; };
    const nn::Capabilities has = layer.capabilities();
    if (has.spatial == nullptr || !nn::carried_by(layer, in).empty()) return false;
    if (!std::ranges::all_of(in, image) || !std::ranges::all_of(out, image)) return false;
    const Rect all{{0, out[0][1]}, {0, out[0][2]}};
    const nn::TilePlace whole{.in = needed(has.spatial, all, in[0][1], in[0][2]),
                              .out = all,
                              .in_h = in[0][1],
                              .in_w = in[0][2],
                              .out_h = out[0][1],
                              .out_w = out[0][2]};
    return nn::on_tile(layer, whole) != nullptr;
  }

  /// Returns true for a dense layer with one weight per input and output that it shares with no other layer.
  [[nodiscard]] bool can_tower(const nn::Capabilities& has, const std::string& name) const {
    if (has.product == nullptr || !has.output_split->split_obstacle().empty()) return false;
    return std::ranges::none_of(net_.parameters(),
                                [&](const nn::Parameter& p) { return p.uses > 1 && p.name.starts_with(name + "/"); });
  }

  [[nodiscard]] TileWork tile_work(const ImageTiles& tiles, const nn::SpatialLayer* layer, std::int64_t out_h,
                                   std::int64_t out_w) const {
    TileWork work{{tiles, out_h, out_w, tiles_of(plan_.grid, out_h, out_w)}, {}};
    for (const Rect& rect : work.out) {
      work.need.push_back(rect.empty() ? Rect{} : needed(layer, rect, work.in_h, work.in_w));
    }
    return work;
  }

  [[nodiscard]] SpreadWork spread_work(const ImageTiles& tiles, const nn::SpreadingLayer& layer,
                                       const Shape& out) const {
    SpreadWork work{{tiles, out[1], out[2], tiles_of(plan_.grid, out[1], out[2])}, {}};
    for (const Rect& rect : work.own) {
      work.reach.push_back(rect.empty() ? Rect{}
                                        : Rect{inside(layer.output_interval(rect.h, 1), work.out_h),
                                               inside(layer.output_interval(rect.w, 2), work.out_w)});
    }
    return work;
  }

  /// Returns true if it pays to split a dense layer whose inputs every rank has: compares the saved computation and
  /// gradient traffic with the added traffic.
  [[nodiscard]] bool tower_pays(const std::string& name, const nn::Shapes& in, const nn::Shapes& out) const {
    if (plan_.grid.tiles() == 1) return false;  // nothing to split
    const double tiles = plan_.grid.tiles();
    const auto batch = static_cast<double>(local_batch());
    const auto size = static_cast<double>(size_);
    const double inputs = static_cast<double>(in[0].count()) / static_cast<double>(in[0][0]);
    const double outputs = static_cast<double>(out[0].count()) / static_cast<double>(out[0][0]);
    double saved = 3 * batch * inputs * outputs * (1 - 1 / tiles) / kProducts;
    // With several groups, the gradient of a part is exchanged like that of the whole.
    if (plan_.grid.groups == 1) saved += inputs * outputs * size / kBandwidth;
    const double bytes = batch * (2 * outputs + (net_.graph().needs_input_gradient(name) ? inputs : 0)) * size;
    return saved > bytes / kBandwidth + 3 * (tiles - 1) * kLatency;
  }

  void count_parameters(LayerPlan& of, const std::vector<nn::ParamSpec>& specs, const nn::Layer& layer) const {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].wanted.share.empty()) continue;
      std::int64_t bytes = specs[i].shape.count() * size_;
      bool split = true;
      if (const auto* tower = of.as<TowerWork>(); tower != nullptr && i == 0) {
        bytes = bytes / (tower->in_h * tower->in_w) * most_places(tower->own);
      } else if (const auto* spread = of.as<SpreadWork>(); spread != nullptr && nn::of_places(layer, i)) {
        bytes = bytes / (spread->in_h * spread->in_w) * most_places(spread->own);
      } else if (const auto* tile = of.as<TileWork>(); tile != nullptr && nn::of_places(layer, i)) {
        bytes = bytes / (tile->out_h * tile->out_w) * most_places(tile->out);
      } else {
        split = false;
      }
      of.parameter_bytes += bytes;
      if (plan_.ranks > 1 && (!split || plan_.grid.groups > 1)) of.gradient_bytes += bytes;
    }
  }

  // count_exchange() sets the bytes that a layer's work exchanges, and the products that are left for a rank.
  void count_exchange(LayerPlan& of, const TileWork& work, const nn::Layer& layer, const nn::Shapes& in,
                      const nn::Shapes&) const {
    const std::int64_t bytes = halo_traffic(work.own, work.need, work.in_c) * static_cast<std::int64_t>(in.size());
    of.forward_bytes = bytes;
    of.backward_bytes = net_.graph().needs_input_gradient(of.name) ? bytes : 0;
    if (const nn::CoupledLayer* coupled = layer.capabilities().coupled) {
      const std::int64_t sums = coupled->batch_sums(in);
      of.forward_bytes += (sums + 1) * 8;  // and the number of rows
      of.backward_bytes += sums * 8;
    }
    of.products *= static_cast<double>(most_places(work.out)) / static_cast<double>(work.out_h * work.out_w);
  }
  void count_exchange(LayerPlan& of, const SpreadWork& work, const nn::Layer&, const nn::Shapes&,
                      const nn::Shapes& out) const {
    of.forward_bytes = of.backward_bytes = halo_traffic(work.out, work.reach, out[0][3]);
    of.products *= static_cast<double>(most_places(work.own)) / static_cast<double>(work.in_h * work.in_w);
  }
  void count_exchange(LayerPlan& of, const TowerWork& work, const nn::Layer&, const nn::Shapes&,
                      const nn::Shapes& out) const {
    const std::int64_t batch = local_batch();
    if (!of.tiled[0] && net_.graph().needs_input_gradient(of.name)) of.backward_bytes = batch * work.in_w * size_;
    of.forward_bytes = 2 * batch * (out[0].count() / out[0][0]) * size_;
    of.products *= static_cast<double>(most_places(work.own)) / static_cast<double>(work.in_h * work.in_w);
  }
  void count_exchange(LayerPlan& of, const GatherWork& work, const nn::Layer&, const nn::Shapes&,
                      const nn::Shapes&) const {
    of.forward_bytes = local_batch() * work.in_h * work.in_w * work.in_c * size_;
  }
  template <class Work>
  static void count_exchange(LayerPlan&, const Work&, const nn::Layer&, const nn::Shapes&, const nn::Shapes&) {}

  /// Returns the most bytes that a rank sends or receives in an exchange.
  [[nodiscard]] std::int64_t halo_traffic(const std::vector<Rect>& own, const std::vector<Rect>& need,
                                          std::int64_t channels) const {
    HaloSpec spec{.own = own, .need = need};
    spec.batch = local_batch();
    spec.channels = std::max<std::int64_t>(channels, 1);
    spec.dtype = net_.options().dtype;
    std::int64_t most = 0;
    for (int m = 0; m < plan_.grid.tiles(); ++m) most = std::max({most, halo_bytes(spec, m), received(spec, m)});
    return most;
  }

  static std::int64_t received(const HaloSpec& spec, int m) {
    const auto me = static_cast<std::size_t>(m);
    const auto size = static_cast<std::int64_t>(size_of(spec.dtype));
    return (spec.need[me].places() - intersect(spec.need[me], spec.own[me]).places()) * spec.batch * spec.channels *
           size;
  }

  [[nodiscard]] double seconds_of(const LayerPlan& of) const {
    const double compute = 3 * of.products / kProducts;
    double messages = 0;
    if (const auto* tile = of.as<TileWork>()) {
      messages = 2 * most_peers(tile->own, tile->need);
    } else if (const auto* spread = of.as<SpreadWork>()) {
      messages = 2 * most_peers(spread->out, spread->reach);
    } else if (of.as<TowerWork>() != nullptr || of.as<GatherWork>() != nullptr) {
      messages = 2.0 * (plan_.grid.tiles() - 1);
    }
    return compute + static_cast<double>(of.bytes() + of.gradient_bytes) / kBandwidth + messages * kLatency;
  }

  /// Returns the largest number of ranks that need a part of what one rank has.
  static double most_peers(const std::vector<Rect>& own, const std::vector<Rect>& need) {
    double most = 0;
    for (std::size_t m = 0; m < own.size(); ++m) {
      double peers = 0;
      for (std::size_t r = 0; r < own.size(); ++r) peers += r != m && !intersect(own[m], need[r]).empty();
      most = std::max(most, peers);
    }
    return most;
  }

  [[nodiscard]] std::int64_t local_batch() const { return plan_.batch / plan_.grid.groups; }

  const nn::Net& net_;
  const std::int64_t size_;
  Plan plan_;
  std::map<std::string, ValueLayout> layouts_;
};

}  // namespace

std::optional<Grid> given_grid(const PlanOptions& options, int ranks) {
  if (options.grid == "auto") return std::nullopt;
  return grid_named(options.grid, ranks);
}

Plan spatial_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch) {
  if (!options.split.empty())
    throw InvalidArgument("plan \"spatial\" splits images; the option split is for plan \"hybrid\"");
  if (ranks < 1 || batch < 1) {
    throw InvalidArgument(fmt::format("expected at least 1 rank and 1 sample; received {} and {}", ranks, batch));
  }
  const std::optional<Grid> given = given_grid(options, ranks);
  if (options.deterministic && given && given->groups > 1) {
    throw InvalidArgument(fmt::format(
        "deterministic mode does not support groups, which split the batch; received \"{}\"", options.grid));
  }
  const auto plan_on = [&](const Grid& grid) { return Planner(net, options, grid, ranks, batch).make(); };
  if (given) {
    if (batch % given->groups != 0) {
      throw InvalidArgument(fmt::format("expected a batch size divisible by the {} groups of the grid; received {}",
                                        given->groups, batch));
    }
    return plan_on(*given);
  }
  std::optional<Plan> best;
  // Considers grids with one group only; the user must ask for more. Among grids of equal cost, prefers more rows: the
  // halos of its tiles are contiguous.
  for (int rows = ranks; rows > 0; --rows) {
    if (ranks % rows != 0) continue;
    Plan plan = plan_on({.rows = rows, .cols = ranks / rows});
    if (!best || plan.seconds < best->seconds) best = std::move(plan);
  }
  return *best;
}

}  // namespace pleiad
