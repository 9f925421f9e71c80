#include "table/shard.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/clones.h"
#include "core/kernels.h"
#include "core/process.h"
#include "engine/lock.h"
#include "pleiad/error.h"
#include "table/rows.h"

namespace pleiad {

namespace {

constexpr std::size_t kBlock = 256;  // number of rows of a sparse table that are looked up together

// Random rows, and locks that other cores have used since, are not in the cache, so they are prefetched some rows
// ahead. Inlined, because the compiler treats a function that only prefetches as one without effect.
template <bool kForWriting>
PLEIAD_INLINE void fetch_ahead(const Storage& storage, std::span<const RowId> ids, std::size_t i, std::int64_t cols) {
  constexpr std::size_t kLocksAhead = 16;
  constexpr std::size_t kRowsAhead = 8;
  const Geometry& geometry = storage.shape().geometry;
  // A missing row of a sparse table has the unit -1: prefetching memory before the start does no harm.
  if (i + kLocksAhead < ids.size()) {
    __builtin_prefetch(&storage.stripe(geometry.stripe_of(ids[i + kLocksAhead])), kForWriting ? 1 : 0);
  }
  if (i + kRowsAhead < ids.size()) {
    const char* row = storage.value(ids[i + kRowsAhead] * cols);
    const std::int64_t last = std::min<std::int64_t>(cols * storage.width(), 512) - 1;
    for (std::int64_t byte = 0; byte < last; byte += 64) __builtin_prefetch(row + byte, kForWriting ? 1 : 0);
    __builtin_prefetch(row + last, kForWriting ? 1 : 0);
  }
}

Geometry dense_geometry(const TableSpec& spec, ShardRange range) {
  return spec.matrix ? Geometry::matrix(range.end - range.begin, spec.cols, spec.options.dtype)
                     : Geometry::array(range.end - range.begin, spec.options.dtype);
}

Storage make_storage(Engine& engine, const TableSpec& spec, const std::string& name, ShardRange range,
                     const Updater& updater, int workers) {
  const StateLayout state = updater.state();
  const bool rounds = spec.options.apply == "round";
  if (rounds && state.per_worker > 0) {
    throw InvalidArgument(
        fmt::format("[create_table] table \"{}\": apply = round sums the workers' adds, so it cannot keep "
                    "state for each worker as rule \"{}\" does",
                    name, spec.options.updater.rule));
  }
  StorageShape shape{.geometry = dense_geometry(spec, range),
                     .dtype = spec.options.dtype,
                     .state = state,
                     .workers = workers,
                     .sums = rounds ? (spec.options.ordered ? workers : 1) : 0,
                     .stamps = spec.options.track_changes,
                     .tags = spec.sparse};
  if (spec.sparse) shape.geometry = reserve_rows(spec, shape, range.end);
  return {shape, engine.segments().share(Storage::bytes(shape), spec.options.reserve_only || spec.sparse)};
}

}  // namespace

Shard::Shard(Engine& engine, const TableSpec& spec, std::string name, int workers, ShardRange range)
    : engine_(engine),
      name_(std::move(name)),
      updater_(make_updater(spec.options.updater, spec.options.dtype)),
      clocked_(spec.options.clock == "sync"),
      rounds_(spec.options.apply == "round"),
      ordered_(spec.options.ordered),
      backup_(spec.options.backup > 0),
      per_unit_(updater_->state().per_unit > 0),
      storage_(make_storage(engine_, spec, name_, range, *updater_, workers)),
      geometry_(storage_.shape().geometry),
      dtype_(spec.options.dtype),
      width_(storage_.width()),
      cols_(spec.cols) {
  if (engine_.world().makes_segments()) storage_.construct();
  if (spec.sparse) rows_of_ = std::make_unique<SparseRows>(engine_, spec, name_, storage_, range.end);
}

void Shard::set(std::int64_t first, const void* values, std::size_t count) {
  copy_bytes(storage_.value(first), values, count * static_cast<std::size_t>(width_));
}

void Shard::close_rounds(std::uint64_t closed) const {
  std::atomic<std::uint64_t>& known = storage_.head().closed_rounds;
  std::uint64_t before = known.load();
  while (before < closed && !known.compare_exchange_weak(before, closed)) {
  }
}

void Shard::start() { storage_.start_states(); }

template <class F>
void Shard::with_stripe(Point point, std::int64_t index, F&& work) {
  Stripe& stripe = storage_.stripe(index);
  const SharedLock lock(engine_, stripe.lock, point);
  if (lock.taken_over()) {
    storage_.head().torn.fetch_add(1);
    stripe.version.store((stripe.version.load(std::memory_order_relaxed) + 1) / 2 * 2, std::memory_order_release);
    storage_.note_changes(index);
    if (clocked_) storage_.head().torn_by.store(lock.taken_from() + 1);
  }
  if (clocked_) check_not_torn();
  engine_.hooks().at(point);
  work(index);
}

template <class F>
void Shard::each_stripe(Point point, StripeRange stripes, F&& work) {
  const std::int64_t count = stripes.end - stripes.first;
  const std::int64_t start = stripes.first + count * engine_.world().here().local / engine_.world().local_ranks();
  for (std::int64_t i = start; i < stripes.end; ++i) with_stripe(point, i, work);
  for (std::int64_t i = stripes.first; i < start; ++i) with_stripe(point, i, work);
}

void Shard::add(const Requester& requester, StripeRange stripes, const Rates& rates, DeltaOf delta_of,
                std::span<const ElementRange> kept) {
  each_stripe(Point::add, stripes, [&](std::int64_t index) { change_stripe(requester, index, rates, delta_of, kept); });
}

void Shard::get(StripeRange stripes, Take take) {
  each_stripe(Point::get, stripes, [&](std::int64_t index) { take_stripe(index, take); });
}

void Shard::visit(StripeRange stripes, FunctionRef<void(std::int64_t stripe)> look) {
  each_stripe(Point::get, stripes, [&](std::int64_t index) {
    if (rounds_) apply_round(index);
    look(index);
  });
}

void Shard::add_get(const Requester& requester, StripeRange stripes, const Rates& rates, DeltaOf delta_of, Take take,
                    std::span<const ElementRange> kept) {
  each_stripe(Point::add, stripes, [&](std::int64_t index) {
    change_stripe(requester, index, rates, delta_of, kept);
    take_stripe(index, take);
  });
}

void Shard::change_stripe(const Requester& requester, std::int64_t index, const Rates& rates, DeltaOf delta_of,
                          std::span<const ElementRange> kept) {
  const std::int64_t first = geometry_.first_unit(index);
  const std::int64_t end = geometry_.end_unit(index);
  const std::int64_t element = geometry_.start(first);
  change_units(requester, storage_.stripe(index), first, end,
               delta_of(element, static_cast<std::size_t>(geometry_.start(end) - element)), rates, kept);
}

void Shard::take_stripe(std::int64_t index, Take take) {
  if (rounds_) apply_round(index);
  const std::int64_t first = geometry_.start(geometry_.first_unit(index));
  take(storage_.value(first), first, static_cast<std::size_t>(geometry_.start(geometry_.end_unit(index)) - first));
}

// A stripe that a dead rank has changed in part stays so for the whole step. No worker may use it as the sum of the
// workers.
void Shard::check_not_torn() const {
  const int torn_by = storage_.head().torn_by.load(std::memory_order_relaxed) - 1;
  if (torn_by < 0) return;
  throw TransportError(
      fmt::format("[rank {}] table \"{}\": {} died during a call; a synchronous table accepts no calls after that",
                  engine_.world().rank(), name_, engine_.members().describe(torn_by)));
}

template <class Holds>
PLEIAD_INLINE bool Shard::read_unit(std::int64_t unit, char* out, Holds&& holds) {
  bool held = false;
  const auto copy = [&] {
    held = holds();
    if (held) copy_bytes(out, storage_.value(unit * cols_), static_cast<std::size_t>(cols_ * width_));
  };
  const std::int64_t stripe = geometry_.stripe_of(unit);
  if (!rounds_ && !engine_.hooks().scheduled() && read_unlocked(storage_.stripe(stripe), copy)) return held;
  with_stripe(Point::get, stripe, [&](std::int64_t index) {
    if (rounds_) apply_round(index);
    copy();
  });
  return held;
}

void Shard::get_rows(std::span<const RowId> ids, char* out) {
  if (rows_of_ != nullptr) return get_sparse_rows(ids, out);
  const std::int64_t row_bytes = cols_ * width_;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fetch_ahead<false>(storage_, ids, i, cols_);
    (void)read_unit(ids[i], out + static_cast<std::int64_t>(i) * row_bytes, [] { return true; });
  }
}

