#include "core/threads.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

namespace pleiad {

void shorten_spinning() {
  static const bool done = [] {
    if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return true;
    const auto ready = std::make_shared<std::promise<void>>();
    std::thread([ready] {
      // The program's signals must not be delivered to this thread or its team.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      std::atomic<int> started{0};
#pragma omp parallel num_threads(omp_get_num_procs() + 1)
      ++started;  // the compiler would remove a region without work
      ready->set_value();
      for (;;) pause();
    }).detach();
    ready->get_future().wait();
    return true;
  }();
  (void)done;
}

int compute_threads() { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

void set_compute_threads(int threads) { omp_set_num_threads(std::max(threads, 1)); }

void parallel_for(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (count <= 0) return;
  const std::int64_t grains = (count + grain - 1) / grain;
  const auto parts = static_cast<int>(std::min<std::int64_t>(compute_threads(), grains));
  if (parts == 1) {
    body(0, count);
    return;
  }
  shorten_spinning();
#pragma omp parallel num_threads(parts)
  {
    // The runtime may start fewer threads than requested.
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      const std::int64_t begin = grains * part / parts * grain;
      const std::int64_t end = std::min(grains * (part + 1) / parts * grain, count);
      if (begin < end) body(begin, end);
    }
  }
}

}  // namespace pleiad
