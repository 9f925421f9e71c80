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

/// Returns the input region that the outputs `out` need. An axis is empty if its windows only see padding.
Rect needed(const nn::Layer& layer, const Rect& out, std::int64_t in_h, std::int64_t in_w) {
  return {inside(layer.input_interval(out.h, 1), in_h), inside(layer.input_interval(out.w, 2), in_w)};
}

std::vector<Rect> tiles_of(const Grid& grid, std::int64_t h, std::int64_t w) {
  std::vector<Rect> all;
  for (int tile = 0; tile < grid.tiles(); ++tile) {
    const Rect rect = grid.tile(h, w, tile);
    all.push_back(rect.empty() ? Rect{} : rect);
  }
  return all;
}

HaloSpec halo_of(const LayerPlan& layer, std::int64_t batch, DType dtype) {
  HaloSpec spec{.own = layer.own, .need = layer.need};
  spec.batch = batch;
  spec.channels = std::max<std::int64_t>(layer.in_c, 1);
  spec.dtype = dtype;
  return spec;
}

class Planner {
 public:
  Planner(const nn::Net& net, const PlanOptions& options, const Grid& grid, int ranks, std::int64_t batch)
      : net_(net), size_(static_cast<std::int64_t>(size_of(net.options().dtype))) {
    plan_ = {.net = net.options().name, .kind = "spatial", .ranks = ranks, .batch = batch, .layers = {}, .grid = grid};
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
      const Shape sample = net_.input_sample(input);
      bool used = false;
      for (const std::string& name : net_.layer_names()) {
        const std::vector<std::string> from = net_.placement(name).inputs;
        const nn::Layer& layer = net_.layer(name);
        used |= std::ranges::find(from, input) != from.end() &&
                (layer.spatial() || layer.sums_places() || layer.kind() == "dense");
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

  LayerPlan place_layer(const std::string& name) {
    const nn::Layer& layer = net_.layer(name);
    const nn::Shapes in = net_.input_shapes(name);
    const nn::Shapes out = layer.outputs(in);
    const std::vector<std::string> from = net_.placement(name).inputs;
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
    of.mode = !first                                                 ? "whole"
              : layer.kind() == "flatten" && !first->flat            ? "tile"
              : can_tower(layer, name)                               ? "tower"
              : alike && layer.spreads()                             ? "spread"
              : alike && layer.sums_places() && !plan_.deterministic ? "loss"
              : alike && on_region(layer, in, out)                   ? "tile"
                                                                     : "gather";
    if (of.mode == "whole" && can_tower(layer, name) && tower_pays(name, in, out)) {
      of.mode = "tower";
      of.in_h = of.in_c = 1;
      of.in_w = in[0].count(1, in[0].rank());
      for (int m = 0; m < plan_.grid.tiles(); ++m) of.own.push_back({{0, 1}, part_of(of.in_w, plan_.grid.tiles(), m)});
    }
    for (const std::string& value : from) {
      const ValueLayout& layout = layouts_[value];
      if (of.mode == "gather" && layout.tiled && (layout.h != first->h || layout.w != first->w)) {
        throw InvalidArgument(
            fmt::format("layer \"{}\": its inputs are images of {}x{} and {}x{}, which a spatial plan "
                        "cannot gather",
                        name, first->h, first->w, layout.h, layout.w));
      }
    }
    if (first) {
      of.in_h = first->h;
      of.in_w = first->w;
      of.in_c = first->c;
      of.own = tiles_of(plan_.grid, of.in_h, of.in_w);
    }
    if (of.mode == "tile") place_tile(of, layer, out);
    if (of.mode == "spread") place_spread(of, layer, out);
    count_bytes(of, layer, in, out);
    for (std::size_t k = 0; k < out.size(); ++k) {
      ValueLayout layout;
      if (of.mode == "spread") layout = {.tiled = true, .h = of.out_h, .w = of.out_w, .c = out[k][3]};
      if (of.mode == "tile") {
        const bool flat = layer.kind() == "flatten";
        layout = {.tiled = true, .flat = flat, .h = of.out_h, .w = of.out_w, .c = flat ? of.in_c : out[k][3]};
      }
      layouts_[k == 0 ? name : fmt::format("{}:{}", name, k)] = layout;
    }
    return of;
  }

  /// Returns true for a spatial layer whose inputs and outputs are all images and which can run on a part of them.
  [[nodiscard]] bool on_region(const nn::Layer& layer, const nn::Shapes& in, const nn::Shapes& out) const {
    const auto image = [](const Shape& shape) { return shape.rank() == 4; };
    if (!layer.spatial() || !std::ranges::all_of(in, image) || !std::ranges::all_of(out, image)) return false;
    const Rect all{{0, out[0][1]}, {0, out[0][2]}};
    const nn::TilePlace whole{.in = needed(layer, all, in[0][1], in[0][2]),
                              .out = all,
                              .in_h = in[0][1],
                              .in_w = in[0][2],
                              .out_h = out[0][1],
                              .out_w = out[0][2]};
    return layer.on_tile(whole) != nullptr;
  }

  /// Returns true for a dense layer with one weight per input and output that it shares with no other layer.
  [[nodiscard]] bool can_tower(const nn::Layer& layer, const std::string& name) const {
    const bool other = std::ranges::any_of(layer.options(), [](const auto& option) {
      return option.first.ends_with(".share") || option.first.ends_with(".norm") || option.first == "last_axis";
    });
    return layer.kind() == "dense" && !other && std::ranges::none_of(net_.parameters(), [&](const nn::Parameter& p) {
             return p.uses > 1 && p.name.starts_with(name + "/");
           });
  }

  void place_tile(LayerPlan& of, const nn::Layer& layer, const nn::Shapes& out) const {
    const bool flat = layer.kind() == "flatten";
    of.out_h = flat ? of.in_h : out[0][1];
    of.out_w = flat ? of.in_w : out[0][2];
    of.out = tiles_of(plan_.grid, of.out_h, of.out_w);
    for (const Rect& rect : of.out) {
      of.need.push_back(rect.empty() ? Rect{} : needed(layer, rect, of.in_h, of.in_w));
    }
  }

  /// Here `need` is the region of outputs that the positions of a tile reach.
  void place_spread(LayerPlan& of, const nn::Layer& layer, const nn::Shapes& out) const {
    of.out_h = out[0][1];
    of.out_w = out[0][2];
    of.out = tiles_of(plan_.grid, of.out_h, of.out_w);
    for (const Rect& rect : of.own) {
      of.need.push_back(rect.empty() ? Rect{}
                                     : Rect{inside(layer.output_interval(rect.h, 1), of.out_h),
                                            inside(layer.output_interval(rect.w, 2), of.out_w)});
    }
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
    const double bytes = batch * (2 * outputs + (net_.needs_input_gradient(name) ? inputs : 0)) * size;
    return saved > bytes / kBandwidth + 3 * (tiles - 1) * kLatency;
  }

  void count_bytes(LayerPlan& of, const nn::Layer& layer, const nn::Shapes& in, const nn::Shapes& out) const {
    const std::int64_t batch = local_batch();
    std::int64_t widest = 0;
    for (const Rect& rect : of.own) widest = std::max(widest, rect.places());
    const std::vector<nn::ParamSpec> specs = layer.parameters(in);
    std::int64_t widest_out = 0;
    for (const Rect& rect : of.out) widest_out = std::max(widest_out, rect.places());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].wanted.share.empty()) continue;
      std::int64_t bytes = specs[i].shape.count() * size_;
      const bool tower = of.mode == "tower" && i == 0;
      const bool spread = of.mode == "spread" && layer.of_places(i);
      const bool places = spread || (of.mode == "tile" && layer.of_places(i));
      if (tower || spread) bytes = bytes / (of.in_h * of.in_w) * widest;
      if (places && !spread) bytes = bytes / (of.out_h * of.out_w) * widest_out;
      of.parameter_bytes += bytes;
      if (plan_.ranks > 1 && ((!tower && !places) || plan_.grid.groups > 1)) of.gradient_bytes += bytes;
    }
    if (plan_.grid.tiles() == 1) return;
    if (of.mode == "tile") {
      const HaloSpec spec = halo_of(of, batch, net_.options().dtype);
      std::int64_t most = 0;
      for (int m = 0; m < plan_.grid.tiles(); ++m) most = std::max({most, halo_bytes(spec, m), received(spec, m)});
      const auto inputs = static_cast<std::int64_t>(in.size());
      of.forward_bytes = most * inputs;
      of.backward_bytes = net_.needs_input_gradient(of.name) ? most * inputs : 0;
      if (layer.couples_samples()) {
        of.forward_bytes += (2 * of.in_c + 1) * 8;
        of.backward_bytes += 2 * of.in_c * 8;
      }
      double share = 0;
      const auto all = static_cast<double>(of.out_h * of.out_w);
      for (const Rect& rect : of.out) share = std::max(share, static_cast<double>(rect.places()) / all);
      of.products *= share;
    } else if (of.mode == "spread") {
      HaloSpec spec = halo_of(of, batch, net_.options().dtype);
      spec.own = of.out;
      spec.channels = out[0][3];
      for (int m = 0; m < plan_.grid.tiles(); ++m) {
        of.forward_bytes = std::max({of.forward_bytes, halo_bytes(spec, m), received(spec, m)});
      }
      of.backward_bytes = of.forward_bytes;
      of.products *= static_cast<double>(widest) / static_cast<double>(of.in_h * of.in_w);
    } else if (of.mode == "tower") {
      if (!of.tiled[0] && net_.needs_input_gradient(of.name)) of.backward_bytes = batch * of.in_w * size_;
      of.forward_bytes = 2 * batch * (out[0].count() / out[0][0]) * size_;
      of.products *= static_cast<double>(widest) / static_cast<double>(of.in_h * of.in_w);
    } else if (of.mode == "gather") {
      of.forward_bytes = batch * of.in_h * of.in_w * of.in_c * size_;
    }
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
    if (of.mode == "tile" || of.mode == "spread") {
      for (std::size_t m = 0; m < of.own.size(); ++m) {
        double peers = 0;
        const std::vector<Rect>& own = of.mode == "tile" ? of.own : of.out;
        for (std::size_t r = 0; r < own.size(); ++r) peers += r != m && !intersect(own[m], of.need[r]).empty();
        messages = std::max(messages, peers * 2);
      }
    } else if (of.mode == "tower" || of.mode == "gather") {
      messages = 2.0 * (plan_.grid.tiles() - 1);
    }
    return compute + static_cast<double>(of.bytes() + of.gradient_bytes) / kBandwidth + messages * kLatency;
  }

  [[nodiscard]] std::int64_t local_batch() const { return plan_.batch / plan_.grid.groups; }

  const nn::Net& net_;
  const std::int64_t size_;
  Plan plan_;
  std::map<std::string, ValueLayout> layouts_;
};

}  // namespace

Plan spatial_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch) {
  if (!options.split.empty())
    throw InvalidArgument("plan \"spatial\" splits images; the option split is for plan \"hybrid\"");
  if (ranks < 1 || batch < 1) {
    throw InvalidArgument(fmt::format("expected at least 1 rank and 1 sample; received {} and {}", ranks, batch));
  }
  static const std::vector<std::string> ways = {"always", "auto", "never"};
  if (std::ranges::find(ways, options.overlap) == ways.end()) {
    throw InvalidArgument(unknown_name("overlap", options.overlap, ways));
  }
  if (options.deterministic && options.grid != "auto" && grid_named(options.grid, ranks).groups > 1) {
    throw InvalidArgument(fmt::format(
        "deterministic mode does not support groups, which split the batch; received \"{}\"", options.grid));
  }
  const auto plan_on = [&](const Grid& grid) { return Planner(net, options, grid, ranks, batch).make(); };
  if (options.grid != "auto") {
    const Grid grid = grid_named(options.grid, ranks);
    if (batch % grid.groups != 0) {
      throw InvalidArgument(
          fmt::format("expected a batch size divisible by the {} groups of the grid; received {}", grid.groups, batch));
    }
    return plan_on(grid);
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
