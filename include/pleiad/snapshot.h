// Snapshots: all tables of a session on disk, with what their rules keep. Any number of processes saves, any other
// number loads. The files are safetensors; docs/snapshots.md describes them.
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

/// What a snapshot says beside its tables.
struct SnapshotNote {
  std::int64_t step = 0;                    ///< how far the caller was
  std::map<std::string, std::string> text;  ///< whatever the caller wants to find again
};

struct LoadOptions {
  bool values_only = false;  ///< leave out what the rules keep: for tables whose rule is another one now
};

/// Collective, by all ranks at the same point of their work; a barrier comes first. Writes every table of the session
/// into `folder`, which all ranks must see, and is made if it is not there. A set that was there before is replaced in
/// one step when the new one is complete: whoever fails, all ranks get the error, and the old set stays whole.
PLEIAD_API void save_tables(Session& session, const std::filesystem::path& folder, const SnapshotNote& note = {});

/// Collective. Fills the session's tables, which the caller has created, with those of the same names in `folder`;
/// shape, element type and rule must be the same. What a rule keeps for each worker starts anew where the number of
/// workers is another one. On an error all ranks get it; one that is found before the first value is written leaves the
/// tables as they were.
PLEIAD_API SnapshotNote load_tables(Session& session, const std::filesystem::path& folder,
                                    const LoadOptions& options = {});

struct SnapshotOptions {
  std::int64_t every_steps = 0;  ///< save when this many steps have passed since the last; 0: not by steps
  double every_seconds = 0;      ///< save when about so many seconds have passed since the last; 0: not by time
  int keep = 2;                  ///< how many snapshots stay
  bool background =
      true;  ///< write while the workers go on: they wait for a copy in memory only, which stays for the next save
};

/// A folder of snapshots, the last few of a run. Its calls are collective, by one thread of each rank.
class PLEIAD_API Snapshots {
 public:
  /// The session outlives this. The folder is made if it is not there.
  Snapshots(Session& session, const std::filesystem::path& folder, const SnapshotOptions& options = {});
  /// Waits for what is being written.
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  /// Loads the newest snapshot that is whole; damaged ones are warned of and passed over. Nothing if there is none.
  [[nodiscard]] std::optional<SnapshotNote> load_last(const LoadOptions& options = {});
  /// Call this after every step; it saves when a save is due. Returns true where a save was begun. A save that becomes
  /// due while an earlier one is still being written is postponed to the first step after that. A failure in the
  /// background is logged, and the next save tries again.
  bool step(std::int64_t step, const std::map<std::string, std::string>& text = {});
  /// Saves now.
  void save(const SnapshotNote& note);
  /// Call this at the end: saves the state of the last step() if it was not saved, and waits until everything is on
  /// disk. Throws, on all ranks, where a save failed.
  void wait();

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace pleiad
