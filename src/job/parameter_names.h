// The names of the net's parameters in SINGA's checkpoints.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "job/build.h"

namespace pleiad::job {

/// Adds the parameters of each layer to JobNet::parameters. The job and the net must outlive it.
class ParameterNames {
 public:
  ParameterNames(const JobImpl& job, JobNet& built);

  /// Returns the name in checkpoints of the k-th parameter of layer `i`. `usual` is its name if the job gives none. A
  /// name that several layers use is qualified by the layer's name.
  [[nodiscard]] std::string key(int i, int k, const std::string& usual) const;
  /// Returns, for each parameter of a layer, the net's parameter that it shares, or an empty text.
  [[nodiscard]] std::vector<std::string> shares(int i) const;
  /// Adds the parameters of layer `i`, which the net has.
  void add(int i);

 private:
  /// SINGA has a parameter for each gate (z, r, c); here the gates are rows of one parameter (r, z, n).
  void add_gates(int i, const std::vector<nn::ParamSpec>& specs);

  const JobImpl& job_;
  const google::protobuf::RepeatedPtrField<LayerProto>& layers_;
  JobNet& built_;
  std::set<std::string> unique_;
};

}  // namespace pleiad::job
