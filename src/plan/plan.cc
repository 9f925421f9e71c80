#include "pleiad/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "plan/spatial_plan.h"
#include "plan/split_layer.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

/// Returns why the layer cannot be split, or an empty text.
std::string obstacle(const nn::Net& net, const std::string& name, int ranks) {
  const nn::Layer& layer = net.layer(name);
  const nn::OutputSplitLayer* const split = layer.capabilities().output_split;
  if (split == nullptr) return fmt::format("{} layers cannot be split", layer.kind());
  if (std::string why = split->split_obstacle(); !why.empty()) return why;
  for (const nn::Parameter& p : net.parameters()) {
    if (p.uses > 1 && p.name.starts_with(name + "/")) return "other layers share its parameter";
  }
  const Shape out = layer.outputs(net.graph().input_shapes(name))[0];
  const std::int64_t outputs = out[out.rank() - 1];
  if (outputs < ranks) return fmt::format("{} outputs are too few for {} ranks", outputs, ranks);
  return {};
}

LayerPlan plan_layer(const nn::Net& net, const std::string& name, bool wanted, const Plan& plan) {
  const nn::Layer& layer = net.layer(name);
  const nn::Shapes in = net.graph().input_shapes(name);
  const double batches = static_cast<double>(plan.batch) / static_cast<double>(in[0][0]);
  const auto size = static_cast<std::int64_t>(size_of(net.options().dtype));
  LayerPlan of{.name = name, .kind = layer.kind()};
  const Shape out = layer.outputs(in)[0];
  of.outputs = out.rank() < 2 ? 0 : out[out.rank() - 1];
  of.products = layer.products(in) * batches / plan.ranks;
  std::vector<std::int64_t> numbers;  // number of elements of each parameter that belongs to this layer
  const std::vector<nn::ParamSpec> specs = layer.parameters(in);
  for (const nn::ParamSpec& spec : specs) numbers.push_back(spec.wanted.share.empty() ? spec.shape.count() : 0);

  if (wanted && plan.ranks > 1) of.why = obstacle(net, name, plan.ranks);
  const bool split = wanted && plan.ranks > 1 && of.why.empty();
  if (!split) {
    for (const std::int64_t n : numbers) of.parameter_bytes += n * size;
    if (plan.ranks == 1) return of;
    of.gradient_bytes = of.parameter_bytes;
    if (const nn::CoupledLayer* coupled = layer.capabilities().coupled) {
      of.forward_bytes = of.backward_bytes = coupled->batch_sums(in) * 8;
    }
    return of;
  }
  const OutputSplit cut = OutputSplit::of(of.outputs, plan.ranks);
  of.work = SplitWork{cut.begin};
  for (const std::int64_t n : numbers) of.parameter_bytes += n / of.outputs * cut.widest() * size;
  const std::int64_t of_batch = out.count() / of.outputs;
  const auto rows = static_cast<std::int64_t>(static_cast<double>(of_batch) * batches);
  const auto inputs = static_cast<std::int64_t>(static_cast<double>(in[0].count()) * batches);
  of.forward_bytes = (inputs + rows * cut.widest() * plan.ranks) * size;
  of.backward_bytes = (rows * of.outputs + (net.graph().needs_input_gradient(name) ? inputs : 0)) * size;
  return of;
}

}  // namespace

std::string_view LayerPlan::mode() const {
  static constexpr std::string_view names[] = {"whole", "split", "tile", "spread", "tower", "gather", "loss"};
  static_assert(std::size(names) == std::variant_size_v<LayerWork>);
  return names[work.index()];
}

const ImageTiles* LayerPlan::tiles() const {
  return std::visit(
      []<class Work>(const Work& of) -> const ImageTiles* {
        if constexpr (std::is_base_of_v<ImageTiles, Work>) {
          return &of;
        } else {
          return nullptr;
        }
      },
      work);
}

Plan make_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch) {
  if (options.kind == PlanKind::spatial) return spatial_plan(net, options, ranks, batch);
  if (options.deterministic && ranks > 1) {
    throw InvalidArgument(fmt::format("deterministic mode on several ranks requires plan \"spatial\"; received \"{}\"",
                                      options.kind.text()));
  }
  if (ranks < 1 || batch < ranks) {
    throw InvalidArgument(
        fmt::format("batch: expected at least one sample for each of the {} ranks; received {}", ranks, batch));
  }
  if (!options.split.empty() && options.kind != PlanKind::hybrid) {
    throw InvalidArgument(fmt::format("plan \"{}\" chooses its layers itself; the option split is for plan \"hybrid\"",
                                      options.kind.text()));
  }
  if (given_grid(options, ranks)) {
    throw InvalidArgument(
        fmt::format("plan \"{}\" takes no grid; the option grid is for plan \"spatial\"", options.kind.text()));
  }
  Plan plan{.net = net.options().name, .kind = options.kind, .ranks = ranks, .batch = batch, .layers = {}};
  plan.deterministic = options.deterministic;
  const std::vector<std::string> names = net.layer_names();
  for (const std::string& name : options.split) {
    if (std::ranges::find(names, name) == names.end()) {
      throw InvalidArgument("split: " + unknown_name("layer", name, names));
    }
  }
  for (const std::string& name : names) {
    const bool named = std::ranges::find(options.split, name) != options.split.end();
    const nn::Capabilities has = net.layer(name).capabilities();
    const bool dense = options.split.empty() && has.product != nullptr;
    const bool wanted = has.output_split != nullptr &&
                        (options.kind == PlanKind::feature || (options.kind == PlanKind::hybrid && dense));
    plan.layers.push_back(plan_layer(net, name, wanted || named, plan));
    if (named && !plan.layers.back().why.empty()) {
      throw InvalidArgument(fmt::format("layer \"{}\" cannot be split: {}", name, plan.layers.back().why));
    }
    if (plan.layers.back().as<SplitWork>() != nullptr && batch % ranks != 0) {
      throw InvalidArgument(
          fmt::format("batch size {} is not divisible by the {} ranks, which split layer \"{}\"; plan \"data\" takes "
                      "any batch size",
                      batch, ranks, name));
    }
  }
  return plan;
}

}  // namespace pleiad
