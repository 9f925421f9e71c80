// Snapshots: all tables of a session on disk, with the state of their rules. A snapshot saved by any number of
// processes loads with any other number. The files are safetensors; docs/snapshots.md describes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "pleiad/api.h"
#include "pleiad/session.h"

namespace pleiad {

/// The contents of a snapshot other than its tables.
struct SnapshotNote {
  std::int64_t step = 0;                    ///< the caller's step
  std::map<std::string, std::string> text;  ///< any text that the caller wants to read back
};

/// Options of load_tables.
struct LoadOptions {
  bool values_only = false;  ///< do not load the state of the rules: for tables that now have another rule
};

/// Collective: all ranks call this at the same point of their work; it begins with a barrier. Writes every table of the
/// session into `folder`, which all ranks must see and which is created if it does not exist. A complete new snapshot
/// replaces a previous one in one atomic step. If any rank fails, all ranks throw the error, and the previous snapshot
/// stays intact.
PLEIAD_API void save_tables(Session& session, const std::filesystem::path& folder, const SnapshotNote& note = {});

/// Collective. Fills the session's tables, which the caller has created, from those of the same names in `folder`;
/// shape, element type and rule must be the same. Per-worker state of a rule is reset if the number of workers
/// differs. If any rank fails, all ranks throw the error. An error found before the first value is written leaves the
/// tables unchanged.
PLEIAD_API SnapshotNote load_tables(Session& session, const std::filesystem::path& folder,
                                    const LoadOptions& options = {});

/// When and how Snapshots saves.
struct SnapshotOptions {
  std::int64_t every_steps = 0;  ///< save every N steps; 0 disables saving by steps
  double every_seconds = 0;      ///< save about every N seconds; 0 disables saving by time
  int keep = 2;                  ///< number of most recent snapshots to keep
  bool background =
      /// write while the workers continue; they wait only for a copy in memory, whose buffer is kept for the next save
      true;
};

/// A folder with the most recent snapshots of a run. All calls are collective, from one thread of each rank.
class PLEIAD_API Snapshots {
 public:
  /// The session must outlive this object. Creates the folder if it does not exist.
  Snapshots(Session& session, const std::filesystem::path& folder, const SnapshotOptions& options = {});
  /// Waits for a save in progress.
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  /// Loads the newest complete snapshot. Warns of damaged ones and skips them. Returns nothing if there is none.
  [[nodiscard]] std::optional<SnapshotNote> load_last(const LoadOptions& options = {});
  /// Call this after every step; it saves when a save is due. Returns true if it started a save. A save that becomes
  /// due while an earlier one is still being written is postponed to the first step after that. A failure in the
  /// background is logged, and the next save tries again.
  bool step(std::int64_t step, const std::map<std::string, std::string>& text = {});
  /// Saves now.
  void save(const SnapshotNote& note);
  /// Call this at the end. Saves the state of the last step() if it was not saved, and waits until everything is on
  /// disk. Throws on all ranks if the last save failed.
  void wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pleiad
