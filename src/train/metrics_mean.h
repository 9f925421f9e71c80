// The averages of metrics that a report gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/communicator.h"

namespace pleiad {

/// Weighted averages of metrics over samples.
class MetricsMean {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;

  /// `metrics` are averages over `samples` samples.
  void add(const Metrics& metrics, std::int64_t samples) {
    if (names_.empty()) {
      for (const auto& [name, value] : metrics) names_.push_back(name);
      sums_.assign(names_.size() + 1, 0);
    }
    const auto weight = static_cast<double>(samples);
    for (std::size_t i = 0; i < metrics.size(); ++i) sums_[i] += metrics[i].second * weight;
    sums_.back() += weight;
  }
  /// Counts a step of a rank that only serves and computes nothing.
  void add_nothing(const Metrics& like) {
    if (!names_.empty()) return;
    add(like, 0);
    sums_.assign(sums_.size(), 0);
  }
  /// Averages over all ranks and resets. Pass same = true to skip communication when every rank already holds the same
  /// values.
  Metrics take(Communicator& comm, bool same) {
    Metrics means;
    if (names_.empty()) return means;
    if (!same) comm.sum(sums_);
    for (std::size_t i = 0; i < names_.size(); ++i) means.emplace_back(names_[i], sums_[i] / sums_.back());
    names_.clear();
    return means;
  }

 private:
  std::vector<std::string> names_;
  std::vector<double> sums_;  // the last element is the sum of the weights
};

}  // namespace pleiad
