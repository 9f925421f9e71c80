// The index of a sparse table's rows: a hash table from 64-bit ids to slots in memory that the ranks of a host share.
// Each partition grows on its own; the rows themselves never move. A lookup takes no lock, because an entry is
// published by one store after it is complete.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/function_ref.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "pleiad/table.h"

namespace pleiad {

/// Hashes ids evenly over hosts, partitions and entries.
[[nodiscard]] constexpr std::uint64_t hash_of(RowId id) {
  auto x = static_cast<std::uint64_t>(id) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class RowIndex {
 public:
  /// Makes an index for up to `rows` rows, with any 64-bit ids. Collective; the ranks of one host must pass the same
  /// number.
  RowIndex(Engine& engine, std::int64_t rows);

  /// Returns the slot of the id, or -1.
  [[nodiscard]] std::int64_t find(RowId id) const;
  /// Prefetches the memory that find will read.
  void fetch_ahead(RowId id) const;
  /// Returns the slot of the id. If it has none, calls make(), and publishes the slot that it returns after everything
  /// that make() has written. If make() returns -1, nothing is published and the result is -1. make() runs under a lock
  /// and must not take a lock of another id.
  std::int64_t find_or_make(RowId id, FunctionRef<std::int64_t()> make);
  /// Removes the id if this is its slot.
  void erase(RowId id, std::int64_t slot);
  /// Removes all ids. No other rank or thread may use the index at the same time.
  void clear();

 private:
  static constexpr int kPartitionBits = 8;
  static constexpr std::size_t kPartitions = std::size_t{1} << kPartitionBits;
  static constexpr int kSmallest = 4;  ///< log2 of the number of entries in a partition's first block
  static constexpr int kSizes = 40;
  static constexpr std::uint64_t kNone = 0;
  static constexpr std::uint64_t kErased = ~std::uint64_t{0};

  struct Entry {
    std::atomic<RowId> key;
    std::atomic<std::uint64_t> slot;  ///< 1 + the slot, kNone or kErased
  };
  /// Guarded by lock, except for root, which identifies the block of entries in one word.
  struct alignas(64) Partition {
    std::atomic<std::uint32_t> lock;
    std::uint32_t used;  ///< upper bound of the entries that are not kNone
    std::uint64_t live;
    /// 0, or the position and size of the block and a counter that makes the word unique
    std::atomic<std::uint64_t> root;
  };
  struct alignas(64) Head {
    std::atomic<std::uint32_t> lock;
    std::uint64_t used;  ///< bytes of the area that have ever been allocated; guarded by lock, like all members below
    std::uint64_t committed;
    /// for each size: 1 + the offset of a free block, which contains the offset of the next one
    std::array<std::uint64_t, kSizes> free;
  };
  struct Block {
    Entry* entries = nullptr;
    std::uint64_t mask = 0;
    int log2 = 0;
    std::uint64_t offset = 0;
  };

  [[nodiscard]] Head& head() const { return *static_cast<Head*>(segment_->data()); }
  [[nodiscard]] Partition& partition(std::uint64_t hash) const { return partitions_[hash >> (64 - kPartitionBits)]; }
  [[nodiscard]] Block block_of(std::uint64_t root) const;
  [[nodiscard]] Block take_block(int log2);
  void give_back(const Block& block);
  void grow(Partition& partition);
  static std::int64_t look(const Block& block, std::uint64_t hash, RowId id);

  Engine& engine_;
  std::uint64_t area_;  ///< size in bytes
  std::shared_ptr<Segment> segment_;
  Partition* partitions_;
  char* base_;
};

}  // namespace pleiad
