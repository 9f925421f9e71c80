// The steps of saving: a copy of all tables at one point of the ranks' work, its writing by every rank, and the commit.
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

/// What this rank writes, and what the set says of itself.
struct SnapshotCut {
  std::string tag;  ///< the same on all ranks, and never used before
  std::vector<CopiedPiece> pieces;
  Metadata metadata;
};

/// Collective, and after a barrier: nobody is in the middle of anything. Copies go into `spare`, and what is left of it
/// is dropped.
[[nodiscard]] SnapshotCut cut_tables(SessionCore& core, const SnapshotNote& note, BufferPool& spare);

/// Writes this rank's part, and beside it an entry that says so.
void write_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

/// By one rank: when the entries of all ranks are there, the set is. `patience` is asked with those ranks whose entries
/// are not, about a hundred times a second; false gives up, and the text says who was missing.
void commit_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int ranks,
                FunctionRef<bool(const std::vector<int>& missing)> patience);

/// Removes what a rank wrote of a set that was not completed. Never throws.
void remove_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

/// The same in the background, where rank 0 removes what it finds of all ranks. Never throws.
void abandon_cut(const std::filesystem::path& folder, const SnapshotCut& cut, int rank);

}  // namespace pleiad
