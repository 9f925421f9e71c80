#include "table/table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/clones.h"
#include "core/kernels.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/lock.h"
#include "pleiad/error.h"
#include "table/parts.h"

namespace pleiad {

namespace {

// Below this a background thread costs more than it hides.
constexpr std::int64_t kBackgroundBytes = 1 << 20;

// Random rows, and the locks that other cores have held meanwhile, are far away: they are asked for some rows before
// their turn. Inlined, because the compiler takes a function that only fetches for one that does nothing.
template <bool kForWriting>
PLEIAD_INLINE void fetch_ahead(const Storage& storage, std::span<const RowId> ids, std::size_t i, std::int64_t cols) {
  constexpr std::size_t kLocksAhead = 16;
  constexpr std::size_t kRowsAhead = 8;
  const Geometry& geometry = storage.shape().geometry;
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

void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

// A call to a synchronous table by a thread of the caller: one at a time, and after what was started before, unless it
// is only started itself.
class Table::ClockedCall {
 public:
  enum class Way : std::uint8_t { carried_out, started };

  ClockedCall(Table& table, std::string_view call, Way way = Way::carried_out) : context_(*table.context_) {
    context_.engine->take_part();
    if (context_.in_clocked_call.exchange(true)) {
      throw StateError(
          fmt::format("{} another thread of this rank is calling a synchronous table; call them from one thread, or "
                      "use an asynchronous one",
                      table.where(call)));
    }
    context_.ledger.note_caller();
    try {
      if (way == Way::carried_out) context_.clocked.drain();
    } catch (...) {
      context_.in_clocked_call.store(false);
      throw;
    }
  }
  ~ClockedCall() { context_.in_clocked_call.store(false); }
  ClockedCall(const ClockedCall&) = delete;
  ClockedCall& operator=(const ClockedCall&) = delete;

 private:
  TableContext& context_;
};

Table::Table(std::shared_ptr<TableContext> context, std::uint32_t id, TableSpec spec, ConstView initial)
    : context_(std::move(context)),
      engine_(*context_->engine),
      id_(id),
      spec_(std::move(spec)),
      name_(spec_.name(id)),
      geometry_(spec_.matrix ? Geometry::matrix(spec_.rows, spec_.cols, spec_.options.dtype)
                             : Geometry::array(spec_.cols, spec_.options.dtype)),
      updater_(make_updater(spec_.options.updater, spec_.options.dtype)),
      updater_options_(resolve_dialect(spec_.options.updater)),
      rounds_(spec_.options.apply == "round"),
      per_unit_(updater_->state().per_unit > 0),
      width_(static_cast<std::int64_t>(size_of(spec_.options.dtype))) {
  const int workers = std::max<int>(1, static_cast<int>(context_->roster.workers.size()));
  const StateLayout state = updater_->state();
  if (rounds_ && state.per_worker > 0) {
    throw InvalidArgument(
        fmt::format("[create_table] table \"{}\": apply = round sums the workers' adds, so it cannot keep "
                    "state for each worker as rule \"{}\" does",
                    name_, spec_.options.updater.rule));
  }
  const StorageShape shape{.geometry = geometry_,
                           .dtype = spec_.options.dtype,
                           .state = state,
                           .workers = workers,
                           .sums = rounds_ ? (spec_.options.ordered ? workers : 1) : 0};
  storage_.emplace(shape, engine_.share(Storage::bytes(shape), spec_.options.reserve_only));
  if (engine_.rank() == 0) storage_->construct();
  engine_.barrier();
  if (engine_.rank() == spec_.options.init_rank) {
    if (initial.count > 0) {
      copy_bytes(storage_->value(0), initial.data, static_cast<std::size_t>(initial.count * width_));
      storage_->start_states();
    }
  }
  engine_.barrier();
  if (spec_.options.clock == "sync") clock_.emplace(*context_, *storage_, id_, rounds_);
}

TableStats Table::stats() const {
  const auto seconds = [](const std::atomic<std::uint64_t>& ns) { return static_cast<double>(ns.load()) * 1e-9; };
  return {.adds = added_.calls.load(),
          .gets = got_.calls.load(),
          .bytes_added = added_.bytes.load(),
          .bytes_got = got_.bytes.load(),
          .add_seconds = seconds(added_.ns),
          .get_seconds = seconds(got_.ns),
          .wait_seconds = seconds(waited_ns_),
          .torn_stripes = storage_->head().torn.load()};
}

void Table::get(Selection selection, View out) {
  check("get", selection, out);
  const auto at_once = [](FunctionRef<void()> write) { write(); };
  if (!clock_) return run_get(selection, at_once, out.data);
  const ClockedCall call(*this, "get");
  run_get(selection, at_once, out.data);
}

void Table::add(Selection selection, ConstView delta, const AddOptions& options) {
  check_add("add", selection, delta);
  const Rates rates = merge(updater_options_, options);
  if (!clock_) return run_add(selection, delta.data, rates);
  const ClockedCall call(*this, "add");
  run_add(selection, delta.data, rates);
}

Pending Table::get_async(Selection selection, View out) {
  check("get", selection, out);
  const bool at_once = clock_ ? nothing_to_wait_for(Call::get) : out.count * width_ < kBackgroundBytes;
  if (engine_.scheduled() || at_once) {
    get(selection, out);
    return {};
  }
  auto operation = std::make_shared<Operation>(
      context_->engine, 0,
      [this, all = selection.all, ids = std::vector<RowId>(selection.ids.begin(), selection.ids.end()),
       out = out.data](Operation& self) {
        run_get({.all = all, .ids = ids}, [&](FunctionRef<void()> write) { self.write_unless_abandoned(write); }, out);
      });
  submit("get", operation);
  return Pending(std::move(operation));
}

Pending Table::add_async(Selection selection, ConstView delta, const AddOptions& options) {
  check_add("add", selection, delta);
  // Applying is as cheap as copying, so only what has to wait for other workers is put off.
  if (!clock_ || engine_.scheduled() || nothing_to_wait_for(Call::add)) {
    add(selection, delta, options);
    return {};
  }
  const auto* first = static_cast<const char*>(delta.data);
  auto operation = std::make_shared<Operation>(
      context_->engine, static_cast<std::size_t>(delta.count * width_),
      [this, all = selection.all, ids = std::vector<RowId>(selection.ids.begin(), selection.ids.end()),
       rates = merge(updater_options_, options), copy = std::vector<char>(first, first + delta.count * width_)](
          Operation&) { run_add({.all = all, .ids = ids}, copy.data(), rates); });
  submit("add", operation);
  return Pending(std::move(operation));
}

bool Table::nothing_to_wait_for(Call call) const { return context_->clocked.empty() && clock_->ready(call); }

void Table::submit(std::string_view call, const std::shared_ptr<Operation>& operation) {
  if (!clock_) return context_->background.submit(operation);
  const ClockedCall started(*this, call, ClockedCall::Way::started);
  context_->clocked.submit(operation);
}

// Counts one call. Reading the clock twice costs as much as moving a kilobyte, so of small calls, but for the first
// ones, the last of every kSample is timed and stands for all of them.
class Table::Timed {
 public:
  Timed(Counters& counters, std::atomic<std::uint64_t>& of_rank, std::int64_t bytes) : counters_(counters) {
    const std::uint64_t call = counters_.calls.fetch_add(1, std::memory_order_relaxed);
    add_relaxed(counters_.bytes, static_cast<std::uint64_t>(bytes));
    // For reports only: a count lost between two threads does no harm.
    of_rank.store(of_rank.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    weight_ = bytes >= kSmall || call < kSample ? 1 : call % kSample == kSample - 1 ? kSample : 0;
    if (weight_ > 0) start_ = now_ns();
  }
  ~Timed() {
    if (weight_ > 0) add_relaxed(counters_.ns, weight_ * static_cast<std::uint64_t>(now_ns() - start_));
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  static constexpr std::int64_t kSmall = 32 * 1024;
  static constexpr std::uint64_t kSample = 16;

  Counters& counters_;
  std::uint64_t weight_;
  std::int64_t start_ = 0;
};

std::int64_t Table::bytes_of(Selection selection) const {
  return (selection.all ? geometry_.elements : static_cast<std::int64_t>(selection.ids.size()) * spec_.cols) * width_;
}

void Table::carry_out(Call call, std::int64_t bytes, FunctionRef<void()> work) {
  const bool adds = call == Call::add;
  const Timed timed(adds ? added_ : got_, adds ? engine_.self().adds : engine_.self().gets, bytes);
  const CallMark mark(engine_, call, id_);
  if (clock_) add_relaxed(waited_ns_, static_cast<std::uint64_t>(clock_->begin(call)));
  work();
  if (clock_) clock_->end(call);
}

void Table::run_get(Selection selection, FunctionRef<void(FunctionRef<void()>)> guard, void* out) {
  carry_out(Call::get, bytes_of(selection), [&] { guard([&] { copy_out(selection, static_cast<char*>(out)); }); });
}

void Table::run_add(Selection selection, const void* delta, const Rates& rates) {
  carry_out(Call::add, bytes_of(selection), [&] { change(selection, static_cast<const char*>(delta), rates); });
}

void Table::add_get(ConstView delta, View out, const AddOptions& options) {
  check("add_get", {}, out);
  check_add("add_get", {}, delta);
  const ArrayPart whole{.at = 0, .delta = delta};
  add_parts({&whole, 1}, out, options);
}

// Memory for the delta of one stripe.
std::unique_ptr<double[]> Table::room_for_stripe() const {
  const std::int64_t longest = std::min(geometry_.elements, geometry_.unit_length * geometry_.stripe_units);
  return std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(longest * width_ + 7) / 8);
}

void Table::add_parts(std::span<const ArrayPart> delta, View out, const AddOptions& options) {
  check_parts("add_parts", delta);
  if (out.data != nullptr) check("add_parts", {}, out);
  const Rates rates = merge(updater_options_, options);
  const Parts parts(delta, width_);
  const auto gathered = room_for_stripe();
  run_both(
      "add_parts", rates,
      [&](std::int64_t at, std::size_t count) {
        const char* found = parts.in_place(at, static_cast<std::int64_t>(count));
        if (found != nullptr) return found;
        parts.copy(reinterpret_cast<char*>(gathered.get()), at, static_cast<std::int64_t>(count));
        return reinterpret_cast<const char*>(gathered.get());
      },
      [&](std::int64_t at, std::size_t count) {
        if (out.data == nullptr) return;
        copy_bytes(static_cast<char*>(out.data) + at * width_, storage_->value(at),
                   count * static_cast<std::size_t>(width_));
      },
      out.data != nullptr);
}

void Table::step(std::span<const ArrayPart> delta, const AddOptions& options) {
  check_parts("step", delta);
  if (clock_) throw StateError(fmt::format("{} is for asynchronous tables; this one is synchronous", where("step")));
  if (!engine_.one_host()) throw StateError(fmt::format("{} the world has several hosts", where("step")));
  if (updater_->state().per_worker > 0) {
    throw StateError(fmt::format("{} rule \"{}\" keeps state for each worker, which has no place in their sum",
                                 where("step"), spec_.options.updater.rule));
  }
  const Rates rates = merge(updater_options_, options);
  const double numbers[4] = {rates.learning_rate, rates.momentum, rates.rho, rates.lambda};
  const auto agreed = static_cast<std::uint32_t>(
      std::hash<std::string_view>()({reinterpret_cast<const char*>(numbers), sizeof numbers}) ^ id_);
  const Parts parts(delta, width_);
  const auto element = [&](std::size_t byte) { return static_cast<std::int64_t>(byte) / width_; };
  const Timed timed(added_, engine_.self().adds, bytes_of({}));
  engine_.reduce_units(
      spec_.options.dtype, static_cast<std::size_t>(bytes_of({})), kStripeBytes, agreed,
      [&](char* to, std::size_t at, std::size_t n) { parts.copy(to, element(at), element(n)); },
      [&](std::size_t at, const char* sum, std::size_t) {
        with_stripe(Point::add, static_cast<std::int64_t>(at) / kStripeBytes, [&](std::int64_t stripe) {
          change_units(storage_->stripe(stripe), stripe, stripe + 1, sum, rates);
        });
      });
}

void Table::exchange(View values, View last, const AddOptions& options) {
  check_add("exchange", {}, values);
  check("exchange", {}, last);
  auto* mine = static_cast<char*>(values.data);
  auto* before = static_cast<char*>(last.data);
  if (mine < before + last.count * width_ && before < mine + values.count * width_) {
    throw InvalidArgument(fmt::format("{} values and last overlap; they must be two buffers", where("exchange")));
  }
  const Rates rates = merge(updater_options_, options);
  const auto difference = room_for_stripe();
  run_both(
      "exchange", rates,
      [&](std::int64_t at, std::size_t count) {
        subtract(spec_.options.dtype, difference.get(), mine + at * width_, before + at * width_, count);
        return reinterpret_cast<const char*>(difference.get());
      },
      [&](std::int64_t at, std::size_t count) {
        const std::size_t bytes = count * static_cast<std::size_t>(width_);
        copy_bytes(mine + at * width_, storage_->value(at), bytes);
        copy_bytes(before + at * width_, storage_->value(at), bytes);
      });
}

// An add of delta_of(first element, count) and a get by take(first element, count), stripe after stripe: in one pass,
// while the stripe is in the cache and its lock is held, where no clock stands between the two.
template <class Delta, class Take>
void Table::run_both(std::string_view name, const Rates& rates, Delta&& delta_of, Take&& take, bool gets) {
  const std::int64_t bytes = bytes_of({});
  const auto elements = [&](std::int64_t index, auto&& work) {
    const std::int64_t at = geometry_.start(geometry_.first_unit(index));
    return work(at, static_cast<std::size_t>(geometry_.start(geometry_.end_unit(index)) - at));
  };
  const auto put = [&](std::int64_t index) {
    change_units(storage_->stripe(index), geometry_.first_unit(index), geometry_.end_unit(index),
                 elements(index, delta_of), rates);
  };
  if (!clock_) {
    carry_out(Call::add, bytes, [&] {
      each_stripe(Point::add, [&](std::int64_t index) {
        put(index);
        elements(index, take);
      });
    });
    if (gets) carry_out(Call::get, bytes, [] {});  // its time is in the add's
    return;
  }
  const ClockedCall call(*this, name);
  carry_out(Call::add, bytes, [&] { each_stripe(Point::add, put); });
  if (!gets) return;
  carry_out(Call::get, bytes, [&] {
    each_stripe(Point::get, [&](std::int64_t index) {
      if (rounds_) settle(index);
      elements(index, take);
    });
  });
}

void Table::set(ConstView values, int root) {
  if (root < 0 || root >= engine_.size()) {
    throw InvalidArgument(
        fmt::format("{} root {} is not a rank; the world has {}", where("set"), root, engine_.size()));
  }
  engine_.check_usable(spec_.matrix ? "MatrixTable" : "ArrayTable");
  if (engine_.rank() == root) check_add("set", {}, values);
  context_->background.drain();
  context_->clocked.drain();
  engine_.barrier();
  if (engine_.rank() == root) {
    each_stripe(Point::add, [&](std::int64_t index) {
      if (rounds_) settle(index);
      const Change change(storage_->stripe(index));
      const std::int64_t begin = geometry_.start(geometry_.first_unit(index));
      const std::int64_t end = geometry_.start(geometry_.end_unit(index));
      copy_bytes(storage_->value(begin), static_cast<const char*>(values.data) + begin * width_,
                 static_cast<std::size_t>((end - begin) * width_));
    });
    storage_->start_states();
  }
  engine_.barrier();
}

View Table::map() {
  engine_.check_usable("ArrayTable");
  const std::size_t workers = context_->roster.workers.size();
  if (workers > 1 && clock_) {
    throw StateError(
        fmt::format("{} a synchronous table of {} workers is read by get; an asynchronous one can be mapped",
                    where("map"), workers));
  }
  if (!engine_.one_host()) throw StateError(fmt::format("{} the world has several hosts", where("map")));
  if (rounds_) {
    throw StateError(
        fmt::format("{} apply = round keeps adds beside the values until a get; use apply = each", where("map")));
  }
  return {storage_->value(0), geometry_.elements, spec_.options.dtype};
}

template <class F>
void Table::with_stripe(Point point, std::int64_t index, F&& work) {
  Stripe& stripe = storage_->stripe(index);
  const SharedLock lock(engine_, stripe.lock, point);
  if (lock.taken_over()) {
    storage_->head().torn.fetch_add(1);
    stripe.version.store((stripe.version.load(std::memory_order_relaxed) + 1) / 2 * 2, std::memory_order_release);
    if (clock_) storage_->head().torn_by.store(lock.taken_from() + 1);
  }
  if (clock_) check_whole();
  engine_.at(point);
  work(index);
}

template <class F>
void Table::each_stripe(Point point, F&& work) {
  const std::int64_t stripes = geometry_.stripes();
  const std::int64_t first = stripes * engine_.place(engine_.rank()).local / engine_.local_ranks();
  for (std::int64_t i = first; i < stripes; ++i) with_stripe(point, i, work);
  for (std::int64_t i = 0; i < first; ++i) with_stripe(point, i, work);
}

void Table::copy_out(Selection selection, char* out) {
  if (selection.all) {
    each_stripe(Point::get, [&](std::int64_t index) {
      if (rounds_) settle(index);
      const std::int64_t begin = geometry_.start(geometry_.first_unit(index));
      const std::int64_t end = geometry_.start(geometry_.end_unit(index));
      copy_bytes(out + begin * width_, storage_->value(begin), static_cast<std::size_t>((end - begin) * width_));
    });
    return;
  }
  const std::int64_t row_bytes = spec_.cols * width_;
  const auto& ids = selection.ids;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fetch_ahead<false>(*storage_, ids, i, spec_.cols);
    const auto copy = [&] {
      copy_bytes(out + static_cast<std::int64_t>(i) * row_bytes, storage_->value(ids[i] * spec_.cols),
                 static_cast<std::size_t>(row_bytes));
    };
    const std::int64_t stripe = geometry_.stripe_of(ids[i]);
    if (!rounds_ && !engine_.scheduled() && read_unlocked(storage_->stripe(stripe), copy)) continue;
    with_stripe(Point::get, stripe, [&](std::int64_t index) {
      if (rounds_) settle(index);
      copy();
    });
  }
}

void Table::change(Selection selection, const char* delta, const Rates& rates) {
  if (selection.all) return change_all(delta, rates);
  change_rows(selection.ids, delta, rates);
}

void Table::change_all(const char* delta, const Rates& rates) {
  each_stripe(Point::add, [&](std::int64_t index) {
    const std::int64_t first = geometry_.first_unit(index);
    change_units(storage_->stripe(index), first, geometry_.end_unit(index), delta + geometry_.start(first) * width_,
                 rates);
  });
}

void Table::change_rows(std::span<const RowId> ids, const char* delta, const Rates& rates) {
  // One after another gives the same as the sum first where the rule only adds, and where the sum is put off anyway.
  if (rounds_ || updater_->additive() || ids.size() < 2) return change_distinct_rows(ids, delta, rates);
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ids[i]; });
  const auto same = [&](std::size_t a, std::size_t b) { return ids[a] == ids[b]; };
  if (std::ranges::adjacent_find(order, same) == order.end()) return change_distinct_rows(ids, delta, rates);
  const std::int64_t row_bytes = spec_.cols * width_;
  std::vector<RowId> distinct;
  std::vector<char> sums;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const char* row = delta + static_cast<std::int64_t>(order[k]) * row_bytes;
    if (k > 0 && same(order[k], order[k - 1])) {
      add_to(spec_.options.dtype, sums.data() + sums.size() - row_bytes, row, static_cast<std::size_t>(spec_.cols));
    } else {
      distinct.push_back(ids[order[k]]);
      sums.insert(sums.end(), row, row + row_bytes);
    }
  }
  change_distinct_rows(distinct, sums.data(), rates);
}