void Shard::get_sparse_rows(std::span<const RowId> ids, char* out) {
  const std::int64_t row_bytes = cols_ * width_;
  const SparseRows& rows = *rows_of_;
  std::array<std::int64_t, kBlock> found;
  for (std::size_t first = 0; first < ids.size(); first += kBlock) {
    const auto block = ids.subspan(first, std::min(kBlock, ids.size() - first));
    const std::span units(found.data(), block.size());
    rows.find(block, units);
    for (std::size_t i = 0; i < block.size(); ++i) {
      fetch_ahead<false>(storage_, units, i, cols_);
      char* to = out + static_cast<std::int64_t>(first + i) * row_bytes;
      std::int64_t unit = units[i];
      // A row that was dropped in the meantime may have been created again in another unit.
      while (unit >= 0 && !read_unit(unit, to, [&] { return !rows.evicts() || rows.holds(unit, block[i]); })) {
        unit = rows.find(block[i]);
      }
      if (unit < 0) rows.fill(block[i], to);
    }
  }
}

std::int64_t Shard::unit_for(RowId id) {
  for (bool tried = false;; tried = true) {
    const std::int64_t unit = rows_of_->find_or_make(id, tried);
    if (unit >= 0) return unit;
    evict();
  }
}

void Shard::put_row(RowId id, const void* values) {
  const std::int64_t unit = unit_for(id);
  with_stripe(Point::add, geometry_.stripe_of(unit), [&](std::int64_t index) {
    const Change change(storage_.stripe(index));
    storage_.note_change(storage_.stripe(index), unit);
    copy_bytes(storage_.value(geometry_.start(unit)), values, static_cast<std::size_t>(cols_ * width_));
    storage_.start_states(unit);
  });
}

