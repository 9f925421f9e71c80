#include "job/metric_names.h"

#include <algorithm>
#include <cmath>

namespace pleiad::job {
namespace {

const char* name_of(nn::Phase phase) {
  if (phase == nn::Phase::train) return "train";
  return phase == nn::Phase::test ? "test" : "validate";
}

}  // namespace

JobReport with_singa_names(const Report& from, const JobNet& built) {
  JobReport to{
      .step = from.step, .phase = name_of(from.phase), .metrics = {}, .samples_per_second = from.samples_per_second};
  const auto bare = [](const std::string& name) { return name.substr(name.rfind('/') + 1); };
  for (const auto& [name, value] : from.metrics) {
    std::string word = bare(name);
    const auto same = std::ranges::count(from.metrics, word, [&](const auto& m) { return bare(m.first); });
    if (word == "accuracy") word = "acc";
    to.metrics.emplace_back(same > 1 ? name : word, value);
  }
  const auto find = [&](const char* name) {
    return std::ranges::find(to.metrics, name, [](const auto& metric) { return metric.first; });
  };
  if (built.squared && find("loss") != to.metrics.end() && find("se") != to.metrics.end()) {
    find("loss")->second = find("se")->second;
  }
  if (built.sequence && find("loss") != to.metrics.end())
    to.metrics.emplace_back("ppl", std::exp(find("loss")->second));
  return to;
}

}  // namespace pleiad::job
