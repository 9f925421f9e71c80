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
#include "table/share.h"

namespace pleiad {

/// The data that this rank writes, and the metadata of the snapshot.
struct SnapshotCut {
  std::string tag;  ///< the same on all ranks, and never used before
  std::vector<CopiedPiece> pieces;
  Metadata metadata;
};

/// Collective. Requires a barrier before it, so that no rank is in the middle of a call. Copies go into buffers of
/// `spare`; unused buffers are dropped.
[[nodiscard]] SnapshotCut cut_tables(SessionCore& core, const SnapshotNote& note, SpareBytes& spare);

/// Writes this rank's part, and then an entry file that confirms it.
void write_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

/// Called by one rank: the snapshot is complete when the entries of all ranks exist. Calls `patience` about a hundred
/// times a second with the ranks whose entries are missing; if it returns false, throws an error that names them.
void commit_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int ranks,
                FunctionRef<bool(const std::vector<int>& missing)> patience);

/// Removes the files of this rank if the snapshot was not committed. Never throws.
void remove_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

/// The same for background saves, where rank 0 also removes the files of the other ranks. Never throws.
void abandon_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

}  // namespace pleiad