std::int64_t Shard::evict() {
  return rows_of_->evict([&](std::int64_t unit) {
    with_stripe(Point::add, geometry_.stripe_of(unit), [&](std::int64_t index) {
      const Change change(storage_.stripe(index));
      rows_of_->touch(unit, 0);
    });
  });
}

StripeRange Shard::in_use() const {
  if (rows_of_ == nullptr) return all();
  return {0, (rows_of_->units() + geometry_.stripe_units - 1) / geometry_.stripe_units};
}

void Shard::take_changed(StripeRange stripes, std::span<std::uint64_t> seen,
                         FunctionRef<void(RowId id, const char* row)> take) {
  for (std::int64_t index = stripes.first; index < stripes.end; ++index) {
    Stripe& stripe = storage_.stripe(index);
    std::uint64_t& before = seen[static_cast<std::size_t>(index - stripes.first)];
    // The entry is the change count plus one, so that 0 can mean "never read". A change in progress counts for the next
    // call.
    if (!rounds_ && before != 0 && stripe.changes.load(std::memory_order_relaxed) + 1 == before) continue;
    with_stripe(Point::get, index, [&](std::int64_t) {
      if (rounds_) apply_round(index);
      const std::int64_t end =
          rows_of_ == nullptr ? geometry_.end_unit(index) : std::min(geometry_.end_unit(index), rows_of_->units());
      for (std::int64_t unit = geometry_.first_unit(index); unit < end; ++unit) {
        if (before != 0 && storage_.last_change(unit) < before) continue;
        if (rows_of_ != nullptr && !rows_of_->published(unit)) continue;
        take(rows_of_ == nullptr ? unit : rows_of_->id_of(unit), storage_.value(geometry_.start(unit)));
      }
      before = stripe.changes.load(std::memory_order_relaxed) + 1;
    });
  }
}

