#include "table/row_index.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/clones.h"
#include "core/text.h"
#include "engine/lock.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::uint64_t kHeadBytes = 4096;
constexpr std::uint64_t kGrain = 256;  // offset and size of a block are multiples of it
// An entry has 16 bytes and a block is at least a third full. Smaller, free blocks take as much again.
constexpr std::uint64_t kBytesPerRow = 128;
constexpr std::uint64_t kLeastArea = std::uint64_t{4} << 20;
constexpr std::uint64_t kCommit = std::uint64_t{256} << 10;

// The format of a root: 16 bits of counter, 6 bits of size, 42 bits of position.
constexpr int kPlaceBits = 42;
constexpr std::uint64_t kPlace = (std::uint64_t{1} << kPlaceBits) - 1;

}  // namespace

RowIndex::RowIndex(Engine& engine, std::int64_t rows)
    : engine_(engine),
      area_(kLeastArea + static_cast<std::uint64_t>(rows) * kBytesPerRow),
      segment_(engine.segments().share(kHeadBytes + kPartitions * sizeof(Partition) + area_, true)),
      partitions_(reinterpret_cast<Partition*>(static_cast<char*>(segment_->data()) + kHeadBytes)),
      base_(reinterpret_cast<char*>(partitions_ + kPartitions)) {
  static_assert(sizeof(Head) <= kHeadBytes && sizeof(Entry) == 16 && (sizeof(Entry) << kSmallest) % kGrain == 0);
  // Everything starts as zeros.
  if (engine_.world().makes_segments()) segment_->commit(0, kHeadBytes + kPartitions * sizeof(Partition));
}

RowIndex::Block RowIndex::block_of(std::uint64_t root) const {
  const int log2 = static_cast<int>((root >> kPlaceBits) & 63U);
  const std::uint64_t offset = (root & kPlace) * kGrain;
  return {.entries = reinterpret_cast<Entry*>(base_ + offset),
          .mask = (std::uint64_t{1} << log2) - 1,
          .log2 = log2,
          .offset = offset};
}

PLEIAD_INLINE std::int64_t RowIndex::look(const Block& block, std::uint64_t hash, RowId id) {
  for (std::uint64_t n = 0, i = hash & block.mask; n <= block.mask; ++n, i = (i + 1) & block.mask) {
    const Entry& entry = block.entries[i];
    const std::uint64_t slot = entry.slot.load(std::memory_order_acquire);
    if (slot == kNone) return -1;
    if (entry.key.load(std::memory_order_acquire) == id && slot != kErased) return static_cast<std::int64_t>(slot) - 1;
  }
  return -1;
}

std::int64_t RowIndex::find(RowId id) const {
  const std::uint64_t hash = hash_of(id);
  const Partition& partition = this->partition(hash);
  for (;;) {
    const std::uint64_t root = partition.root.load(std::memory_order_acquire);
    if (root == 0) return -1;
    const std::int64_t slot = look(block_of(root), hash, id);
    // A block that was replaced may already be used by another partition, so the result counts only if the root is
    // unchanged.
    if (partition.root.load(std::memory_order_relaxed) == root) return slot;
  }
}

void RowIndex::fetch_ahead(RowId id) const {
  const std::uint64_t hash = hash_of(id);
  const std::uint64_t root = partition(hash).root.load(std::memory_order_relaxed);
  if (root == 0) return;
  const Block block = block_of(root);
  __builtin_prefetch(&block.entries[hash & block.mask]);
}

std::int64_t RowIndex::find_or_make(RowId id, FunctionRef<std::int64_t()> make) {
  if (const std::int64_t slot = find(id); slot >= 0) return slot;
  const std::uint64_t hash = hash_of(id);
  Partition& partition = this->partition(hash);
  const SharedLock lock(engine_, partition.lock);
  std::uint64_t root = partition.root.load(std::memory_order_relaxed);
  if (root != 0) {
    if (const std::int64_t slot = look(block_of(root), hash, id); slot >= 0) return slot;
  }
  if (root == 0 || (partition.used + 1) * 10 > (block_of(root).mask + 1) * 7) grow(partition);
  const std::int64_t slot = make();
  if (slot < 0) return slot;
  const Block block = block_of(partition.root.load(std::memory_order_relaxed));
  std::uint64_t i = hash & block.mask;
  while (block.entries[i].slot.load(std::memory_order_relaxed) != kNone) i = (i + 1) & block.mask;
  ++partition.used;
  ++partition.live;
  block.entries[i].key.store(id, std::memory_order_relaxed);
  block.entries[i].slot.store(static_cast<std::uint64_t>(slot) + 1, std::memory_order_release);
  return slot;
}