void Table::change_distinct_rows(std::span<const RowId> ids, const char* delta, const Rates& rates) {
  const std::int64_t row_bytes = spec_.cols * width_;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fetch_ahead<true>(*storage_, ids, i, spec_.cols);
    with_stripe(Point::add, geometry_.stripe_of(ids[i]), [&](std::int64_t index) {
      change_units(storage_->stripe(index), ids[i], ids[i] + 1, delta + static_cast<std::int64_t>(i) * row_bytes,
                   rates);
    });
  }
}

void Table::change_units(Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates) {
  if (rounds_) return put_off(stripe, first, end, delta, rates);
  const Change change(stripe);
  if (!per_unit_) return apply(context_->roster.worker, first, end, delta, rates);
  for (std::int64_t unit = first; unit < end; ++unit) {
    apply(context_->roster.worker, unit, unit + 1, delta + (geometry_.start(unit) - geometry_.start(first)) * width_,
          rates);
  }
}

void Table::apply(int worker, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates) {
  const auto run = [&]<class T>(const T* typed) {
    updater_->apply(storage_->update<T>(std::max(worker, 0), first, end, typed, rates));
  };
  switch (spec_.options.dtype) {
    case DType::float32: return run(reinterpret_cast<const float*>(delta));
    case DType::float64: return run(reinterpret_cast<const double*>(delta));
    case DType::int32: return run(reinterpret_cast<const std::int32_t*>(delta));
    case DType::int64: return run(reinterpret_cast<const std::int64_t*>(delta));
  }
}

