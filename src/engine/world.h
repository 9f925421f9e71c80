// The world as one of its ranks sees it: which ranks there are and on which hosts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace pleiad {

/// The location of a rank.
struct RankLocation {
  int host = 0;      ///< index of the host; the host of rank 0 is 0
  int local = 0;     ///< index among the ranks of this host
  std::string name;  ///< the host's name
};

/// The ranks that have a task for others. Any rank can have it, so code asks the world for it.
struct WorldRoles {
  int clock_home = 0;          ///< holds the clocks and the ledger of a job on several hosts
  int snapshot_committer = 0;  ///< decides when to take snapshots, makes their folders and commits them
  /// The local index of the rank that makes its host's segments and writes their first values; the last rank of a host
  /// that has fewer.
  int segment_maker = 0;
};

/// A value: a copy stays as it is. A world may change in the future, so ask the engine's world when you need an answer
/// instead of keeping a rank or a size.
class World {
 public:
  /// The world as `rank` sees it. `locations` has an entry for each rank.
  World(int rank, std::vector<RankLocation> locations, const WorldRoles& roles = {});

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(locations_.size()); }
  [[nodiscard]] bool contains(int rank) const { return rank >= 0 && rank < size(); }

  [[nodiscard]] const RankLocation& location(int rank) const { return locations_[static_cast<std::size_t>(rank)]; }
  /// The location of this rank.
  [[nodiscard]] const RankLocation& here() const { return location(rank_); }
  [[nodiscard]] bool on_this_host(int rank) const { return location(rank).host == here().host; }
  [[nodiscard]] int hosts() const { return hosts_; }
  [[nodiscard]] bool one_host() const { return local_ranks() == size(); }

  /// The ranks of this host, in the order of their local index.
  [[nodiscard]] std::span<const int> neighbours() const { return neighbours_; }
  [[nodiscard]] int local_ranks() const { return static_cast<int>(neighbours_.size()); }
  /// Turns a local index into a rank of the world.
  [[nodiscard]] int world_rank(int local) const { return neighbours_[static_cast<std::size_t>(local)]; }

  // The ranks that have a role; see WorldRoles.
  [[nodiscard]] int clock_home() const { return roles_.clock_home; }
  [[nodiscard]] int snapshot_committer() const { return roles_.snapshot_committer; }
  [[nodiscard]] bool commits_snapshots() const { return rank_ == roles_.snapshot_committer; }
  /// The rank of this host that makes its segments.
  [[nodiscard]] int segment_maker() const { return segment_maker_; }
  [[nodiscard]] bool makes_segments() const { return rank_ == segment_maker_; }

 private:
  int rank_;
  int hosts_ = 0;
  std::vector<RankLocation> locations_;
  std::vector<int> neighbours_;
  WorldRoles roles_;
  int segment_maker_ = 0;
};

}  // namespace pleiad
