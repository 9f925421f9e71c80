#include "job/parameter_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/text.h"

namespace pleiad::job {

ParameterNames::ParameterNames(const JobImpl& job, JobNet& built)
    : job_(job), layers_(job.proto.neuralnet().layer()), built_(built) {
  std::map<std::string, int> count;
  for (const LayerProto& layer : layers_) {
    for (const ParamProto& param : layer.param()) ++count[param.name()];
  }
  for (const auto& [name, n] : count) {
    if (n == 1 && !name.empty()) unique_.insert(name);
  }
}

std::string ParameterNames::key(int i, int k, const std::string& usual) const {
  const std::string& name = layers_[i].param(k).name();
  if (unique_.contains(name)) return name;
  return fmt::format("{}/{}", layers_[i].name(), name.empty() ? usual : name);
}

std::vector<std::string> ParameterNames::shares(int i) const {
  std::vector<std::string> all;
  for (int k = 0; k < layers_[i].param_size(); ++k) {
    const ParamProto& param = layers_[i].param(k);
    std::string& share = all.emplace_back();
    if (!param.has_share_from()) continue;
    const auto owner = std::ranges::find(built_.parameters, param.share_from(), &NamedParameter::name);
    if (owner == built_.parameters.end()) {
      std::vector<std::string> known;
      for (const NamedParameter& each : built_.parameters) known.push_back(each.name);
      throw_invalid(job_, i, fmt::format("param[{}].share_from", k),
                    unknown_name("parameter of an earlier layer", param.share_from(), known));
    }
    share = owner->parameter;
  }
  return all;
}

void ParameterNames::add(int i) {
  const LayerProto& layer = layers_[i];
  const nn::Shapes in = built_.net.graph().input_shapes(layer.name());
  const std::vector<nn::ParamSpec> specs = built_.net.layer(layer.name()).parameters(in);
  const bool convolution = built_.net.layer(layer.name()).kind() == "convolution";
  if (layer.type() == kGRU) return add_gates(i, specs);
  for (std::size_t s = 0; s < specs.size(); ++s) {
    if (!specs[s].wanted.share.empty()) continue;
    const int k = static_cast<int>(s);
    const bool told = k < layer.param_size();
    NamedParameter named{.name = told ? key(i, k, specs[s].name) : fmt::format("{}/{}", layer.name(), specs[s].name),
                         .parameter = fmt::format("{}/{}", layer.name(), specs[s].name),
                         .layer = i,
                         .index = k,
                         .needs_file = told && !layer.param(k).has_init() && !layer.param(k).has_share_from()};
    named.count = specs[s].shape.count();
    named.filters = convolution && s == 0;
    if (layer.type() == kInnerProduct && s == 0 && in[0].rank() == 4) {
      named.image = in[0].sample();
      named.transposed = layer.innerproduct_conf().transpose();
    }
    built_.parameters.push_back(std::move(named));
  }
}

void ParameterNames::add_gates(int i, const std::vector<nn::ParamSpec>& specs) {
  constexpr int kGate[] = {1, 0, 2};
  for (std::size_t s = 0; s < specs.size(); ++s) {
    const std::string parameter = fmt::format("{}/{}", layers_[i].name(), specs[s].name);
    for (int gate = 0; gate < 3; ++gate) {
      const int k = static_cast<int>(s) * 3 + gate;
      const bool told = k < layers_[i].param_size();
      const std::string usual = fmt::format("{}_{}", specs[s].name, "zrc"[gate]);
      const std::int64_t count = specs[s].shape.count() / 3;
      built_.parameters.push_back({.name = told ? key(i, k, usual) : fmt::format("{}/{}", layers_[i].name(), usual),
                                   .parameter = parameter,
                                   .layer = i,
                                   .index = k,
                                   .needs_file = told && !layers_[i].param(k).has_init(),
                                   .begin = kGate[gate] * count,
                                   .count = count});
    }
  }
}

}  // namespace pleiad::job
