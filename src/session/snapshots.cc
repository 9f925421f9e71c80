#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "core/problem.h"
#include "core/process.h"
#include "engine/together.h"
#include "file/series.h"
#include "pleiad/error.h"
#include "session/snapshot.h"
#include "session/watch.h"

namespace pleiad {

namespace fs = std::filesystem;

class Snapshots::Inside {
 public:
  Inside(Session& session, fs::path folder, const SnapshotOptions& options)
      : session_(session), engine_(session.core().engine()), folder_(std::move(folder)), options_(options) {
    if (options_.every_steps < 0 || !(options_.every_seconds >= 0) || options_.keep < 1) {
      throw InvalidArgument(
          fmt::format("[Snapshots] expected every_steps >= 0, every_seconds >= 0 and keep >= 1; received {}, {} and {}",
                      options_.every_steps, options_.every_seconds, options_.keep));
    }
    together(engine_, "Snapshots", [&] {
      if (engine_.rank() == 0) make_folder(folder_);
    });
    if (options_.every_seconds > 0) watch_.emplace(engine_, options_.every_seconds);
  }
  ~Inside() { join(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  std::optional<SnapshotNote> load_last(const LoadOptions& options) {
    finish_writing();
    // The first rank looks for all of them: a folder may change while they look.
    std::int64_t newest = -1;
    together(engine_, "load_last", [&] {
      if (engine_.rank() != 0) return;
      const std::vector<std::int64_t> steps = steps_in(folder_, true);
      for (auto step = steps.rbegin(); step != steps.rend() && newest < 0; ++step) {
        const fs::path path = step_folder(folder_, *step);
        try {
          SavedSet(path).verify();
          newest = *step;
        } catch (const Error& error) {
          engine_.log().warn(fmt::format("snapshot {} is passed over: {}", path.string(), error.what()));
        }
      }
    });
    engine_.broadcast(&newest, sizeof newest, 0);
    if (newest < 0) return std::nullopt;
    SnapshotNote note = load_tables(session_, step_folder(folder_, newest), options);
    last_step_ = note.step;
    seen_.reset();
    due_ = false;
    if (watch_) {
      watch_->restart();
      engine_.barrier();
    }
    return note;
  }

  bool step(std::int64_t step, const std::map<std::string, std::string>& text) {
    seen_ = {.step = step, .text = text};
    const bool by_watch = watch_ && watch_->strike();
    const bool by_steps = options_.every_steps != 0 && step - last_step_ >= options_.every_steps;
    if (!due_ && !by_watch && !by_steps) return false;
    if (watch_) watch_->restart();
    bool busy = false;
    engine_.barrier(writing_.load() ? 1 : 0, [&](int, std::uint64_t number) { busy = busy || number != 0; });
    if (busy) {
      if (!due_ && engine_.rank() == 0) {
        engine_.log().info(
            fmt::format("the snapshot of step {} waits for the one before, which is still being written", step));
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
      save_tables(session_, target, note);
      if (engine_.rank() == 0) prune_steps(folder_, options_.keep, note.step);
      return;
    }
    session_.core().barrier_for_all("save");
    together(engine_, "save", [&] {
      if (engine_.rank() != 0) return;
      remove_unfinished(folder_);  // nobody writes now: what has not come to its end never will
      make_folder(target);
    });
    for (CopiedPiece& piece : cut_.pieces) spare_.give(std::move(piece.bytes));
    cut_ = {};
    cut_ = cut_tables(session_.core(), note, spare_);
    problem_ = {};
    writing_.store(true);
    thread_ = std::thread([this, step = note.step] { write(step); });
    engine_.own_thread_started();
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

  void finish_writing() {
    join();
    together(engine_, "save", [&] {
      if (problem_.text.empty()) return;
      const Problem problem = std::exchange(problem_, {});
      problem.raise();
    });
  }

  // In the background. The folder is the meeting place: the engine's collectives belong to the caller.
  void write(std::int64_t step) {
    const fs::path target = step_folder(folder_, step);
    yield_to_others();
    try {
      write_cut(target, cut_, engine_.rank());
      if (engine_.rank() == 0) {
        const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(engine_.options().timeout * 1e9);
        commit_cut(target, cut_, engine_.size(), [&](const std::vector<int>& missing) {
          return now_ns() < deadline &&
                 std::ranges::none_of(missing, [&](int r) { return engine_.life(r) == Life::dead; });
        });
      }
    } catch (...) {
      problem_ = Problem::current();
      engine_.log().error(fmt::format("the snapshot {} failed: {}", target.string(), problem_.text));
      abandon_cut(target, cut_, engine_.rank(), problem_.text);
    }
    if (engine_.rank() == 0 && problem_.text.empty()) prune(step);
    writing_.store(false);
  }

  // The snapshot is there, whatever becomes of the old ones.
  void prune(std::int64_t step) {
    try {
      prune_steps(folder_, options_.keep, step);
    } catch (...) {
      problem_ = Problem::current();
      engine_.log().error(fmt::format("old snapshots in {} stay: {}", folder_.string(), problem_.text));
    }
  }

  Session& session_;
  Engine& engine_;
  fs::path folder_;
  SnapshotOptions options_;
  std::int64_t last_step_ = 0;        ///< of the last save
  std::optional<SnapshotNote> seen_;  ///< the last step, unless it was saved
  bool due_ = false;                  ///< a save is due that found the one before still being written
  std::optional<Watch> watch_;
  SnapshotCut cut_;   ///< the thread's, until it is joined
  SpareBytes spare_;  ///< of the copy before: it stays for the next
  std::atomic<bool> writing_{false};
  Problem problem_{.kind = ErrorKind::internal, .text = {}};  ///< the thread's, until it is joined
  std::thread thread_;
};

Snapshots::Snapshots(Session& session, const fs::path& folder, const SnapshotOptions& options)
    : inside_(std::make_unique<Inside>(session, folder, options)) {}
Snapshots::~Snapshots() = default;
std::optional<SnapshotNote> Snapshots::load_last(const LoadOptions& options) { return inside_->load_last(options); }
bool Snapshots::step(std::int64_t step, const std::map<std::string, std::string>& text) {
  return inside_->step(step, text);
}
void Snapshots::save(const SnapshotNote& note) { inside_->save(note); }
void Snapshots::wait() { inside_->wait(); }

}  // namespace pleiad