void Shard::add_rows(const Requester& requester, std::span<const RowId> ids, const char* delta, const Rates& rates) {
  // If the rule only adds, or the sum is delayed anyway, adding one after another gives the same as summing first.
  if (rounds_ || updater_->additive()) return change_distinct_rows(requester, ids, delta, rates);
  const auto summed = sum_duplicates(dtype_, cols_, ids, delta);
  if (!summed) return change_distinct_rows(requester, ids, delta, rates);
  change_distinct_rows(requester, summed->ids, summed->delta.data(), rates);
}

void Shard::change_distinct_rows(const Requester& requester, std::span<const RowId> ids, const char* delta,
                                 const Rates& rates) {
  if (rows_of_ != nullptr) return change_sparse_rows(requester, ids, delta, rates);
  const std::int64_t row_bytes = cols_ * width_;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fetch_ahead<true>(storage_, ids, i, cols_);
    with_stripe(Point::add, geometry_.stripe_of(ids[i]), [&](std::int64_t index) {
      change_units(requester, storage_.stripe(index), ids[i], ids[i] + 1,
                   delta + static_cast<std::int64_t>(i) * row_bytes, rates);
    });
  }
}

void Shard::change_sparse_rows(const Requester& requester, std::span<const RowId> ids, const char* delta,
                               const Rates& rates) {
  const std::int64_t row_bytes = cols_ * width_;
  SparseRows& rows = *rows_of_;
  // All rows are found or created before the first is changed: if there is no room for one, nothing has changed.
  std::vector<std::int64_t> units(ids.size());
  rows.find(ids, units);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (units[i] < 0) units[i] = unit_for(ids[i]);
  }
  const std::int64_t now = rows.evicts() ? now_ns() : 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fetch_ahead<true>(storage_, units, i, cols_);
    for (bool changed = false; !changed;) {
      with_stripe(Point::add, geometry_.stripe_of(units[i]), [&](std::int64_t index) {
        if (rows.evicts() && !rows.holds(units[i], ids[i])) return;
        changed = true;
        change_units(requester, storage_.stripe(index), units[i], units[i] + 1,
                     delta + static_cast<std::int64_t>(i) * row_bytes, rates);
        if (rows.evicts()) rows.touch(units[i], now);
      });
      if (!changed) units[i] = unit_for(ids[i]);
    }
  }
}

void Shard::change_units(const Requester& requester, Stripe& stripe, std::int64_t first, std::int64_t end,
                         const char* delta, const Rates& rates, std::span<const ElementRange> kept) {
  if (rounds_) return accumulate(requester, stripe, first, end, delta, rates);
  const Change change(stripe);
  if (storage_.shape().stamps) {
    const std::int64_t index = geometry_.stripe_of(first);
    if (first == geometry_.first_unit(index) && end == geometry_.end_unit(index)) {
      storage_.note_changes(index);
    } else {
      for (std::int64_t unit = first; unit < end; ++unit) storage_.note_change(stripe, unit);
    }
  }
  const std::int64_t begin = geometry_.start(first);
  if (!per_unit_ && kept.empty()) {
    return apply(requester.worker, first, begin, geometry_.start(end), delta, rates);
  }
  for (std::int64_t unit = first; unit < end; ++unit) {
    const char* from = delta + (geometry_.start(unit) - begin) * width_;
    if (kept.empty()) {
      apply(requester.worker, unit, geometry_.start(unit), geometry_.start(unit + 1), from, rates);
    } else {
      apply_between(requester.worker, unit, from, rates, kept);
    }
  }
}

void Shard::apply_between(int worker, std::int64_t unit, const char* delta, const Rates& rates,
                          std::span<const ElementRange> kept) {
  const std::int64_t first = geometry_.start(unit);
  const std::int64_t end = geometry_.start(unit + 1);
  // A rule that counts its updates of the unit must count this one only once.
  const std::vector<double> before(storage_.unit(unit), storage_.unit(unit) + storage_.shape().state.per_unit);
  std::int64_t at = first;
  const auto apply_to = [&](std::int64_t until) {
    if (until <= at) return;
    std::ranges::copy(before, storage_.unit(unit));
    apply(worker, unit, at, until, delta + (at - first) * width_, rates);
  };
  auto range = std::ranges::upper_bound(kept, first, {}, &ElementRange::end);
  for (; range != kept.end() && range->begin < end; ++range) {
    apply_to(range->begin);
    at = range->end;
  }
  apply_to(end);
}

