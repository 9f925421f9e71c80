#include "table/storage.h"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

Storage::Offsets Storage::offsets(const StorageShape& shape) {
  const Geometry& g = shape.geometry;
  const auto width = static_cast<std::int64_t>(size_of(shape.dtype));
  const StateLayout& state = shape.state;
  Offsets at{};
  at.array_bytes = round_to_pages(g.elements * width);
  at.clocks = round_to_pages(sizeof(StorageHead));
  at.stripes = at.clocks + round_to_pages(shape.workers * static_cast<std::int64_t>(sizeof(ClockSlot)));
  at.values = at.stripes + round_to_pages(g.stripes() * static_cast<std::int64_t>(sizeof(Stripe)));
  at.states = at.values + at.array_bytes;
  at.units = at.states + (state.per_element + std::int64_t{state.per_worker} * shape.workers) * at.array_bytes;
  at.sums = at.units + round_to_pages(g.units * state.per_unit * static_cast<std::int64_t>(sizeof(double)));
  at.dirty = at.sums + shape.sums * at.array_bytes;
  at.stamps = at.dirty + round_to_pages(shape.sums * g.units);
  at.tags =
      at.stamps +
      (shape.stamps ? round_to_pages((g.units + g.stripes()) * static_cast<std::int64_t>(sizeof(std::uint64_t))) : 0);
  at.end = at.tags + (shape.tags ? round_to_pages(g.units * static_cast<std::int64_t>(sizeof(RowTag))) : 0) + 4096;
  return at;
}

std::size_t Storage::bytes(const StorageShape& shape) {
  // In integers, sizes near 2^63 would wrap around.
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
  if (shape_.tags) segment_->commit(0, static_cast<std::size_t>(at_.stripes));
  new (base_) StorageHead;
  for (int w = 0; w < shape_.workers; ++w) new (&clock(w)) ClockSlot;
  // The initial state of a Stripe is all zeros, as the memory is. Leaving it untouched keeps huge tables uncommitted.
}

void Storage::start_states() {
  if (!shape_.state.per_worker_starts_as_value) return;
  for (std::int64_t a = 0; a < std::int64_t{shape_.state.per_worker} * shape_.workers; ++a) {
    copy_bytes(base_ + at_.states + (shape_.state.per_element + a) * at_.array_bytes, value(0),
               static_cast<std::size_t>(shape_.geometry.elements * width_));
  }
}

double Storage::unit_bytes(const StorageShape& shape) {
  const StateLayout& state = shape.state;
  const double arrays = 1 + state.per_element + static_cast<double>(state.per_worker) * shape.workers + shape.sums;
  return static_cast<double>(shape.geometry.unit_length) * static_cast<double>(size_of(shape.dtype)) * arrays +
         8.0 * state.per_unit + shape.sums + (shape.stamps ? 8 : 0) + (shape.tags ? sizeof(RowTag) : 0);
}

void Storage::commit(std::int64_t first, std::int64_t end) const {
  const Geometry& g = shape_.geometry;
  const auto take = [&](std::int64_t from, std::int64_t each, std::int64_t begin, std::int64_t stop) {
    // Commits whole pages. Committing the first and last page again, which adjacent units share, has no effect.
    const std::int64_t a = (from + begin * each) / 4096 * 4096;
    const std::int64_t b = round_to_pages(from + stop * each);
    if (b > a) segment_->commit(static_cast<std::size_t>(a), static_cast<std::size_t>(b - a));
  };
  const std::int64_t row = g.unit_length * width_;
  const int arrays = shape_.state.per_element + shape_.state.per_worker * shape_.workers;
  take(at_.stripes, sizeof(Stripe), first / g.stripe_units, (end + g.stripe_units - 1) / g.stripe_units);
  take(at_.values, row, first, end);
  for (int a = 0; a < arrays; ++a) take(at_.states + a * at_.array_bytes, row, first, end);
  for (int a = 0; a < shape_.sums; ++a) {
    take(at_.sums + a * at_.array_bytes, row, first, end);
    take(at_.dirty + a * g.units, 1, first, end);
  }
  if (shape_.state.per_unit > 0) take(at_.units, shape_.state.per_unit * std::int64_t{8}, first, end);
  if (shape_.stamps) {
    take(at_.stamps, 8, first, end);
    take(at_.stamps + g.units * 8, 8, first / g.stripe_units, (end + g.stripe_units - 1) / g.stripe_units);
  }
  if (shape_.tags) take(at_.tags, sizeof(RowTag), first, end);
}

void Storage::start_states(std::int64_t unit) const {
  const StateLayout& state = shape_.state;
  const std::int64_t element = shape_.geometry.start(unit);
  const auto bytes = static_cast<std::size_t>((shape_.geometry.start(unit + 1) - element) * width_);
  for (int a = 0; a < state.per_element + state.per_worker * shape_.workers; ++a) {
    if (a >= state.per_element && state.per_worker_starts_as_value) {
      copy_bytes(this->state(a, element), value(element), bytes);
    } else {
      std::memset(this->state(a, element), 0, bytes);
    }
  }
  for (int n = 0; n < state.per_unit; ++n) this->unit(unit)[n] = 0;
  for (int slot = 0; slot < shape_.sums; ++slot) dirty(slot, unit) = 0;
}

}  // namespace pleiad
