#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "core/problem.h"
#include "core/process.h"
#include "engine/run_collectively.h"
#include "file/owner_lock.h"
#include "file/series.h"
#include "pleiad/error.h"
#include "session/shared_timer.h"
#include "session/snapshot.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = ".snapshots.lock";
constexpr std::int64_t kLook = 10'000'000;  // 10 ms

}  // namespace

class Snapshots::Impl {
 public:
  Impl(Session& session, fs::path folder, const SnapshotOptions& options)
      : session_(session), engine_(session.core().engine()), folder_(std::move(folder)), options_(options) {
    if (options_.every_steps < 0 || !(options_.every_seconds >= 0) || options_.keep < 1) {
      throw InvalidArgument(
          fmt::format("[Snapshots] expected every_steps >= 0, every_seconds >= 0 and keep >= 1; received {}, {} and {}",
                      options_.every_steps, options_.every_seconds, options_.keep));
    }
    run_collectively(engine_, "Snapshots", [&] {
      // A folder that exists is flushed by the first save, so that snapshots can be loaded from a full disk.
      if (engine_.world().commits_snapshots() && !fs::is_directory(folder_)) make_folder(folder_);
    });
    if (options_.every_seconds > 0) timer_.emplace(engine_, options_.every_seconds);
  }
  ~Impl() { join(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<SnapshotNote> load_last(const LoadOptions& options) {
    finish_writing();
    // The committer searches for all ranks: the folder may change during the search.
    std::int64_t newest = -1;
    run_collectively(engine_, "load_last", [&] {
      if (!engine_.world().commits_snapshots()) return;
      const std::vector<std::int64_t> steps = steps_in(folder_, true);
      for (auto step = steps.rbegin(); step != steps.rend() && newest < 0; ++step) {
        const fs::path path = step_folder(folder_, *step);
        try {
          SavedSet(path).verify();
          newest = *step;
        } catch (const Error& error) {
          engine_.log().warn(fmt::format("snapshot {} is skipped: {}", path.string(), error.what()));
        }
      }
    });
    engine_.collectives().broadcast(&newest, sizeof newest, engine_.world().snapshot_committer());
    if (newest < 0) return std::nullopt;
    SnapshotNote note = load_tables(session_, step_folder(folder_, newest), options);
    last_step_ = note.step;
    seen_.reset();
    due_ = false;
    if (timer_) {
      timer_->restart();
      engine_.collectives().barrier();
    }
    return note;
  }

  bool step(std::int64_t step, const std::map<std::string, std::string>& text) {
    seen_ = {.step = step, .text = text};
    const bool by_timer = timer_ && timer_->poll();
    const bool by_steps = options_.every_steps != 0 && step - last_step_ >= options_.every_steps;
    if (!due_ && !by_timer && !by_steps) return false;
    if (timer_) timer_->restart();
    if (tell_failures()) {
      if (!due_ && engine_.world().commits_snapshots()) {
        engine_.log().info(
            fmt::format("the snapshot of step {} waits for the previous one, which is still being written", step));
      }
      due_ = true;  // the next step tries again
      return false;
    }
    save({.step = step, .text = text});
    return true;
  }

  void save(const SnapshotNote& note) {
    last_step_ = note.step;
    due_ = false;
    seen_.reset();
    join();
    const fs::path target = step_folder(folder_, note.step);
    if (!options_.background) {
      problem_ = {};
      run_collectively(engine_, "save", [&] {
        if (engine_.world().commits_snapshots()) own_folder();
      });
      save_tables(session_, target, note);
      if (engine_.world().commits_snapshots()) prune_steps(folder_, options_.keep, note.step);
      return;
    }
    session_.core().barrier_for_all("save");
    run_collectively(engine_, "save", [&] {
      if (!engine_.world().commits_snapshots()) return;
      own_folder();
      remove_unfinished(folder_);  // no rank writes now, so an unfinished snapshot will never be completed
      make_folder(target);
    });
    for (CopiedRegion& region : copy_.regions) spare_.give(std::move(region.bytes));
    copy_ = {};
    copy_ = copy_tables(session_.core(), note, spare_);
    problem_ = {};
    given_up_.store(false);
    progress_.store(Progress::writing);
    engine_.activity().background_work_started();
    try {
      thread_ = std::thread([this, step = note.step] {
        write(step);
        engine_.activity().background_work_ended();
      });
    } catch (...) {
      engine_.activity().background_work_ended();
      throw;
    }
    engine_.activity().internal_thread_started();
  }

  void wait() {
    finish_writing();
    if (!seen_) return;
    const SnapshotNote last = *seen_;
    save(last);
    finish_writing();
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  /// The state of this rank's background thread.
  enum class Progress : std::uint8_t {
    idle,       ///< there is nothing to write
    writing,    ///< this rank's part is being written
    committing  ///< the committer waits for the parts of the others
  };

  /// Makes this job the only owner of the folder: two jobs would remove each other's unfinished snapshots.
  void own_folder() {
    if (!lock_) lock_ = OwnerLock::take(folder_ / kLock);
    if (lock_) return;
    throw FileError(
        fmt::format("{}: another job saves its snapshots here; give this one a folder of its own, or wait "
                    "until the other has ended",
                    folder_.string()));
  }

  /// Collective. A rank that could not write its part tells the others, so that the committer does not wait for it.
  /// Returns true if the background thread of any rank is still working.
  bool tell_failures() {
    constexpr std::uint64_t kBusy = 1;
    constexpr std::uint64_t kFailed = 2;
    const Progress progress = progress_.load();
    const bool failed = progress == Progress::idle && !problem_.text.empty();
    bool busy = false;
    bool some_failed = false;
    engine_.collectives().barrier((progress != Progress::idle ? kBusy : 0) | (failed ? kFailed : 0),
                                  [&](int, std::uint64_t number) {
                                    busy = busy || (number & kBusy) != 0;
                                    some_failed = some_failed || (number & kFailed) != 0;
                                  });
    if (some_failed) given_up_.store(true);
    return busy;
  }

  /// Collective. Waits until everything is written. A failure of one rank is thrown on all ranks.
  void finish_writing() {
    // Writing a part takes as long as the disk takes, and only afterwards does a rank know whether it succeeded. Ctrl-C
    // ends the wait.
    engine_.waiter().wait_by(
        [](std::int64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns, kLook))); },
        {.call = Call::wait,
         .ready = [&] { return progress_.load() != Progress::writing; },
         .missing = [] { return std::vector<int>(); }});
    tell_failures();
    join();
    run_collectively(engine_, "save", [&] {
      if (problem_.text.empty()) return;
      const Problem problem = std::exchange(problem_, {});
      problem.raise();
    });
  }

