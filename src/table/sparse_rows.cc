#include "table/sparse_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/process.h"
#include "core/text.h"
#include "engine/lock.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// The shadow memory of a sanitizer limits how much can be reserved.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr double kShare = 1.0 / 64;
#else
constexpr double kShare = 1;
#endif

}  // namespace

Geometry reserve_rows(const TableSpec& spec, StorageShape shape, std::int64_t most) {
  shape.geometry = Geometry::matrix(1, spec.cols, spec.options.dtype);
  double rows = static_cast<double>(total_memory()) * kShare / Storage::unit_bytes(shape);
  // A rank that dies while it creates a row leaks a unit, so reserve a few more units than rows.
  if (most > 0) rows = std::min(rows, static_cast<double>(most) * 1.1 + 64);
  const std::int64_t stripe = shape.geometry.stripe_units;
  const auto stripes = static_cast<std::int64_t>(rows / static_cast<double>(stripe)) + 1;
  return Geometry::matrix(stripes * stripe, spec.cols, spec.options.dtype);
}

SparseRows::SparseRows(Engine& engine, const TableSpec& spec, std::string name, const Storage& storage,
                       std::int64_t most)
    : engine_(engine),
      storage_(storage),
      name_(std::move(name)),
      by_count_(spec.options.evict),
      most_(most),
      max_age_(static_cast<std::int64_t>(spec.options.max_age * 1e9)),
      evicts_(spec.evicts()),
      init_(spec.options, spec.cols),
      index_(engine, storage.shape().geometry.units) {}

void SparseRows::find(std::span<const RowId> ids, std::span<std::int64_t> units) const {
  constexpr std::size_t kAhead = 16;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) index_.fetch_ahead(ids[i + kAhead]);
    units[i] = index_.find(ids[i]);
  }
}

std::int64_t SparseRows::find_or_make(RowId id, bool tried) {
  return index_.find_or_make(id, [&] {
    const std::int64_t unit = take_unit(tried);
    if (unit < 0) return unit;
    try {
      engine_.hooks().at(Point::make);
    } catch (const Error&) {
      free_unit(unit);
      throw;
    }
    init_.fill(id, storage_.value(storage_.shape().geometry.start(unit)));
    storage_.start_states(unit);
    RowTag& tag = storage_.tag(unit);
    tag.id.store(id, std::memory_order_relaxed);
    tag.touched.store(now_ns(), std::memory_order_release);
    return unit;
  });
}

std::int64_t SparseRows::take_unit(bool tried) {
  Slots& slots = this->slots();
  const SharedLock lock(engine_, slots.lock);
  const std::int64_t rows = slots.rows.load(std::memory_order_relaxed);
  if (most_ > 0 && rows >= most_) {
    if (by_count_) return -1;
    throw MemoryError(
        fmt::format("table \"{}\" holds {} rows on this host, as many as max_rows allows; no row was "
                    "changed",
                    name_, grouped(rows)));
  }
  const std::int64_t used = slots.used.load(std::memory_order_relaxed);
  std::int64_t unit = used;
  if (slots.free != 0) {
    unit = slots.free - 1;
    slots.free = storage_.tag(unit).id.load(std::memory_order_relaxed);
  } else {
    if (used == slots.committed) {
      // Drop rows that are too old before committing more memory.
      if (!tried && max_age_ > 0 && now_ns() - slots.looked_at.load() > max_age_ / 2 && used > 0) return -1;
      commit_more(used);
    }
    slots.used.store(used + 1, std::memory_order_release);
  }
  slots.rows.store(rows + 1, std::memory_order_relaxed);
  return unit;
}

void SparseRows::commit_more(std::int64_t used) {
  const Geometry& g = storage_.shape().geometry;
  const std::int64_t stripes = used / g.stripe_units;
  // Commits a quarter more; if that fails, one stripe.
  for (std::int64_t more = std::max<std::int64_t>(1, stripes / 4);; more = 1) {
    const std::int64_t end = std::min(g.units, (stripes + more) * g.stripe_units);
    try {
      if (end == used) {
        throw MemoryError(fmt::format("its reserved address space of {} rows is full", g.units));
      }
      storage_.commit(used, end);
      slots().committed = end;
      return;
    } catch (const MemoryError& error) {
      if (more > 1) continue;
      throw MemoryError(fmt::format("table \"{}\" has no room for another row beside its {}: {}; no row was changed",
                                    name_, grouped(slots().rows.load()), error.what()));
    }
  }
}

void SparseRows::free_unit(std::int64_t unit) {
  Slots& slots = this->slots();
  const SharedLock lock(engine_, slots.lock);
  storage_.tag(unit).id.store(slots.free, std::memory_order_relaxed);
  slots.free = unit + 1;
  slots.rows.store(slots.rows.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

bool SparseRows::published(std::int64_t unit) const {
  const RowTag& tag = storage_.tag(unit);
  return tag.touched.load(std::memory_order_acquire) != 0 && index_.find(id_of(unit)) == unit;
}

std::int64_t SparseRows::evict(Drop drop) {
  Slots& slots = this->slots();
  const SharedLock lock(engine_, slots.evicting);
  const std::int64_t now = now_ns();
  slots.looked_at.store(now);
  const bool full = by_count_ && slots.rows.load() >= most_;
  const auto wanted = static_cast<std::size_t>(full ? std::max<std::int64_t>(1, most_ / 16) : 0);
  std::vector<std::int64_t> gone;
  std::vector<std::pair<std::int64_t, std::int64_t>> others;
  for (std::int64_t unit = 0; unit < units(); ++unit) {
    const std::int64_t touched = storage_.tag(unit).touched.load(std::memory_order_relaxed);
    if (touched == 0) continue;
    if (max_age_ > 0 && now - touched > max_age_) {
      gone.push_back(unit);
    } else if (full) {
      others.emplace_back(touched, unit);
    }
  }
  if (gone.size() < wanted) {
    const std::size_t more = std::min(wanted - gone.size(), others.size());
    std::ranges::nth_element(others, others.begin() + static_cast<std::ptrdiff_t>(more));
    for (std::size_t i = 0; i < more; ++i) gone.push_back(others[i].second);
  }
  if (full && gone.empty()) {
    throw MemoryError(
        fmt::format("table \"{}\" has no room for another row: ranks that died hold all {} that max_rows "
                    "allows; no row was changed",
                    name_, grouped(most_)));
  }
  for (const std::int64_t unit : gone) {
    index_.erase(id_of(unit), unit);
    drop(unit);
    free_unit(unit);
  }
  return static_cast<std::int64_t>(gone.size());
}

void SparseRows::clear() {
  index_.clear();
  Slots& slots = this->slots();
  const SharedLock lock(engine_, slots.lock);
  for (std::int64_t unit = 0; unit < units(); ++unit) storage_.tag(unit).touched.store(0, std::memory_order_relaxed);
  slots.used.store(0);
  slots.rows.store(0);
  slots.free = 0;
}

}  // namespace pleiad
