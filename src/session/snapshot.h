// The steps of saving: copy all tables at one point of the ranks' work, write the shards of every rank, and commit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "file/saved_set.h"
#include "pleiad/snapshot.h"
#include "session/core.h"
#include "table/table_snapshot.h"

namespace pleiad {

/// The data that this rank writes, and the metadata of the snapshot.
struct SnapshotCopy {
  std::string tag;  ///< the same on all ranks, and never used before
  std::vector<CopiedRegion> regions;
  Metadata metadata;
};

/// Collective. Requires a barrier before it, so that no rank is in the middle of a call. Copies go into buffers of
/// `spare`; unused buffers are dropped.
[[nodiscard]] SnapshotCopy copy_tables(SessionCore& core, const SnapshotNote& note, BufferPool& spare);

/// Writes this rank's part, and then an entry file that confirms it.
void write_snapshot_part(const std::filesystem::path& folder, const SnapshotCopy& copy, int rank);

/// Called by one rank: the snapshot is complete when the entries of all ranks exist. Calls `patience` about a hundred
/// times a second with the ranks whose entries are missing; if it returns false, throws an error that names them.
void commit_snapshot(const std::filesystem::path& folder, const SnapshotCopy& copy, int ranks,
                     FunctionRef<bool(const std::vector<int>& missing)> patience);

/// Removes the files of this rank if the snapshot was not committed. Never throws.
void remove_snapshot_part(const std::filesystem::path& folder, const SnapshotCopy& copy, int rank);

/// The same for background saves, where the committer also removes the files of the other ranks. Never throws.
void abandon_snapshot(const std::filesystem::path& folder, const SnapshotCopy& copy, int rank, bool commits);

}  // namespace pleiad