  // Runs in the background. Ranks coordinate through files in the folder, because the engine's collectives belong to
  // the caller's thread.
  void write(std::int64_t step) {
    const fs::path target = step_folder(folder_, step);
    lower_thread_priority();
    try {
      write_snapshot_part(target, copy_, engine_.world().rank());
      if (engine_.world().commits_snapshots()) {
        progress_.store(Progress::committing);
        commit(target);
        prune(step);
      }
    } catch (...) {
      problem_ = Problem::current();
      engine_.log().error(fmt::format("the snapshot {} failed: {}", target.string(), problem_.text));
      abandon_snapshot(target, copy_, engine_.world().rank(), engine_.world().commits_snapshots());
      if (given_up_.load()) problem_ = {};  // the rank that failed reports the reason
    }
    progress_.store(Progress::idle);
  }

  void commit(const fs::path& target) {
    const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(engine_.options().timeout * 1e9);
    commit_snapshot(target, copy_, engine_.world().size(), [&](const std::vector<int>& missing) {
      return now_ns() < deadline && !given_up_.load() &&
             std::ranges::none_of(missing, [&](int r) { return engine_.members().liveness(r) == Liveness::dead; });
    });
  }

  // A failure to remove old snapshots does not affect the new one, which is complete.
  void prune(std::int64_t step) {
    try {
      prune_steps(folder_, options_.keep, step);
    } catch (...) {
      problem_ = Problem::current();
      engine_.log().error(fmt::format("old snapshots in {} were not removed: {}", folder_.string(), problem_.text));
    }
  }

  Session& session_;
  Engine& engine_;
  fs::path folder_;
  SnapshotOptions options_;
  std::int64_t last_step_ = 0;        ///< step of the last save
  std::optional<SnapshotNote> seen_;  ///< note of the last step, unless it was saved
  bool due_ = false;                  ///< a save became due while the previous one was still being written
  std::optional<SharedTimer> timer_;
  SnapshotCopy copy_;              ///< used by the thread until it is joined
  BufferPool spare_;               ///< buffers of the previous copy, which the next one reuses
  std::optional<OwnerLock> lock_;  ///< held by the committer from its first save on
  std::atomic<Progress> progress_{Progress::idle};
  std::atomic<bool> given_up_{false};                         ///< a rank could not write its part
  Problem problem_{.kind = ErrorKind::internal, .text = {}};  ///< written by the thread until it is joined
  std::thread thread_;
};

Snapshots::Snapshots(Session& session, const fs::path& folder, const SnapshotOptions& options)
    : impl_(std::make_unique<Impl>(session, folder, options)) {}
Snapshots::~Snapshots() = default;
std::optional<SnapshotNote> Snapshots::load_last(const LoadOptions& options) { return impl_->load_last(options); }
bool Snapshots::step(std::int64_t step, const std::map<std::string, std::string>& text) {
  return impl_->step(step, text);
}
void Snapshots::save(const SnapshotNote& note) { impl_->save(note); }
void Snapshots::wait() { impl_->wait(); }

}  // namespace pleiad
