// Interleaved measurements of ours against a peer, one JSON line each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/process.h"
#include "pleiad/session.h"

namespace pleiad::bench {

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Half the distance between the quartiles, as a share of the median.
inline double spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[n - 1 - n / 4] - values[n / 4]) / 2 / std::max(median(values), 1e-12);
}

struct Plan {
  std::string name;
  std::int64_t size = 0;
  int rounds = 15;       ///< ours and the peer take turns this often
  double block_ms = 20;  ///< a turn repeats its body for about this long
};

/// Times `ours` and `peer` in all ranks at once, by turns. A turn's time is that of its slowest rank. Rank 0 prints
/// {"name","procs","size","median_us","spread","peer_us","ratio"}; ratio is the median of the turns' peer / ours.
inline void compare(Session& session, const Plan& plan, const std::function<void()>& ours,
                    const std::function<void()>& peer) {
  const auto turn = [&](const std::function<void()>& body, std::int64_t repeats) {
    session.barrier();
    const std::int64_t start = now_ns();
    for (std::int64_t i = 0; i < repeats; ++i) body();
    std::vector<double> us = {static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(repeats)};
    session.all_reduce(us, ReduceOp::max);
    return us[0];
  };
  const auto repeats_for = [&](const std::function<void()>& body) {
    (void)turn(body, 1);
    const double once = std::min(turn(body, 3), turn(body, 3));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(plan.block_ms * 1e3 / std::max(once, 0.05)), 1, 200000);
  };
  const std::int64_t our_repeats = repeats_for(ours);
  const std::int64_t peer_repeats = repeats_for(peer);
  std::vector<double> our_us;
  std::vector<double> peer_us;
  std::vector<double> ratios;
  for (int round = 0; round < plan.rounds; ++round) {
    // Who begins changes, so that neither profits from what the other left in the caches.
    if (round % 2 == 0) our_us.push_back(turn(ours, our_repeats));
    peer_us.push_back(turn(peer, peer_repeats));
    if (round % 2 == 1) our_us.push_back(turn(ours, our_repeats));
    ratios.push_back(peer_us.back() / our_us.back());
  }
  if (session.rank() != 0) return;
  std::printf(R"({"name":"%s","procs":%d,"size":%lld,"median_us":%.3f,"spread":%.3f,"peer_us":%.3f,"ratio":%.3f})"
              "\n",
              plan.name.c_str(), session.size(), static_cast<long long>(plan.size), median(our_us), spread(our_us),
              median(peer_us), median(ratios));
  std::fflush(stdout);
}

}  // namespace pleiad::bench
