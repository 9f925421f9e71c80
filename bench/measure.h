// Interleaved measurements of Pleiad and a peer, one JSON line each.
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

/// Half the interquartile range, relative to the median.
inline double spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[n - 1 - n / 4] - values[n / 4]) / 2 / std::max(median(values), 1e-12);
}

struct Plan {
  std::string name;
  std::int64_t size = 0;
  int rounds = 15;       ///< number of alternations of ours and the peer
  double block_ms = 20;  ///< approximate duration of a turn
};

struct Measured {
  double median_us = 0;
  double spread = 0;
  double peer_us = 0;
  double ratio = 0;  ///< median over the turns of peer / ours
};

using Body = std::function<void()>;

/// Measures `ours` and `peer` alternately. `turn(body, n)` runs the body n times and returns its mean time in
/// microseconds.
inline Measured interleave(const Plan& plan, const Body& ours, const Body& peer,
                           const std::function<double(const Body&, std::int64_t)>& turn) {
  const auto repeats_for = [&](const Body& body) {
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
    // The order alternates, so that neither side benefits from data that the other left in the caches.
    if (round % 2 == 0) our_us.push_back(turn(ours, our_repeats));
    peer_us.push_back(turn(peer, peer_repeats));
    if (round % 2 == 1) our_us.push_back(turn(ours, our_repeats));
    ratios.push_back(peer_us.back() / our_us.back());
  }
  return {.median_us = median(our_us), .spread = spread(our_us), .peer_us = median(peer_us), .ratio = median(ratios)};
}

/// Prints one line of JSON. `many` is "procs" or "threads".
inline void print(const Plan& plan, const char* many, int count, const Measured& measured) {
  std::printf(R"({"name":"%s","%s":%d,"size":%lld,"median_us":%.3f,"spread":%.3f,"peer_us":%.3f,"ratio":%.3f})"
              "\n",
              plan.name.c_str(), many, count, static_cast<long long>(plan.size), measured.median_us, measured.spread,
              measured.peer_us, measured.ratio);
  std::fflush(stdout);
}

inline double microseconds_each(const Body& body, std::int64_t repeats) {
  const std::int64_t start = now_ns();
  for (std::int64_t i = 0; i < repeats; ++i) body();
  return static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(repeats);
}

/// Measures on all ranks at once. The time of a turn is that of its slowest rank. Rank 0 prints the line.
inline void compare(Session& session, const Plan& plan, const Body& ours, const Body& peer) {
  const Measured measured = interleave(plan, ours, peer, [&](const Body& body, std::int64_t repeats) {
    session.barrier();
    std::vector<double> us = {microseconds_each(body, repeats)};
    session.all_reduce(us, ReduceOp::max);
    return us[0];
  });
  if (session.rank() == 0) print(plan, "procs", session.size(), measured);
}

/// Measures in this process only. `threads` appears in the line.
inline void compare_alone(int threads, const Plan& plan, const Body& ours, const Body& peer) {
  print(plan, "threads", threads, interleave(plan, ours, peer, microseconds_each));
}

}  // namespace pleiad::bench