void RowIndex::erase(RowId id, std::int64_t slot) {
  const std::uint64_t hash = hash_of(id);
  Partition& partition = this->partition(hash);
  const SharedLock lock(engine_, partition.lock);
  const std::uint64_t root = partition.root.load(std::memory_order_relaxed);
  if (root == 0) return;
  const Block block = block_of(root);
  for (std::uint64_t n = 0, i = hash & block.mask; n <= block.mask; ++n, i = (i + 1) & block.mask) {
    Entry& entry = block.entries[i];
    const std::uint64_t word = entry.slot.load(std::memory_order_relaxed);
    if (word == kNone) return;
    if (word != static_cast<std::uint64_t>(slot) + 1 || entry.key.load(std::memory_order_relaxed) != id) continue;
    entry.slot.store(kErased, std::memory_order_release);
    --partition.live;
    return;
  }
}

void RowIndex::clear() {
  for (std::size_t p = 0; p < kPartitions; ++p) {
    Partition& partition = partitions_[p];
    const SharedLock lock(engine_, partition.lock);
    const std::uint64_t root = partition.root.load(std::memory_order_relaxed);
    if (root == 0) continue;
    const Block block = block_of(root);
    for (std::uint64_t i = 0; i <= block.mask; ++i) block.entries[i].slot.store(kNone, std::memory_order_relaxed);
    partition.used = 0;
    partition.live = 0;
  }
}

RowIndex::Block RowIndex::take_block(int log2) {
  const std::uint64_t bytes = sizeof(Entry) << log2;
  Head& head = this->head();
  const SharedLock lock(engine_, head.lock);
  std::uint64_t& free = head.free[static_cast<std::size_t>(log2)];
  std::uint64_t offset = 0;
  if (free != 0) {
    offset = free - 1;
    std::memcpy(&free, base_ + offset, sizeof free);
  } else {
    if (head.used + bytes > area_) {
      throw MemoryError(fmt::format("the index of a sparse table has used up its reserved {}", byte_size(area_)));
    }
    if (head.used + bytes > head.committed) {
      const std::uint64_t more = std::min(std::max({bytes, kCommit, head.used / 8}), area_ - head.committed);
      segment_->commit(static_cast<std::size_t>(base_ - static_cast<char*>(segment_->data())) + head.committed, more);
      head.committed += more;
    }
    offset = head.used;
    head.used += bytes;
  }
  return {.entries = reinterpret_cast<Entry*>(base_ + offset),
          .mask = (std::uint64_t{1} << log2) - 1,
          .log2 = log2,
          .offset = offset};
}

void RowIndex::give_back(const Block& block) {
  Head& head = this->head();
  const SharedLock lock(engine_, head.lock);
  std::uint64_t& free = head.free[static_cast<std::size_t>(block.log2)];
  // Another thread may still read the block; it will see that the root has changed.
  reinterpret_cast<std::atomic<std::uint64_t>*>(base_ + block.offset)->store(free, std::memory_order_release);
  free = block.offset + 1;
}

// Requires the partition's lock. A rank that dies on the way leaks a block, but does no other harm.
void RowIndex::grow(Partition& partition) {
  const std::uint64_t root = partition.root.load(std::memory_order_relaxed);
  int log2 = kSmallest;
  // Erased entries do not count towards the size.
  while (root != 0 && (partition.live + 1) * 20 > (std::uint64_t{7} << log2)) ++log2;
  if (root != 0) log2 = std::max(log2, block_of(root).log2);
  const Block block = take_block(log2);
  for (std::uint64_t i = 0; i <= block.mask; ++i) {
    // Release order: a reader that still uses the block for another partition then sees that its root has changed.
    block.entries[i].slot.store(kNone, std::memory_order_release);
    block.entries[i].key.store(0, std::memory_order_release);
  }
  std::uint64_t live = 0;
  Block old{};
  if (root != 0) {
    old = block_of(root);
    for (std::uint64_t k = 0; k <= old.mask; ++k) {
      const std::uint64_t slot = old.entries[k].slot.load(std::memory_order_relaxed);
      if (slot == kNone || slot == kErased) continue;
      const RowId key = old.entries[k].key.load(std::memory_order_relaxed);
      std::uint64_t i = hash_of(key) & block.mask;
      while (block.entries[i].slot.load(std::memory_order_relaxed) != kNone) i = (i + 1) & block.mask;
      block.entries[i].key.store(key, std::memory_order_release);
      block.entries[i].slot.store(slot, std::memory_order_release);
      ++live;
    }
  }
  const std::uint64_t count = ((root >> (kPlaceBits + 6)) + 1) & 0xffffU;
  partition.root.store(
      (count << (kPlaceBits + 6)) | (static_cast<std::uint64_t>(log2) << kPlaceBits) | (block.offset / kGrain),
      std::memory_order_release);
  partition.live = live;
  partition.used = static_cast<std::uint32_t>(live);
  if (root != 0) give_back(old);
}

}  // namespace pleiad
