#include "engine/start.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/process.h"
#include "core/text.h"
#include "engine/inproc.h"
#include "engine/launcher.h"
#include "engine/local_transport.h"
#include "engine/process_engine.h"
#include "engine/rank_claim.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// The values of the option `engine`.
enum class EngineChoice : std::uint8_t { automatic, solo, mpi };

EngineChoice parse_engine(const std::string& text) {
  static const std::vector<std::string> kNames = {"auto", "solo", "mpi"};
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end()) throw InvalidArgument(unknown_name("engine", text, kNames));
  return static_cast<EngineChoice>(found - kNames.begin());
}

std::weak_ptr<Engine> launched_world;  // a process is one rank of one launched world at a time

std::shared_ptr<Engine> start_solo(SessionOptions options) {
  std::shared_ptr<Hooks> hooks;
  if (!options.fault.empty()) hooks = std::make_shared<FaultHooks>(Fault::parse(options.fault), false);
  auto* raw = hooks.get();
  auto engine = std::make_unique<InprocEngine>(std::move(options), 0, std::make_shared<InprocHost>(1), raw);
  return {engine.release(), [hooks](Engine* gone) { delete gone; }};
}

// Returns the size of MPI's world if the program has initialised MPI itself, otherwise 0. Uses an MPI library that is
// already loaded and loads none.
int mpi_size_in_this_process() {
  // Python loads the libraries of its modules into local scopes, so Open MPI's symbols may not be global.
  void* library = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
  void* const from = library != nullptr ? library : RTLD_DEFAULT;
  const auto initialized = reinterpret_cast<int (*)(int*)>(dlsym(from, "MPI_Initialized"));
  const auto comm_size = reinterpret_cast<int (*)(void*, int*)>(dlsym(from, "MPI_Comm_size"));
  void* world = dlsym(from, "ompi_mpi_comm_world");  // Open MPI's MPI_COMM_WORLD
  if (library != nullptr) dlclose(library);
  int there = 0;
  int size = 0;
  if (initialized == nullptr || comm_size == nullptr || world == nullptr) return 0;
  if (initialized(&there) != 0 || there == 0 || comm_size(world, &size) != 0) return 0;
  return size;
}

// Limits how long the start waits for the other processes of a job, and logs warnings meanwhile.
class StartupMonitor {
 public:
  StartupMonitor(const SessionOptions& options, const Launch& launch, std::function<bool()> interrupt)
      : timeout_(options.timeout),
        warn_every_(std::max(options.warn_after, 0.1)),
        whom_(fmt::format(
            "the other processes of the job ({} reports {} processes); check that each of them has called start",
            launch.by, launch.size)),
        launch_(launch),
        interrupt_(std::move(interrupt)) {}

  void operator()() {
    const double waited = static_cast<double>(now_ns() - begin_) * 1e-9;
    if (interrupt_ && interrupt_()) throw Interrupted("[start] was interrupted while it waited for " + whom_);
    if (waited >= look_at_) look_for_dead_ranks(waited);
    if (waited > timeout_) throw TimeoutError(fmt::format("[start] waited {:g} s for {}", timeout_, whom_));
    if (waited < warn_every_ * (warned_ + 1)) return;
    ++warned_;
    std::fprintf(stderr, "pleiad: start is waiting for %s\n", whom_.c_str());
  }

 private:
  // MPI's own start does not report that a process has ended, but /proc shows the processes of this host. A process
  // that executes another program has no environment for a moment, so a rank is dead only if several looks in a row
  // miss it. A rank that was never seen may not have been started yet, however long that takes, unless its launcher is
  // idle.
  void look_for_dead_ranks(double waited) {
    look_at_ = waited + kLookEvery;
    const std::set<int> now = ranks_on_this_host(launch_);
    const bool all_known = std::ranges::includes(seen_, now);
    seen_.insert(now.begin(), now.end());
    int gone = -1;
    for (const int rank : seen_) {
      int& missed = missed_[rank];
      missed = now.contains(rank) ? 0 : missed + 1;
      if (missed >= kMissedLooks && gone < 0) gone = rank;
    }
    const bool some_never_came = launch_.all_here && static_cast<int>(seen_.size()) < launch_.size;
    const bool idle = some_never_came && all_known && !launcher_may_start_processes(launch_);
    idle_looks_ = idle ? idle_looks_ + 1 : 0;
    // A rank that has ended may have done so because another one, which died before, never came.
    if (gone >= 0 && !idle) throw_death(gone);
    if (gone < 0 && idle_looks_ < kIdleLooks) return;
    int rank = 0;
    while (seen_.contains(rank)) ++rank;
    throw_death(rank);
  }

