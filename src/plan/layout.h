// Applies a plan to a net and records which part of each parameter this rank holds.
#pragma once

#include <map>
#include <string>

#include "plan/communicator.h"
#include "plan/parameter_part.h"
#include "pleiad/plan.h"
#include "pleiad/spatial.h"

namespace pleiad {

class Layout {
 public:
  /// The layout in which every rank holds everything.
  Layout() = default;
  /// Splits the layers and images that the plan splits. Afterwards the net holds this rank's tiles and parts of
  /// parameters, with the values it had before.
  Layout(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm);

  /// Returns null if every rank holds the whole parameter.
  [[nodiscard]] const ParameterPart* part_of(const std::string& parameter) const;
  /// Sums the gradient of a part over the ranks that hold the same part. Does nothing if no other rank holds it. Must
  /// run in the communicator's order.
  void sum_over_holders(const std::string& parameter, const Tensor& gradient);

 private:
  void split_outputs(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm);
  void split_images(nn::Net& net, const Plan& plan, const std::shared_ptr<Communicator>& comm);

  std::map<std::string, ParameterPart> parts_;
  std::map<std::string, std::unique_ptr<HaloExchange>> holder_sums_;  // exchanges of the parts that several ranks hold
};

}  // namespace pleiad
