#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "plan/spatial_plan.h"
#include "pleiad/plan.h"

namespace pleiad {
namespace {

std::string places(const LayerPlan& layer, int ranks) {
  const auto* const split = layer.as<SplitWork>();
  if (split == nullptr) return fmt::format("1/{} of the samples", ranks);
  const std::int64_t widest = split->begin[1] - split->begin[0];
  const std::int64_t least = split->begin.back() - split->begin[split->begin.size() - 2];
  return fmt::format("{} of {} outputs",
                     widest == least ? fmt::format("{}", widest) : fmt::format("{}-{}", least, widest), layer.outputs);
}

}  // namespace

std::string explain(const Plan& plan, const std::string& traffic) {
  if (plan.kind == PlanKind::spatial) return explain_spatial(plan);
  const std::int64_t least = plan.batch / plan.ranks;
  const bool even = plan.batch % plan.ranks == 0;
  std::string out = fmt::format("net \"{}\", plan {}, {} rank{}, batch {} ({} samples a rank)\n", plan.net,
                                name_of(plan.kind), plan.ranks, plan.ranks == 1 ? "" : "s", plan.batch,
                                even ? fmt::format("{}", least) : fmt::format("{} or {}", least, least + 1));
  const char* const row = "  {:<18} {:<14} {:<24} {:>12} {:>12} {:>12} {:>12}  {}\n";
  out += fmt::format(fmt::runtime(row), "layer", "kind", "a rank computes", "parameters", "forward", "backward",
                     "gradients", "");
  LayerPlan sum;
  for (const LayerPlan& layer : plan.layers) {
    out += fmt::format(fmt::runtime(row), layer.name, layer.kind, places(layer, plan.ranks),
                       bytes_text(layer.parameter_bytes), bytes_text(layer.forward_bytes),
                       bytes_text(layer.backward_bytes), bytes_text(layer.gradient_bytes),
                       layer.why.empty() ? "" : "not split: " + layer.why);
    sum.parameter_bytes += layer.parameter_bytes;
    sum.forward_bytes += layer.forward_bytes;
    sum.backward_bytes += layer.backward_bytes;
    sum.gradient_bytes += layer.gradient_bytes;
  }
  out += fmt::format(fmt::runtime(row), "all", "", "", bytes_text(sum.parameter_bytes), bytes_text(sum.forward_bytes),
                     bytes_text(sum.backward_bytes), bytes_text(sum.gradient_bytes), "");
  const std::string own =
      fmt::format("{} a step are exchanged with each rank", byte_size(static_cast<std::uint64_t>(sum.bytes())));
  out += fmt::format("  {}{} of parameters held\n", traffic.empty() ? own + ", " : traffic + "; ",
                     byte_size(static_cast<std::uint64_t>(sum.parameter_bytes)));
  for (const LayerPlan& layer : plan.layers) {
    const auto* const split = layer.as<SplitWork>();
    if (split == nullptr) continue;
    out += fmt::format("  {}:", layer.name);
    for (int r = 0; r < plan.ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      out += fmt::format(" rank {}: {}-{}{}", r, split->begin[at], split->begin[at + 1] - 1,
                         r + 1 < plan.ranks ? "," : "\n");
    }
  }
  return out;
}

}  // namespace pleiad
