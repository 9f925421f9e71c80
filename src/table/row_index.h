// Where the rows of a sparse table lie: a hash index from 64-bit ids to slots, in memory that the ranks of a host
// share. It grows by partitions; what it points to never moves. Finding takes no lock: a key is published last, by one
// store.
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

/// Spreads ids evenly: which host, partition and place a row belongs to.
[[nodiscard]] constexpr std::uint64_t hash_of(RowId id) {
  auto x = static_cast<std::uint64_t>(id) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class RowIndex {
 public:
  /// For as many as `rows`, whose ids are 64 bits of anything. Collective; ranks of one host ask for the same.
  RowIndex(Engine& engine, std::int64_t rows);

  /// The id's slot, or -1.
  [[nodiscard]] std::int64_t find(RowId id) const;
  /// Asks for the memory that find will look at.
  void fetch_ahead(RowId id) const;
  /// The id's slot; where it has none, that which make() returns, published when all that make() wrote is. Where make
  /// returns -1 there is no slot, and so the answer is -1. make() runs under a lock and takes no lock of another id.
  std::int64_t find_or_make(RowId id, FunctionRef<std::int64_t()> make);
  /// Forgets the id if that is its slot.
  void erase(RowId id, std::int64_t slot);
  /// Forgets all ids. Nobody else may call anything meanwhile.
  void clear();

 private:
  static constexpr int kPartitionBits = 8;
  static constexpr std::size_t kPartitions = std::size_t{1} << kPartitionBits;
  static constexpr int kSmallest = 4;  ///< log2 of the entries of a partition's first block
  static constexpr int kSizes = 40;
  static constexpr std::uint64_t kNone = 0;
  static constexpr std::uint64_t kErased = ~std::uint64_t{0};

  struct Entry {
    std::atomic<RowId> key;
    std::atomic<std::uint64_t> slot;  ///< 1 + the slot, kNone or kErased
  };
  /// Guarded by lock, but for root, which names the block of entries in one word.
  struct alignas(64) Partition {
    std::atomic<std::uint32_t> lock;
    std::uint32_t used;  ///< entries that are not kNone, at most
    std::uint64_t live;
    std::atomic<std::uint64_t> root;  ///< 0, or which block, how large, and a count that makes it unlike all before
  };
  struct alignas(64) Head {
    std::atomic<std::uint32_t> lock;
    std::uint64_t used;  ///< bytes of the area that were ever given out; guarded by lock, as are all below
    std::uint64_t committed;
    std::array<std::uint64_t, kSizes> free;  ///< by size: 1 + the offset of a free block, which holds the next one's
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
  std::uint64_t area_;  ///< bytes
  std::shared_ptr<Segment> segment_;
  Partition* partitions_;
  char* base_;
};

}  // namespace pleiad
