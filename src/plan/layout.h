// A plan carried out: which rectangle of which parameter this rank holds.
#pragma once

#include <map>
#include <string>

#include "plan/crew.h"
#include "pleiad/plan.h"

namespace pleiad {

/// `length` places of one axis of a parameter, from `begin` on.
struct HeldPart {
  Shape whole;
  int axis = 0;
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

class Layout {
 public:
  /// Nothing is cut.
  Layout() = default;
  /// Cuts the layers that the plan cuts: the net has this rank's parts of their parameters from now on, with the
  /// numbers that it had.
  Layout(nn::Net& net, const Plan& plan, const std::shared_ptr<Crew>& crew);

  /// Null for a parameter that every rank holds in whole.
  [[nodiscard]] const HeldPart* part_of(const std::string& parameter) const;

 private:
  std::map<std::string, HeldPart> parts_;
};

/// How a layer's parameter `index` would be cut: weight, bias.
[[nodiscard]] int cut_axis(const nn::Layer& layer, std::size_t index);

/// The option of a layer that says how many outputs it has; empty where it cannot be cut.
[[nodiscard]] std::string outputs_option(const nn::Layer& layer);

}  // namespace pleiad
