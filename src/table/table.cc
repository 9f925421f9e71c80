#include "table/table.h"
#include "engine/rpc_transport.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/problem.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/rpc_transport.h"
#include "engine/run_collectively.h"
#include "pleiad/error.h"
#include "table/backup_clock.h"
#include "table/clocked_call.h"
#include "table/home_clock.h"
#include "table/scattered_delta.h"

namespace pleiad {

namespace {

// Below this size, a background thread costs more than it hides.
constexpr std::int64_t kBackgroundBytes = 1 << 20;

void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

Table::Table(std::shared_ptr<TableContext> context, std::uint32_t id, TableSpec spec, ConstView initial)
    : context_(std::move(context)),
      engine_(*context_->engine),
      id_(id),
      spec_(std::move(spec)),
      name_(spec_.name(id)),
      updater_options_(resolve_dialect(spec_.options.updater)),
      shard_map_(std::make_unique<ShardMap>(*context_, id_, spec_, name_)),
      shard_(shard_map_->whole()),
      width_(static_cast<std::int64_t>(size_of(spec_.options.dtype))) {
  shard_map_->start(spec_, initial);
  if (spec_.options.clock == "async") return;
  const ClockRule rule = spec_.clock_rule(static_cast<int>(context_->roster.workers.size()));
  if (!engine_.world().one_host()) {
    clock_ = std::make_unique<RemoteClock>(*context_, id_, rule.kind);
  } else if (rule.kind == ClockKind::backup) {
    clock_ = std::make_unique<BackupClock>(*context_, shard_->storage(), rule.spare);
  } else {
    clock_ = std::make_unique<LocalClock>(*context_, shard_->storage(), id_, rule);
  }
}

Requester Table::me() const {
  return {.worker = std::max(context_->roster.worker, 0), .round = shard_map_->rounds() ? clock_->round() : 0};
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
          .dropped_adds = shard_map_->dropped(),
          .torn_stripes = shard_map_->torn(),
          .combined = shard_map_->combined()};
}

void Table::get(const Selection& selection, const View& out) {
  check("get", selection, out);
  const auto at_once = [](FunctionRef<void()> write) { write(); };
  if (!clock_) {
    drain_background();
    return run_get(selection, at_once, out.data);
  }
  const ClockedCall call(*this, "get");
  run_get(selection, at_once, out.data);
}

void Table::add(const Selection& selection, const ConstView& delta, const AddOptions& options) {
  check_add("add", selection, delta);
  const Rates rates = merge(updater_options_, options);
  if (!clock_) {
    drain_background();
    return run_add(selection, delta.data, rates);
  }
  const ClockedCall call(*this, "add");
  run_add(selection, delta.data, rates);
}

Pending Table::get_async(const Selection& selection, const View& out) {
  check("get", selection, out);
  raise_earlier();
  const bool at_once = clock_ ? can_start_now(Call::get) : out.count * width_ < kBackgroundBytes && shard_ != nullptr;
  if (engine_.hooks().scheduled() || at_once) {
    get(selection, out);
    return {};
  }
  auto operation = std::make_shared<Operation>(
      context_->engine, id_, Call::get, 0,
      [this, self_owner = shared_from_this(), all = selection.all,
       ids = std::vector<RowId>(selection.ids.begin(), selection.ids.end()), out = out.data](Operation& self) {
        raise_earlier();  // this get comes after adds that were started before it
        run_get({.all = all, .ids = ids}, [&](FunctionRef<void()> write) { self.write_unless_abandoned(write); }, out);
      });
  submit("get", operation);
  return Pending(std::move(operation));
}

Pending Table::add_async(const Selection& selection, const ConstView& delta, const AddOptions& options) {
  check_add("add", selection, delta);
  raise_earlier();
  // Applying costs no more than copying, so only an add that must wait, for other workers or hosts, runs in the
  // background.
  const bool at_once = clock_ ? can_start_now(Call::add) : shard_ != nullptr;
  if (engine_.hooks().scheduled() || at_once) {
    add(selection, delta, options);
    return {};
  }
  const auto* first = static_cast<const char*>(delta.data);
  auto operation = std::make_shared<Operation>(
      context_->engine, id_, Call::add, static_cast<std::size_t>(delta.count * width_),
      [this, self_owner = shared_from_this(), all = selection.all,
       ids = std::vector<RowId>(selection.ids.begin(), selection.ids.end()), rates = merge(updater_options_, options),
       copy = std::vector<char>(first, first + delta.count * width_)](Operation&) {
        run_add({.all = all, .ids = ids}, copy.data(), rates);
      });
  submit("add", operation);
  return Pending(std::move(operation));
}

void Table::drain_background() {
  if (shard_ == nullptr) context_->background.drain();
  raise_earlier();
}

bool Table::can_start_now(Call call) const { return context_->clocked.empty() && clock_->ready(call); }

void Table::submit(std::string_view call, const std::shared_ptr<Operation>& operation) {
  if (!clock_) return context_->background.submit(operation);
  const ClockedCall started(*this, call, ClockedCall::Mode::queued);
  context_->clocked.submit(operation);
}

// Counts one call. Reading the clock twice costs as much as moving a kilobyte. Among small calls, except for the first
// ones, only the last of every kSample is therefore timed, and represents all of them.
class Table::Timed {
 public:
  Timed(Counters& counters, std::atomic<std::uint64_t>& of_rank, std::int64_t bytes) : counters_(counters) {
    const std::uint64_t call = counters_.calls.fetch_add(1, std::memory_order_relaxed);
    add_relaxed(counters_.bytes, static_cast<std::uint64_t>(bytes));
    // Used only for reports: a count that is lost between two threads does no harm.
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

std::int64_t Table::bytes_of(const Selection& selection) const {
  return (selection.all ? spec_.rows * spec_.cols : static_cast<std::int64_t>(selection.ids.size()) * spec_.cols) *
         width_;
}

void Table::run_call(Call call, std::int64_t bytes, FunctionRef<void()> work) {
  const bool adds = call == Call::add;
  const Timed timed(adds ? added_ : got_, adds ? engine_.activity().self().adds : engine_.activity().self().gets,
                    bytes);
  const CallMark mark(engine_.activity(), call, id_);
  if (!clock_) return work();
  raise_if_broken();
  try {
    const Turn turn = clock_->begin(call);
    add_relaxed(waited_ns_, static_cast<std::uint64_t>(turn.waited));
    shard_map_->close_rounds(clock_->closed());
    if (turn.dropped) return shard_map_->count_dropped();
    work();
    clock_->end(call);
  } catch (const std::exception& error) {
    if (spec_.options.clock == "sync") {
      set_broken();
      // No rank has died, so nothing else would tell the workers that wait for this one.
      if (dynamic_cast<const SilenceError*>(&error) != nullptr) (void)engine_.order_failure().record(error.what());
    }
    throw;
  }
}

void Table::set_broken() {
  const std::lock_guard lock(broken_mutex_);
  if (broken_) return;
  broken_ = Problem::current();
  is_broken_.store(true);
}

void Table::raise_if_broken() const {
  if (!is_broken_.load()) return;
  const Problem problem = [&] {
    const std::lock_guard lock(broken_mutex_);
    return *broken_;
  }();
  Problem{.kind = problem.kind,
          .text = fmt::format("synchronous table \"{}\" is closed, because an earlier call failed: {}", name_,
                              problem.text)}
      .raise();
}

void Table::run_get(const Selection& selection, FunctionRef<void(FunctionRef<void()>)> guard, void* out) {
  auto* to = static_cast<char*>(out);
  run_call(Call::get, bytes_of(selection), [&] {
    guard([&] {
      if (!selection.all) {
        return shard_ != nullptr ? shard_->get_rows(selection.ids, to) : shard_map_->get_rows(selection.ids, to);
      }
      const auto take = [&](const char* values, std::int64_t first, std::size_t count) {
        copy_bytes(to + first * width_, values, count * static_cast<std::size_t>(width_));
      };
      shard_ != nullptr ? shard_->get(shard_->all(), take) : shard_map_->get(take);
    });
  });
}

void Table::run_add(const Selection& selection, const void* delta, const Rates& rates) {
  const auto* from = static_cast<const char*>(delta);
  run_call(Call::add, bytes_of(selection), [&] {
    if (!selection.all) {
      return shard_ != nullptr ? shard_->add_rows(me(), selection.ids, from, rates)
                               : shard_map_->add_rows(me(), selection.ids, from, rates);
    }
    const auto delta_of = [&](std::int64_t first, std::size_t) { return from + first * width_; };
    shard_ != nullptr ? shard_->add(me(), shard_->all(), rates, delta_of) : shard_map_->add(me(), rates, delta_of);
  });
}

void Table::add_get(const ConstView& delta, const View& out, const AddOptions& options) {
  check("add_get", {}, out);
  check_add("add_get", {}, delta);
  const ArrayPart whole{.at = 0, .delta = delta};
  add_parts({&whole, 1}, out, options);
}

std::unique_ptr<double[]> Table::stripe_buffer() const {
  const Geometry geometry = Geometry::array(spec_.cols, spec_.options.dtype);
  const std::int64_t longest = std::min(geometry.elements, geometry.unit_length * geometry.stripe_units);
  return std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(longest * width_ + 7) / 8);
}

void Table::add_parts(std::span<const ArrayPart> delta, const View& out, const AddOptions& options,
                      std::span<const ElementRange> kept) {
  check_not_in_rule("add_parts");
  check_parts("add_parts", delta);
  check_kept("add_parts", kept);
  if (out.data != nullptr) check("add_parts", {}, out);
  const ScatteredDelta parts(delta, width_);
  const auto gathered = stripe_buffer();
  run_both(
      "add_parts", merge(updater_options_, options),
      [&](std::int64_t first, std::size_t count) {
        const char* found = parts.in_place(first, static_cast<std::int64_t>(count));
        if (found != nullptr) return found;
        parts.copy(reinterpret_cast<char*>(gathered.get()), first, static_cast<std::int64_t>(count), copy_bytes);
        return reinterpret_cast<const char*>(gathered.get());
      },
      [&](const char* values, std::int64_t first, std::size_t count) {
        if (out.data == nullptr) return;
        copy_bytes(static_cast<char*>(out.data) + first * width_, values, count * static_cast<std::size_t>(width_));
      },
      out.data != nullptr, kept);
}

void Table::step(std::span<const ArrayPart> delta, const AddOptions& options, std::span<const ElementRange> kept) {
  check_not_in_rule("step");
  if (clock_) throw StateError(fmt::format("{} is for asynchronous tables; this one has a clock", where("step")));
  if (!engine_.world().one_host()) {
    check_parts("step", delta);
    throw StateError(fmt::format("{} requires all ranks on one host; the world has several hosts", where("step")));
  }
  if (shard_->storage().shape().state.per_worker > 0) {
    throw StateError(fmt::format("{} rule \"{}\" keeps state for each worker, which a sum over workers cannot update",
                                 where("step"), spec_.options.updater.rule));
  }
  // An error on one rank must reach all ranks. A rank with an error therefore takes part as well, so that the
  // successful case needs no additional communication.
  std::optional<Problem> problem;
  Rates rates{};
  try {
    raise_earlier();
    check_parts("step", delta);
    check_kept("step", kept);
    rates = merge(updater_options_, options);
  } catch (...) {
    problem = Problem::current();
    delta = {};
    kept = {};
  }
  const double numbers[4] = {rates.learning_rate, rates.momentum, rates.rho, rates.lambda};
  const auto agreed = static_cast<std::uint32_t>(
      std::hash<std::string_view>()({reinterpret_cast<const char*>(numbers), sizeof numbers}) ^
      std::hash<std::string_view>()({reinterpret_cast<const char*>(kept.data()), kept.size_bytes()}) ^ id_);
  const ScatteredDelta parts(delta, width_);
  const auto element = [&](std::size_t byte) { return static_cast<std::int64_t>(byte) / width_; };
  const Timed timed(added_, engine_.activity().self().adds, bytes_of({}));
  const bool done = engine_.collectives().reduce_units(
      spec_.options.dtype, static_cast<std::size_t>(bytes_of({})), kStripeBytes, agreed, problem.has_value(),
      [&](char* to, std::size_t at, std::size_t n, Collectives::CopyPiece copy_piece) {
        parts.copy(to, element(at), element(n), copy_piece);
      },
      [&](std::size_t at, const char* sum, std::size_t) {
        const std::int64_t stripe = static_cast<std::int64_t>(at) / kStripeBytes;
        shard_->add(me(), {stripe, stripe + 1}, rates, [&](std::int64_t, std::size_t) { return sum; }, kept);
      });
  if (done) return;
  run_collectively(engine_, "step", [&] {
    if (problem) problem->raise();
  });
}

void Table::begin_set(const Selection& selection, const ConstView& values, int root) {
  engine_.members().check_usable(spec_.handle());
  run_collectively(engine_, "set", [&] {
    if (root < 0 || root >= engine_.world().size()) {
      throw InvalidArgument(
          fmt::format("{} root {} is not a rank; the world has {} ranks", where("set"), root, engine_.world().size()));
    }
    if (spec_.sparse && selection.all) {
      throw StateError(fmt::format("{} a sparse table cannot be accessed as a whole; pass row ids", where("set")));
    }
    if (engine_.world().rank() == root) check_add("set", selection, values);
    context_->background.drain();
    context_->clocked.drain();
    raise_earlier();
  });
  int other = engine_.world().rank();
  int other_root = root;
  engine_.collectives().barrier(static_cast<std::uint64_t>(root), [&](int rank, std::uint64_t theirs) {
    if (static_cast<int>(theirs) == root || other_root != root) return;
    other = rank;
    other_root = static_cast<int>(theirs);
  });
  if (other_root == root) return;
  throw InvalidArgument(fmt::format(
      "{} expected the same root on all ranks; received {} on this rank, and on {} root {}; nothing was set",
      where("set"), root, engine_.members().describe(other), other_root));
}

void Table::set(const ConstView& values, int root) {
  begin_set({}, values, root);
  const auto* from = static_cast<const char*>(values.data);
  std::vector<char> copy;
  if (!engine_.world().one_host()) {  // every host writes its own shards
    copy.resize(static_cast<std::size_t>(bytes_of({})));
    if (engine_.world().rank() == root) copy_bytes(copy.data(), from, copy.size());
    engine_.collectives().broadcast(copy.data(), copy.size(), root);
    from = copy.data();
  }
  if (engine_.world().one_host() ? engine_.world().rank() == root : engine_.world().makes_segments()) {
    shard_map_->each_local_shard([&](Shard& shard, ShardRange range) {
      const Geometry& geometry = shard.geometry();
      const Storage& storage = shard.storage();
      const char* start = from + range.begin * (spec_.matrix ? spec_.cols : 1) * width_;
      shard.visit(shard.all(), [&](std::int64_t stripe) {
        const Change change(storage.stripe(stripe));
        storage.note_changes(stripe);
        const std::int64_t begin = geometry.start(geometry.first_unit(stripe));
        const std::int64_t end = geometry.start(geometry.end_unit(stripe));
        copy_bytes(storage.value(begin), start + begin * width_, static_cast<std::size_t>((end - begin) * width_));
      });
      shard.start();
    });
  }
  engine_.collectives().barrier();
}

void Table::exchange(View values, View last, const AddOptions& options) {
  check_add("exchange", {}, values);
  check("exchange", {}, last);
  auto* mine = static_cast<char*>(values.data);
  auto* before = static_cast<char*>(last.data);
  if (mine < before + last.count * width_ && before < mine + values.count * width_) {
    throw InvalidArgument(fmt::format("{} values and last overlap; expected two separate buffers", where("exchange")));
  }
  const auto difference = stripe_buffer();
  run_both(
      "exchange", merge(updater_options_, options),
      [&](std::int64_t first, std::size_t count) {
        subtract(spec_.options.dtype, difference.get(), mine + first * width_, before + first * width_, count);
        return reinterpret_cast<const char*>(difference.get());
      },
      [&](const char* now, std::int64_t first, std::size_t count) {
        const std::size_t bytes = count * static_cast<std::size_t>(width_);
        copy_bytes(mine + first * width_, now, bytes);
        copy_bytes(before + first * width_, now, bytes);
      });
}

void Table::run_both(std::string_view name, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take, bool gets,
                     std::span<const ElementRange> kept) {
  const std::int64_t bytes = bytes_of({});
  if (!clock_) {
    drain_background();
    run_call(Call::add, bytes, [&] {
      shard_ != nullptr ? shard_->add_get(me(), shard_->all(), rates, delta_of, take, kept)
                        : shard_map_->add_get(me(), rates, delta_of, take, kept);
    });
    if (gets) run_call(Call::get, bytes, [] {});  // its time is included in the add's
    return;
  }
  const ClockedCall call(*this, name);
  run_call(Call::add, bytes, [&] {
    shard_ != nullptr ? shard_->add(me(), shard_->all(), rates, delta_of, kept)
                      : shard_map_->add(me(), rates, delta_of, kept);
  });
  if (!gets) return;
  run_call(Call::get, bytes, [&] { shard_ != nullptr ? shard_->get(shard_->all(), take) : shard_map_->get(take); });
}

void Table::tick() {
  engine_.members().check_usable(spec_.handle());
  if (spec_.options.clock != "ssp") {
    throw StateError(fmt::format("{} clock = {} counts calls by itself; call tick only with clock = ssp", where("tick"),
                                 spec_.options.clock));
  }
  if (context_->roster.worker < 0) {
    throw StateError(fmt::format("{} this rank is not a worker, so it has no clock", where("tick")));
  }
  const ClockedCall call(*this, "tick");  // runs after all operations that were started before
  const CallMark mark(engine_.activity(), Call::tick, id_);
  clock_->begin(Call::tick);
  clock_->end(Call::tick);
  ticks_.fetch_add(1);
}

std::uint64_t Table::rounds() const {
  engine_.members().check_usable(spec_.handle());
  if (!shard_map_->rounds())
    throw StateError(fmt::format("{} expected a table with apply = round; this one has no rounds", where("rounds")));
  if (context_->roster.worker < 0) throw StateError(fmt::format("{} this rank is not a worker", where("rounds")));
  raise_earlier();
  raise_if_broken();
  return clock_->complete_rounds();
}

View Table::map() {
  engine_.members().check_usable("ArrayTable");
  raise_earlier();
  const std::size_t workers = context_->roster.workers.size();
  if (workers > 1 && clock_) {
    throw StateError(
        fmt::format("{} a synchronous table of {} workers is read by get; an asynchronous one can be mapped",
                    where("map"), workers));
  }
  if (shard_ == nullptr) {
    throw StateError(fmt::format("{} parts of the table are on other hosts; use add and get", where("map")));
  }
  if (shard_map_->rounds()) {
    throw StateError(
        fmt::format("{} apply = round keeps adds beside the values until a get; use apply = each", where("map")));
  }
  return {shard_->storage().value(0), shard_->geometry().elements, spec_.options.dtype};
}

}  // namespace pleiad
