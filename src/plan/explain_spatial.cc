#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "plan/spatial_plan.h"

namespace pleiad {
namespace {

std::string range(std::int64_t least, std::int64_t most) {
  return least == most ? fmt::format("{}", most) : fmt::format("{}-{}", least, most);
}

/// Returns a text such as "12-13 x 12 of 25 x 24".
std::string size_text(const std::vector<Rect>& rects, std::int64_t h, std::int64_t w) {
  const auto lengths = [&](auto of) {
    const auto [least, most] = std::ranges::minmax(rects, {}, of);
    return range(of(least), of(most));
  };
  return fmt::format("{} x {} of {} x {}", lengths([](const Rect& r) { return r.h.size(); }),
                     lengths([](const Rect& r) { return r.w.size(); }), h, w);
}

/// Returns the largest halo of any rank: rows above and below, columns left and right.
std::string halo_text(const TileWork& layer) {
  std::int64_t up = 0;
  std::int64_t down = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
  for (std::size_t m = 0; m < layer.own.size(); ++m) {
    const Rect& own = layer.own[m];
    const Rect& need = layer.need[m];
    if (need.empty()) continue;
    if (own.empty()) return "all";
    up = std::max(up, own.h.begin - need.h.begin);
    down = std::max(down, need.h.end - own.h.end);
    left = std::max(left, own.w.begin - need.w.begin);
    right = std::max(right, need.w.end - own.w.end);
  }
  return up + down + left + right == 0 ? "" : fmt::format("{},{},{},{}", up, down, left, right);
}

/// Draws how the first tiled input is divided over the ranks of the first group.
std::string picture(const Plan& plan) {
  const ImageTiles* first = nullptr;
  for (const LayerPlan& layer : plan.layers) {
    if (first == nullptr) first = layer.tiles();
  }
  if (first == nullptr) return {};
  std::string out;
  const Grid& grid = plan.grid;
  std::vector<std::size_t> widths;
  const auto cell = [&](int row, int col, bool rank) {
    const int tile = row * grid.cols + col;
    const Rect& rect = first->own[static_cast<std::size_t>(tile)];
    return rank ? fmt::format("rank {}", tile) : fmt::format("{}x{}", rect.h.size(), rect.w.size());
  };
  std::string line = "  +";
  for (int col = 0; col < grid.cols; ++col) {
    std::size_t width = 0;
    for (int row = 0; row < grid.rows; ++row) {
      width = std::max({width, cell(row, col, true).size(), cell(row, col, false).size()});
    }
    widths.push_back(width + 2);
    line += std::string(widths.back(), '-') + "+";
  }
  out += line + "\n";
  for (int row = 0; row < grid.rows; ++row) {
    for (const bool rank : {true, false}) {
      out += "  |";
      for (int col = 0; col < grid.cols; ++col) {
        out += fmt::format("{:^{}}|", cell(row, col, rank), widths[static_cast<std::size_t>(col)]);
      }
      out += "\n";
    }
    out += line + "\n";
  }
  return out;
}

// work_text() says what a rank computes.
std::string work_text(const TileWork& work) { return size_text(work.out, work.out_h, work.out_w); }
std::string work_text(const TowerWork& work) {
  return fmt::format("partial sums of {}", size_text(work.own, work.in_h, work.in_w));
}
std::string work_text(const SpreadWork& work) {
  return fmt::format("from {}", size_text(work.own, work.in_h, work.in_w));
}
std::string work_text(const LossWork&) { return "its part of the positions"; }
std::string work_text(const GatherWork&) { return "all, from gathered tiles"; }
std::string work_text(const WholeWork&) { return "all"; }
std::string work_text(const SplitWork&) { return "a part of the outputs"; }

}  // namespace

std::string explain_spatial(const Plan& plan) {
  const Grid& grid = plan.grid;
  std::string out =
      fmt::format("net \"{}\", plan spatial, {} rank{} as a grid {}, batch {} ({} samples a group)\n", plan.net,
                  plan.ranks, plan.ranks == 1 ? "" : "s", grid.text(), plan.batch, plan.batch / grid.groups);
  out += picture(plan);
  for (int group = 1; group < grid.groups; ++group) {
    out += fmt::format("  group {}: ranks {}-{}, in the same way\n", group, group * grid.tiles(),
                       (group + 1) * grid.tiles() - 1);
  }
  const char* const row = "  {:<14} {:<12} {:<8} {:<34} {:<10} {:>10} {:>10} {:>10} {:>10}\n";
  out += fmt::format(fmt::runtime(row), "layer", "kind", "as", "a rank computes", "halo", "parameters", "forward",
                     "backward", "gradients");
  LayerPlan sum;
  for (const LayerPlan& layer : plan.layers) {
    const auto* const tile = layer.as<TileWork>();
    out += fmt::format(fmt::runtime(row), layer.name, layer.kind, layer.mode(),
                       std::visit([](const auto& work) { return work_text(work); }, layer.work),
                       tile != nullptr ? halo_text(*tile) : "", bytes_text(layer.parameter_bytes),
                       bytes_text(layer.forward_bytes), bytes_text(layer.backward_bytes),
                       bytes_text(layer.gradient_bytes));
    sum.parameter_bytes += layer.parameter_bytes;
    sum.forward_bytes += layer.forward_bytes;
    sum.backward_bytes += layer.backward_bytes;
    sum.gradient_bytes += layer.gradient_bytes;
  }
  out += fmt::format(fmt::runtime(row), "all", "", "", "", "", bytes_text(sum.parameter_bytes),
                     bytes_text(sum.forward_bytes), bytes_text(sum.backward_bytes), bytes_text(sum.gradient_bytes));
  out += "  halo: rows above and below, columns left and right of a rank's tile, at most\n";
  out += fmt::format(
      "  {} a step are exchanged with each rank, {} of parameters held; by the cost model {:.3g} ms a step\n",
      byte_size(static_cast<std::uint64_t>(sum.bytes())), byte_size(static_cast<std::uint64_t>(sum.parameter_bytes)),
      plan.seconds * 1e3);
  return out;
}

}  // namespace pleiad
