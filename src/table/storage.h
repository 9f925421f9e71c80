// A table's segment on one host: clocks, locks, values, the rule's state, and the sums of unfinished rounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

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
};

struct alignas(64) Stripe {
  std::atomic<std::uint32_t> lock{0};
  // Rounds: some unit holds a sum that the rule has not seen. All guarded by lock.
  std::uint32_t pending = 0;  ///< 0: none; else 1 + the lowest worker that added
  std::uint64_t round = 0;    ///< which round the sum belongs to
  Rates rates;                ///< what that lowest worker passed
};

struct alignas(64) StorageHead {
  Event clock;
  std::atomic<std::uint64_t> torn{0};  ///< stripes whose holder died
};

struct StorageShape {
  Geometry geometry;
  DType dtype = DType::float32;
  StateLayout state;
  int workers = 1;
  int sums = 0;  ///< round: 1, or one a worker where sums are ordered
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
  [[nodiscard]] Stripe& stripe(std::int64_t index) const { return reinterpret_cast<Stripe*>(base_ + at_.stripes)[index]; }
  [[nodiscard]] char* value(std::int64_t element) const { return base_ + at_.values + element * width_; }
  [[nodiscard]] char* sum(int slot, std::int64_t element) const {
    return base_ + at_.sums + slot * at_.array_bytes + element * width_;
  }
  /// Whether a unit's sum in a slot holds something.
  [[nodiscard]] std::uint8_t& dirty(int slot, std::int64_t unit) const {
    return reinterpret_cast<std::uint8_t*>(base_ + at_.dirty)[slot * shape_.geometry.units + unit];
  }
  /// An update of the units [first, end), which lie in one stripe; more than one only where the rule keeps nothing per unit.
  template <class T>
  [[nodiscard]] Update<T> update(int worker, std::int64_t first, std::int64_t end, const T* delta, const Rates& rates) const;

  [[nodiscard]] const StorageShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  struct Offsets {
    std::int64_t clocks, stripes, values, states, units, sums, dirty, end, array_bytes;
  };
  static Offsets offsets(const StorageShape& shape);

  StorageShape shape_;
  std::shared_ptr<Segment> segment_;
  char* base_;
  Offsets at_;
  std::int64_t width_;
};

template <class T>
Update<T> Storage::update(int worker, std::int64_t first, std::int64_t end, const T* delta, const Rates& rates) const {
  const std::int64_t element = shape_.geometry.start(first);
  Update<T> update;
  update.value = reinterpret_cast<T*>(value(element));
  update.delta = delta;
  update.count = static_cast<std::size_t>(shape_.geometry.start(end) - element);
  update.rates = rates;
  const StateLayout& state = shape_.state;
  std::size_t k = 0;
  const auto place = [&](std::int64_t array) {
    update.state[k++] = reinterpret_cast<T*>(base_ + at_.states + array * at_.array_bytes + element * width_);
  };
  for (int s = 0; s < state.per_element; ++s) place(s);
  for (int s = 0; s < state.per_worker; ++s) place(state.per_element + worker * state.per_worker + s);
  if (state.per_unit > 0) update.unit = reinterpret_cast<double*>(base_ + at_.units) + first * state.per_unit;
  return update;
}

}  // namespace pleiad