  [[noreturn]] static void throw_death(int rank) {
    throw TransportError(
        fmt::format("[start] rank {} ended before all ranks of the job were connected (on {})", rank, host_name()));
  }

  static constexpr double kLookEvery = 0.5;  ///< seconds
  static constexpr int kMissedLooks = 4;
  static constexpr int kIdleLooks = 8;
  double timeout_;
  double warn_every_;
  std::string whom_;
  Launch launch_;
  std::set<int> seen_;
  std::map<int, int> missed_;  ///< for each rank that was seen, how many looks in a row did not find it
  int idle_looks_ = 0;
  double look_at_ = 0;
  std::function<bool()> interrupt_;
  std::int64_t begin_ = now_ns();
  int warned_ = 0;
};

std::unique_ptr<Transport> connect_ranks(EngineChoice choice, const SessionOptions& options, const Launch& launch,
                                         const std::function<bool()>& interrupt) {
  const StartupMonitor on_wait(options, launch, interrupt);
  if (launch.rendezvous == Rendezvous::local && choice != EngineChoice::mpi) {
    const int size = mpi_size_in_this_process();
    if (size > 0 && size != launch.size) {
      throw StateError(fmt::format(
          "[start] {} has started {} processes, but MPI is initialised in this process and reports {}. Start "
          "a program that calls MPI itself with mpirun or `pleiad launch --mpi`",
          launch.by, launch.size, size));
    }
    return connect_local_ranks(launch, on_wait);
  }
  auto transport = load_mpi_transport(on_wait);
  if (launch.size > 0 && transport->size() != launch.size) {
    const int size = transport->size();
    transport->finish(true, {});
    throw StateError(
        fmt::format("[start] {} reports {} processes, MPI reports {}: the job was not started by the MPI that "
                    "Pleiad was built with (Open MPI); use the mpirun of that MPI",
                    launch.by, launch.size, size));
  }
  return transport;
}

}  // namespace

std::shared_ptr<Engine> start_engine(SessionOptions options, std::function<bool()> interrupt) {
  const EngineChoice choice = parse_engine(options.engine);
  const Launch launch = detect_launch();
  if (choice == EngineChoice::solo || (choice == EngineChoice::automatic && !launch.launched())) {
    return start_solo(std::move(options));
  }
  if (fork_generation() > 0 && spawned_by_a_rank(launch)) {
    throw StateError(
        "[start] this process was forked from a rank: it is not a rank itself. Use engine = solo in this process");
  }
  // Table handles may keep the engine of a session that has been shut down.
  if (const auto world = launched_world.lock(); world != nullptr && !world->members().has_left()) {
    throw StateError("[start] this process is already a rank of a world; shut that session down first");
  }
  // Processes of one host that come for the same rank while the ranks meet are an error of all of them there. MPI has
  // no such check, so there the rank is claimed before.
  const bool claimed = launch.rendezvous == Rendezvous::mpi ? !claim_rank(launch) : rank_is_claimed(launch);
  if (spawned_by_a_rank(launch) || claimed) {
    throw StateError(
        "[start] this process was spawned by a rank of the job: it inherits the launcher's variables but is not a "
        "rank; call start only in the processes that the launcher started, or use engine = solo here "
        "(PLEIAD_ENGINE=solo)");
  }
  if (launch.rendezvous == Rendezvous::impossible) throw StateError("[start] " + launch.problem);
  auto transport = connect_ranks(choice, options, launch, interrupt);
  mark_as_rank(launch);
  (void)claim_rank(launch);
  std::shared_ptr<Engine> engine = ProcessEngine::start(std::move(options), std::move(transport));
  engine->waiter().set_interrupt(std::move(interrupt));
  launched_world = engine;
  return engine;
}

}  // namespace pleiad
