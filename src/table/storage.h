// The memory segment of a table on one host: clocks, locks, values, the rule's state, and the sums of unfinished
// rounds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/clones.h"
#include "engine/futex.h"
#include "engine/segment.h"
#include "table/geometry.h"
#include "updater/updater.h"

namespace pleiad {

/// One worker's counters in a table's clock.
struct alignas(64) ClockSlot {
  std::atomic<std::uint64_t> adds_issued{0};
  std::atomic<std::uint64_t> adds_done{0};
  std::atomic<std::uint64_t> gets_done{0};
  std::atomic<std::uint64_t> ticks{0};
};

struct alignas(64) Stripe {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> version{0};  ///< odd while the lock's holder changes values
  // Rounds: some unit has a sum that the rule has not been applied to. Guarded by lock.
  std::uint32_t pending = 0;  ///< 0: none; otherwise 1 + the lowest worker that has added
  std::uint64_t round = 0;    ///< the round that the sum belongs to
  Rates rates;                ///< the rates of that lowest worker
  /// Number of changes to units of this stripe, if changes are tracked. Written under lock.
  std::atomic<std::uint64_t> changes{0};
};
static_assert(sizeof(Stripe) == 64);

/// Sparse tables: the row that a unit holds.
struct RowTag {
  std::atomic<std::int64_t> id;
  std::atomic<std::int64_t> touched;  ///< time of its last add in nanoseconds; 0 if the unit holds no row
};

/// Rows can be read without the lock: if the version is even and the same before and after, no change happened during
/// the read. Taking the lock would move its cache line to the reader's core for every row. ThreadSanitizer cannot
/// follow such reads, so there every reader takes the lock.
#if defined(PLEIAD_THREAD_SANITIZER)
inline constexpr bool kReadsWithoutLock = false;
#else
inline constexpr bool kReadsWithoutLock = true;
#endif

/// Marks the stripe as changing during its lifetime. The creator holds the stripe's lock.
class Change {
 public:
  explicit Change(Stripe& stripe) : stripe_(stripe), before_(stripe.version.load(std::memory_order_relaxed)) {
    stripe_.version.store(before_ + 1, std::memory_order_relaxed);
    if constexpr (kReadsWithoutLock) std::atomic_thread_fence(std::memory_order_release);
  }
  ~Change() { stripe_.version.store(before_ + 2, std::memory_order_release); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  Stripe& stripe_;
  std::uint32_t before_;
};

/// Runs `read` without the lock. Returns false if it may have seen an incomplete change.
template <class F>
bool read_unlocked(const Stripe& stripe, F&& read) {
  if constexpr (!kReadsWithoutLock) return false;
  const std::uint32_t before = stripe.version.load(std::memory_order_acquire);
  if (before % 2 != 0) return false;
  read();
  std::atomic_thread_fence(std::memory_order_acquire);
  return stripe.version.load(std::memory_order_relaxed) == before;
}

/// The allocation of a sparse table's units.
struct alignas(64) Slots {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> evicting{0};
  std::atomic<std::int64_t> used{0};  ///< units that have ever held a row; written under lock, like all members below
  std::atomic<std::int64_t> rows{0};
  std::int64_t committed = 0;
  std::int64_t free = 0;                   ///< 1 + the index of a free unit, whose tag contains the next one
  std::atomic<std::int64_t> looked_at{0};  ///< the last time that rows that are too old were searched for
};

struct alignas(64) StorageHead {
  Event clock;
  std::atomic<std::uint64_t> torn{0};    ///< number of stripes whose lock holder died
  std::atomic<std::int32_t> torn_by{0};  ///< synchronous tables: 1 + the rank that died while it changed a stripe
  // For rounds with backup workers:
  std::atomic<std::uint64_t> closed_rounds{0};
  std::atomic<std::uint64_t> dropped_adds{0};
  Slots slots;
};

struct StorageShape {
  Geometry geometry;
  DType dtype = DType::float32;
  StateLayout state;
  int workers = 1;
  int sums = 0;         ///< with rounds: 1, or one per worker if sums are ordered
  bool stamps = false;  ///< changes are tracked
  bool tags = false;    ///< units are rows of a sparse table, whose memory is committed as rows are created
};

class Storage {
 public:
  Storage(const StorageShape& shape, std::shared_ptr<Segment> segment);

  static std::size_t bytes(const StorageShape& shape);
  /// Initialises the segment. Called once, by one rank, on zeroed memory.
  void construct();
  /// Initialises the states that start as a copy of the values. Called once, after the values are set.
  void start_states();