void Shard::apply(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const char* delta,
                  const Rates& rates) {
  const auto run = [&]<class T>(const T* typed) {
    try {
      updater_->apply(storage_.update<T>(worker, unit, begin, end, typed, rates));
    } catch (const RuleError& error) {
      fail_rule(error);
    }
  };
  switch (dtype_) {
    case DType::float32: return run(reinterpret_cast<const float*>(delta));
    case DType::float64: return run(reinterpret_cast<const double*>(delta));
    case DType::int32: return run(reinterpret_cast<const std::int32_t*>(delta));
    case DType::int64: return run(reinterpret_cast<const std::int64_t*>(delta));
  }
}

// Workers of a synchronous table rely on equal values, so a failing rule concerns all of them.
void Shard::fail_rule(const RuleError& error) const {
  const std::string text = fmt::format("[{}] table \"{}\": {}; the call may have taken effect in part",
                                       engine_.members().describe(engine_.world().rank()), name_, error.what());
  if (clocked_) (void)engine_.order_failure().record(text);
  throw RuleError(text);
}

// Requires the stripe's lock. A sum of the previous round is complete by now, or the clock would not have let this add
// start.
void Shard::accumulate(const Requester& requester, Stripe& stripe, std::int64_t first, std::int64_t end,
                       const char* delta, const Rates& rates) {
  if (stripe.round != requester.round) {
    apply_round(geometry_.stripe_of(first));
    stripe.round = requester.round;
  }
  const auto me = static_cast<std::uint32_t>(requester.worker) + 1;
  if (stripe.pending == 0 || me < stripe.pending) {
    stripe.pending = me;
    stripe.rates = rates;
  }
  const int slot = ordered_ ? requester.worker : 0;
  for (std::int64_t unit = first; unit < end; ++unit) {
    const std::int64_t element = geometry_.start(unit);
    const auto count = static_cast<std::size_t>(geometry_.start(unit + 1) - element);
    const char* from = delta + (element - geometry_.start(first)) * width_;
    std::uint8_t& dirty = storage_.dirty(slot, unit);
    if (dirty != 0) {
      add_to(dtype_, storage_.sum(slot, element), from, count);
    } else {
      copy_bytes(storage_.sum(slot, element), from, count * static_cast<std::size_t>(width_));
      dirty = 1;
    }
  }
}

// Requires the stripe's lock and a complete round, except with backup workers, where a fast worker may have begun the
// next round. Applies the rule to the sums of the workers, once for each unit.
void Shard::apply_round(std::int64_t index) {
  Stripe& stripe = storage_.stripe(index);
  if (stripe.pending == 0) return;
  if (backup_ && stripe.round > storage_.head().closed_rounds.load()) return;
  const int slots = storage_.shape().sums;
  for (std::int64_t unit = geometry_.first_unit(index); unit < geometry_.end_unit(index); ++unit) {
    const std::int64_t element = geometry_.start(unit);
    const auto count = static_cast<std::size_t>(geometry_.start(unit + 1) - element);
    char* sum = nullptr;
    for (int slot = 0; slot < slots; ++slot) {
      std::uint8_t& dirty = storage_.dirty(slot, unit);
      if (dirty == 0) continue;
      dirty = 0;
      if (sum == nullptr) {
        sum = storage_.sum(slot, element);
      } else {
        add_to(dtype_, sum, storage_.sum(slot, element), count);
      }
    }
    if (sum == nullptr) continue;
    engine_.hooks().at(Point::settle);
    storage_.note_change(stripe, unit);
    apply(0, unit, element, geometry_.start(unit + 1), sum, stripe.rates);
  }
  stripe.pending = 0;
}

}  // namespace pleiad