// The stripe's lock is held. A sum of the round before is complete by now, or the clock would not have let this add
// start.
void Table::put_off(Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates) {
  const std::uint64_t round = clock_->round();
  if (stripe.round != round) {
    settle(geometry_.stripe_of(first));
    stripe.round = round;
  }
  const auto me = static_cast<std::uint32_t>(context_->roster.worker) + 1;
  if (stripe.pending == 0 || me < stripe.pending) {
    stripe.pending = me;
    stripe.rates = rates;
  }
  const int slot = spec_.options.ordered ? context_->roster.worker : 0;
  for (std::int64_t unit = first; unit < end; ++unit) {
    const std::int64_t element = geometry_.start(unit);
    const auto count = static_cast<std::size_t>(geometry_.start(unit + 1) - element);
    const char* from = delta + (element - geometry_.start(first)) * width_;
    std::uint8_t& dirty = storage_->dirty(slot, unit);
    if (dirty != 0) {
      add_to(spec_.options.dtype, storage_->sum(slot, element), from, count);
    } else {
      copy_bytes(storage_->sum(slot, element), from, count * static_cast<std::size_t>(width_));
      dirty = 1;
    }
  }
}

// The stripe's lock is held and its round is complete: the rule sees the sums of the workers, once for each unit.
void Table::settle(std::int64_t index) {
  Stripe& stripe = storage_->stripe(index);
  if (stripe.pending == 0) return;
  const int slots = storage_->shape().sums;
  for (std::int64_t unit = geometry_.first_unit(index); unit < geometry_.end_unit(index); ++unit) {
    const std::int64_t element = geometry_.start(unit);
    const auto count = static_cast<std::size_t>(geometry_.start(unit + 1) - element);
    char* sum = nullptr;
    for (int slot = 0; slot < slots; ++slot) {
      std::uint8_t& dirty = storage_->dirty(slot, unit);
      if (dirty == 0) continue;
      dirty = 0;
      if (sum == nullptr) {
        sum = storage_->sum(slot, element);
      } else {
        add_to(spec_.options.dtype, sum, storage_->sum(slot, element), count);
      }
    }
    if (sum == nullptr) continue;
    engine_.at(Point::settle);
    apply(0, unit, unit + 1, sum, stripe.rates);
  }
  stripe.pending = 0;
}

}  // namespace pleiad
