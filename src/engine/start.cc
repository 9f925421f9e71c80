#include "engine/start.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/process.h"
#include "core/text.h"
#include "engine/inproc.h"
#include "engine/launcher.h"
#include "engine/process_engine.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::weak_ptr<Engine> launched_world;  // a process is one rank of one launched world at a time

std::shared_ptr<Engine> start_solo(SessionOptions options) {
  std::shared_ptr<Hooks> hooks;
  if (!options.fault.empty()) hooks = std::make_shared<FaultHooks>(Fault::parse(options.fault), false);
  auto* raw = hooks.get();
  auto engine = std::make_unique<InprocEngine>(std::move(options), 0, std::make_shared<InprocHost>(1), raw);
  return {engine.release(), [hooks](Engine* gone) { delete gone; }};
}

// MPI's own start waits for all processes without a word. This says so while it lasts.
class StartWatch {
 public:
  StartWatch(const SessionOptions& options, const Launch& launch) {
    thread_ = std::thread([this, after = options.warn_after,
                           text = fmt::format("pleiad: start waits for the other processes of the job ({} says that "
                                              "there are {}); has each of them called start?\n",
                                              launch.by, launch.size)] {
      std::unique_lock lock(mutex_);
      while (!over_.wait_for(lock, std::chrono::duration<double>(std::max(after, 0.1)), [this] { return stop_; })) {
        std::fputs(text.c_str(), stderr);
      }
    });
  }
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Engine> start_engine(SessionOptions options) {
  static const std::vector<std::string> kEngines = {"auto", "solo", "mpi"};
  if (std::ranges::find(kEngines, options.engine) == kEngines.end()) {
    throw InvalidArgument(unknown_name("engine", options.engine, kEngines));
  }
  const Launch launch = detect_launch();
  if (options.engine == "solo" || (options.engine == "auto" && !launch.launched)) return start_solo(std::move(options));
  if (fork_generation() > 0 && spawned_by_a_rank(launch)) {
    throw StateError("[start] this process was forked from a rank: it is not a rank itself; use engine = solo here");
  }
  // Handles of tables may keep the engine of a session that was shut down.
  if (const auto world = launched_world.lock(); world != nullptr && !world->has_left()) {
    throw StateError("[start] this process already takes part in a world; shut that session down first");
  }
  if (spawned_by_a_rank(launch)) {
    throw StateError(
        "[start] this process was spawned by a rank of the job: it inherits the launcher's variables but is not a "
        "rank; call start only in the processes that the launcher started, or use engine = solo here");
  }
  const StartWatch watch(options, launch);
  auto wire = load_wire();
  if (launch.size > 0 && wire->size() != launch.size) {
    const int size = wire->size();
    wire->finish(true);
    throw StateError(
        fmt::format("[start] {} says that the job has {} processes, MPI says {}: it was started by another MPI than "
                    "the one that Pleiad was built with (Open MPI); use that one's mpirun",
                    launch.by, launch.size, size));
  }
  mark_as_rank(launch);
  std::shared_ptr<Engine> engine = ProcessEngine::start(std::move(options), std::move(wire));
  launched_world = engine;
  return engine;
}

}  // namespace pleiad
