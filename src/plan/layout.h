// A plan carried out: which rectangle of which parameter this rank holds.
#pragma once

#include <map>
#include <string>

#include "plan/crew.h"
#include "plan/held_part.h"
#include "pleiad/plan.h"
#include "pleiad/spatial.h"

namespace pleiad {

class Layout {
 public:
  /// Nothing is cut.
  Layout() = default;
  /// Cuts the layers that the plan cuts, and images: the net has this rank's tiles and parts of parameters from now on,
  /// with the numbers that it had.
  Layout(nn::Net& net, const Plan& plan, const std::shared_ptr<Crew>& crew);

  /// Null for a parameter that every rank holds in whole.
  [[nodiscard]] const HeldPart* part_of(const std::string& parameter) const;
  /// Sums the gradient of a part over the ranks that hold the same; nothing where no other does. In the crew's order.
  void sum_alike(const std::string& parameter, const Tensor& gradient);

 private:
  void cut_outputs(nn::Net& net, const Plan& plan, const std::shared_ptr<Crew>& crew);
  void cut_images(nn::Net& net, const Plan& plan, const std::shared_ptr<Crew>& crew);

  std::map<std::string, HeldPart> parts_;
  std::map<std::string, std::unique_ptr<HaloExchange>> alike_;  // of parts that several ranks hold
};

/// How a layer's parameter `index` would be cut: weight, bias.
[[nodiscard]] int cut_axis(const nn::Layer& layer, std::size_t index);

/// The option of a layer that says how many outputs it has; empty where it cannot be cut.
[[nodiscard]] std::string outputs_option(const nn::Layer& layer);

}  // namespace pleiad
