// How threads of a parallel loop wait for work.
#include "core/threads.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace pleiad {
namespace {

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(Threads, WithoutWorkTheySleepAfterMicroseconds) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) {
    GTEST_SKIP() << "the environment says how threads wait";
  }
  set_compute_threads(2);
  std::atomic<int> parts{0};
  const auto work = [&] { parallel_for(2, 1, [&](std::int64_t, std::int64_t) { ++parts; }); };
  work();
  const double before = processor_seconds();
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes; ++i) {
    work();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // By default, libgomp lets the second thread spin for at least 3 ms each time.
  EXPECT_LT(processor_seconds() - before, kTimes * 1e-3);
  EXPECT_EQ(parts, 2 * (kTimes + 1));
}

}  // namespace
}  // namespace pleiad
