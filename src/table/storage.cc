#include "table/storage.h"

#include <new>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Storage::Offsets Storage::offsets(const StorageShape& shape) {
  const Geometry& g = shape.geometry;
  const auto width = static_cast<std::int64_t>(size_of(shape.dtype));
  const StateLayout& state = shape.state;
  Offsets at{};
  at.array_bytes = rounded(g.elements * width);
  at.clocks = rounded(sizeof(StorageHead));
  at.stripes = at.clocks + rounded(shape.workers * static_cast<std::int64_t>(sizeof(ClockSlot)));
  at.values = at.stripes + rounded(g.stripes() * static_cast<std::int64_t>(sizeof(Stripe)));
  at.states = at.values + at.array_bytes;
  at.units = at.states + (state.per_element + std::int64_t{state.per_worker} * shape.workers) * at.array_bytes;
  at.sums = at.units + rounded(g.units * state.per_unit * static_cast<std::int64_t>(sizeof(double)));
  at.dirty = at.sums + shape.sums * at.array_bytes;
  at.end = at.dirty + rounded(shape.sums * g.units) + 4096;
  return at;
}

std::size_t Storage::bytes(const StorageShape& shape) {
  // Sizes near 2^63 would wrap around on the way.
  const double states =
      1 + shape.state.per_element + static_cast<double>(shape.state.per_worker) * shape.workers + shape.sums;
  const double estimate =
      static_cast<double>(shape.geometry.elements) * static_cast<double>(size_of(shape.dtype)) * states;
  if (estimate > 4e18) {
    throw MemoryError(fmt::format("no memory for a segment of {:.3g} bytes: beyond any address space", estimate));
  }
  return static_cast<std::size_t>(offsets(shape).end);
}

Storage::Storage(const StorageShape& shape, std::shared_ptr<Segment> segment)
    : shape_(shape),
      segment_(std::move(segment)),
      base_(static_cast<char*>(segment_->data())),
      at_(offsets(shape)),
      width_(static_cast<std::int64_t>(size_of(shape.dtype))) {}

void Storage::construct() {
  new (base_) StorageHead;
  for (int w = 0; w < shape_.workers; ++w) new (&clock(w)) ClockSlot;
  // A Stripe's initial state is all zero, as the memory is: nothing to do, and a huge table stays untouched.
}

void Storage::start_states() {
  if (!shape_.state.per_worker_starts_as_value) return;
  for (std::int64_t a = 0; a < std::int64_t{shape_.state.per_worker} * shape_.workers; ++a) {
    copy_bytes(base_ + at_.states + (shape_.state.per_element + a) * at_.array_bytes, value(0),
               static_cast<std::size_t>(shape_.geometry.elements * width_));
  }
}

}  // namespace pleiad