  [[nodiscard]] StorageHead& head() const { return *reinterpret_cast<StorageHead*>(base_); }
  [[nodiscard]] ClockSlot& clock(int worker) const { return reinterpret_cast<ClockSlot*>(base_ + at_.clocks)[worker]; }
  [[nodiscard]] Stripe& stripe(std::int64_t index) const {
    return reinterpret_cast<Stripe*>(base_ + at_.stripes)[index];
  }
  [[nodiscard]] char* value(std::int64_t element) const { return base_ + at_.values + element * width_; }
  [[nodiscard]] char* sum(int slot, std::int64_t element) const {
    return base_ + at_.sums + slot * at_.array_bytes + element * width_;
  }
  /// Whether the sum of a unit in a slot is in use.
  [[nodiscard]] std::uint8_t& dirty(int slot, std::int64_t unit) const {
    return reinterpret_cast<std::uint8_t*>(base_ + at_.dirty)[slot * shape_.geometry.units + unit];
  }
  /// The arrays of the rule's state: first the per-element arrays, then the arrays of each worker.
  [[nodiscard]] char* state(int array, std::int64_t element) const {
    return base_ + at_.states + array * at_.array_bytes + element * width_;
  }
  /// The per-unit state of the rule.
  [[nodiscard]] double* unit(std::int64_t unit) const {
    return reinterpret_cast<double*>(base_ + at_.units) + unit * shape_.state.per_unit;
  }
  /// Returns an update of the elements [begin, end), which start in `unit` and are within one stripe. They may span
  /// several units only if the rule has no per-unit state.
  template <class T>
  [[nodiscard]] Update<T> update(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const T* delta,
                                 const Rates& rates) const;

  [[nodiscard]] RowTag& tag(std::int64_t unit) const { return reinterpret_cast<RowTag*>(base_ + at_.tags)[unit]; }
  /// Commits the memory of the units [first, end), which are whole stripes. A MemoryError changes nothing.
  void commit(std::int64_t first, std::int64_t end) const;
  /// Resets the rule's state of a unit, whose values are already set.
  void start_states(std::int64_t unit) const;
  /// Returns the bytes of a unit over all arrays.
  static double unit_bytes(const StorageShape& shape);

  // Tracking of changes, under the stripe's lock; does nothing if changes are not tracked. A unit's stamp is the
  // stripe's change count at its last change. Each stripe has an additional stamp for changes of all of its units.
  void note_change(Stripe& stripe, std::int64_t unit) const {
    if (shape_.stamps) stamp(unit) = next_change(stripe);
  }
  void note_changes(std::int64_t index) const {
    if (shape_.stamps) stamp(shape_.geometry.units + index) = next_change(stripe(index));
  }
  [[nodiscard]] std::uint64_t last_change(std::int64_t unit) const {
    return std::max(stamp(unit), stamp(shape_.geometry.units + shape_.geometry.stripe_of(unit)));
  }

  [[nodiscard]] const StorageShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  struct Offsets {
    std::int64_t clocks, stripes, values, states, units, sums, dirty, stamps, tags, end, array_bytes;
  };
  [[nodiscard]] std::uint64_t& stamp(std::int64_t index) const {
    return reinterpret_cast<std::uint64_t*>(base_ + at_.stamps)[index];
  }
  static std::uint64_t next_change(Stripe& stripe) {
    const std::uint64_t next = stripe.changes.load(std::memory_order_relaxed) + 1;
    stripe.changes.store(next, std::memory_order_relaxed);
    return next;
  }
  static Offsets offsets(const StorageShape& shape);

  StorageShape shape_;
  std::shared_ptr<Segment> segment_;
  char* base_;
  Offsets at_;
  std::int64_t width_;
};

template <class T>
Update<T> Storage::update(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const T* delta,
                          const Rates& rates) const {
  Update<T> update;
  update.value = reinterpret_cast<T*>(value(begin));
  update.delta = delta;
  update.count = static_cast<std::size_t>(end - begin);
  update.rates = rates;
  const StateLayout& layout = shape_.state;
  std::size_t k = 0;
  const auto place = [&](int array) { update.state[k++] = reinterpret_cast<T*>(state(array, begin)); };
  for (int s = 0; s < layout.per_element; ++s) place(s);
  for (int s = 0; s < layout.per_worker; ++s) place(layout.per_element + worker * layout.per_worker + s);
  if (layout.per_unit > 0) update.unit = this->unit(unit);
  return update;
}

}  // namespace pleiad
