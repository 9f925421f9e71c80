#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "core/problem.h"
#include "core/process.h"
#include "pleiad/error.h"
#include "session/snapshot.h"
#include "session/together.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";

std::string folder_of(std::int64_t step) { return fmt::format("{}{:012}", kPrefix, step); }

/// The snapshots of a folder, the newest first; whole or not.
std::vector<fs::path> snapshots_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (entry.path().filename().string().starts_with(kPrefix)) found.push_back(entry.path());
  }
  std::ranges::sort(found, std::greater{});
  return found;
}

}  // namespace

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
      std::error_code problem;
      if (engine_.rank() == 0) fs::create_directories(folder_, problem);
      if (problem) throw FileError(fmt::format("{}: cannot be made: {}", folder_.string(), problem.message()));
    });
  }
  ~Inside() { join(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  std::optional<SnapshotNote> load_last(const LoadOptions& options) {
    wait();
    // The first rank looks for all of them: a folder may change while they look.
    std::string name;
    together(engine_, "load_last", [&] {
      if (engine_.rank() != 0) return;
      for (const fs::path& path : snapshots_in(folder_)) {
        if (!fs::exists(path / Manifest::kFile)) continue;  // a save that never came to its end
        try {
          SavedSet(path).verify();
          name = path.filename().string();
          return;
        } catch (const Error& error) {
          engine_.log().warn(fmt::format("snapshot {} is passed over: {}", path.string(), error.what()));
        }
      }
    });
    std::uint64_t length = name.size();
    engine_.broadcast(&length, sizeof length, 0);
    if (length == 0) return std::nullopt;
    name.resize(length);
    engine_.broadcast(name.data(), length, 0);
    SnapshotNote note = load_tables(session_, folder_ / name, options);
    last_step_ = note.step;
    last_ns_ = now_ns();
    return note;
  }

  bool step(std::int64_t step, const std::map<std::string, std::string>& text) {
    bool due = options_.every_steps > 0 && step - last_step_ >= options_.every_steps;
    if (options_.every_seconds > 0) {
      char late = static_cast<double>(now_ns() - last_ns_) * 1e-9 >= options_.every_seconds ? 1 : 0;
      engine_.broadcast(&late, 1, 0);  // one rank's watch counts for all
      due = due || late != 0;
    }
    if (!due) return false;
    bool busy = false;
    engine_.barrier(writing_.load() ? 1 : 0, [&](int, std::uint64_t number) { busy = busy || number != 0; });
    last_step_ = step;
    last_ns_ = now_ns();
    if (busy) {
      if (engine_.rank() == 0) {
        engine_.log().warn(
            fmt::format("the snapshot of step {} is left out: the one before is still being written", step));
      }
      return false;
    }
    save({.step = step, .text = text});
    return true;
  }

  void save(const SnapshotNote& note) {
    last_step_ = note.step;
    join();
    const fs::path target = folder_ / folder_of(note.step);
    if (!options_.background) {
      problem_ = {};
      save_tables(session_, target, note);
      if (engine_.rank() == 0) prune(target);
      return;
    }
    session_.barrier();
    together(engine_, "save", [&] {
      std::error_code problem;
      if (engine_.rank() == 0) fs::create_directories(target, problem);
      if (problem) throw FileError(fmt::format("{}: cannot be made: {}", target.string(), problem.message()));
    });
    auto cut = cut_tables(session_.core(), note);
    problem_ = {};
    writing_.store(true);
    thread_ = std::thread([this, target, cut = std::move(cut)] { write(target, cut); });
    engine_.own_thread_started();
  }

  void wait() {
    join();
    together(engine_, "save", [&] {
      if (problem_.text.empty()) return;
      const Problem problem = std::exchange(problem_, {});
      problem.raise();
    });
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  // In the background. The folder is the meeting place: the engine's collectives belong to the caller.
  void write(const fs::path& target, const SnapshotCut& cut) {
    try {
      write_cut(target, cut, engine_.rank());
      if (engine_.rank() == 0) {
        const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(engine_.options().timeout * 1e9);
        commit_cut(target, cut, engine_.size(), [&](const std::vector<int>& missing) {
          return now_ns() < deadline &&
                 std::ranges::none_of(missing, [&](int r) { return engine_.life(r) == Life::dead; });
        });
        prune(target);
      }
    } catch (...) {
      problem_ = Problem::current();
      engine_.log().error(fmt::format("the snapshot {} failed: {}", target.string(), problem_.text));
      remove_cut(target, cut, engine_.rank());
    }
    writing_.store(false);
  }

  /// Leaves the newest `keep` and removes older ones, and what never came to its end.
  void prune(const fs::path& newest) const {
    int kept = 0;
    for (const fs::path& path : snapshots_in(folder_)) {
      const bool whole = fs::exists(path / Manifest::kFile);
      if (path == newest || (whole && kept < options_.keep)) {
        ++kept;
        continue;
      }
      std::error_code ignored;
      // Without its manifest first, it is no snapshot from then on.
      fs::remove(path / Manifest::kFile, ignored);
      fs::remove_all(path, ignored);
    }
  }

  Session& session_;
  Engine& engine_;
  fs::path folder_;
  SnapshotOptions options_;
  std::int64_t last_step_ = 0;
  std::int64_t last_ns_ = now_ns();
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
