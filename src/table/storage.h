// A table's segment on one host: clocks, locks, values, the rule's state, and the sums of unfinished rounds.
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

/// A worker's place in a table's clock.
struct alignas(64) ClockSlot {
  std::atomic<std::uint64_t> adds_issued{0};
  std::atomic<std::uint64_t> adds_done{0};
  std::atomic<std::uint64_t> gets_done{0};
  std::atomic<std::uint64_t> ticks{0};
};

struct alignas(64) Stripe {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> version{0};  ///< odd while a holder of the lock changes values
  // Rounds: some unit holds a sum that the rule has not seen. All guarded by lock.
  std::uint32_t pending = 0;  ///< 0: none; else 1 + the lowest worker that added
  std::uint64_t round = 0;    ///< which round the sum belongs to
  Rates rates;                ///< what that lowest worker passed
  /// How often units of this stripe have changed, where changes are tracked. Written under lock.
  std::atomic<std::uint64_t> changes{0};
};
static_assert(sizeof(Stripe) == 64);

/// Of a sparse table: whose row a unit holds.
struct RowTag {
  std::atomic<std::int64_t> id;
  std::atomic<std::int64_t> touched;  ///< when it was last added to, in nanoseconds; 0 for a unit that holds none
};

/// Rows can be read without the lock: whoever finds the same even version before and after has read between two
/// changes. Taking a lock would move its cache line to the reader's core at every row. ThreadSanitizer cannot follow
/// such reads, so there all readers take the lock.
#if defined(PLEIAD_THREAD_SANITIZER)
inline constexpr bool kReadsWithoutLock = false;
#else
inline constexpr bool kReadsWithoutLock = true;
#endif

/// The holder of a stripe's lock changes values while this lives.
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

/// Runs `read` without the lock. False where it may have seen a change half-done.
template <class F>
bool read_unlocked(const Stripe& stripe, F&& read) {
  if constexpr (!kReadsWithoutLock) return false;
  const std::uint32_t before = stripe.version.load(std::memory_order_acquire);
  if (before % 2 != 0) return false;
  read();
  std::atomic_thread_fence(std::memory_order_acquire);
  return stripe.version.load(std::memory_order_relaxed) == before;
}

/// Which units of a sparse table's memory hold rows.
struct alignas(64) Slots {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> evicting{0};
  std::atomic<std::int64_t> used{0};  ///< units that ever held one. Written under lock, as are all below
  std::atomic<std::int64_t> rows{0};
  std::int64_t committed = 0;
  std::int64_t free = 0;                   ///< 1 + a unit that is free again, whose tag names the next one
  std::atomic<std::int64_t> looked_at{0};  ///< when rows that are too old were last looked for
};

struct alignas(64) StorageHead {
  Event clock;
  std::atomic<std::uint64_t> torn{0};    ///< stripes whose holder died
  std::atomic<std::int32_t> torn_by{0};  ///< of a synchronous table: 1 + the rank that died with one
  // Rounds that do not wait for all:
  std::atomic<std::uint64_t> closed_rounds{0};
  std::atomic<std::uint64_t> dropped_adds{0};
  Slots slots;
};

struct StorageShape {
  Geometry geometry;
  DType dtype = DType::float32;
  StateLayout state;
  int workers = 1;
  int sums = 0;         ///< round: 1, or one a worker where sums are ordered
  bool stamps = false;  ///< changes are tracked
  bool tags = false;    ///< units are rows of a sparse table: memory is committed as they come
};

class Storage {
 public:
  Storage(const StorageShape& shape, std::shared_ptr<Segment> segment);

  static std::size_t bytes(const StorageShape& shape);
  /// Called once, by one rank, on zeroed memory.
  void construct();
  /// Called once the values are set: states that start as a copy of them.
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
  /// Whether a unit's sum in a slot holds something.
  [[nodiscard]] std::uint8_t& dirty(int slot, std::int64_t unit) const {
    return reinterpret_cast<std::uint8_t*>(base_ + at_.dirty)[slot * shape_.geometry.units + unit];
  }
  /// Of the arrays that the rule keeps: first those with one number an element, then each worker's.
  [[nodiscard]] char* state(int array, std::int64_t element) const {
    return base_ + at_.states + array * at_.array_bytes + element * width_;
  }
  /// What the rule keeps for a unit as a whole.
  [[nodiscard]] double* unit(std::int64_t unit) const {
    return reinterpret_cast<double*>(base_ + at_.units) + unit * shape_.state.per_unit;
  }
  /// An update of the elements [begin, end), which begin in `unit` and lie in one stripe; in more than one unit only
  /// where the rule keeps nothing per unit.
  template <class T>
  [[nodiscard]] Update<T> update(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const T* delta,
                                 const Rates& rates) const;

  [[nodiscard]] RowTag& tag(std::int64_t unit) const { return reinterpret_cast<RowTag*>(base_ + at_.tags)[unit]; }
  /// Commits the memory of units [first, end), the first and last of stripes. A MemoryError leaves it as it was.
  void commit(std::int64_t first, std::int64_t end) const;
  /// Puts the rule's state of a unit back to what it is at the start; the values are there.
  void start_states(std::int64_t unit) const;
  /// How many bytes a unit takes in all arrays together.
  static double unit_bytes(const StorageShape& shape);

  // Tracked changes, under the stripe's lock; nothing where they are not tracked. A unit's stamp is the stripe's count
  // at its last change; one stamp more, a stripe's own, stands for all of its units.
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
