#include "table/shard_map.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "core/kernels.h"
#include "pleiad/error.h"
#include "table/rows.h"
#include "table/table_service.h"

namespace pleiad {

namespace {

Geometry geometry_of(const TableSpec& spec, std::int64_t count) {
  return spec.matrix ? Geometry::matrix(count, spec.cols, spec.options.dtype)
                     : Geometry::array(count, spec.options.dtype);
}

}  // namespace

ShardMap::ShardMap(TableContext& context, std::uint32_t id, const TableSpec& spec, const std::string& name)
    : context_(context),
      engine_(*context.engine),
      id_(id),
      dtype_(spec.options.dtype),
      width_(static_cast<std::int64_t>(size_of(dtype_))),
      cols_(spec.matrix ? spec.cols : 1),
      rounds_(spec.options.apply == "round"),
      sums_first_(!rounds_ && !make_updater(spec.options.updater, dtype_)->additive()) {
  assign_shards(spec);
  const int workers = std::max<int>(1, static_cast<int>(context_.roster.workers.size()));
  std::uint32_t most = 0;
  for (const ShardEntry& entry : entries_) most = std::max(most, entry.number + 1);
  // Sharing memory is collective, so all ranks call it equally often; a host with fewer shards shares empty ones.
  for (std::uint32_t number = 0; number < most; ++number) {
    const auto mine = std::ranges::find_if(entries_, [&](const ShardEntry& entry) {
      return entry.host == engine_.world().here().host && entry.number == number;
    });
    const ShardRange range = mine == entries_.end() ? ShardRange{} : mine->range;
    auto shard = std::make_shared<Shard>(engine_, spec, name, workers, range);
    if (mine == entries_.end()) continue;
    shards_.push_back(shard);
    mine->shard = std::move(shard);
  }
  if (entries_.size() == 1 && entries_[0].shard != nullptr) whole_ = entries_[0].shard.get();
  set_up_combiner(spec);
}

void ShardMap::each_local_shard(FunctionRef<void(Shard&, ShardRange)> work) const {
  for (const ShardEntry& entry : entries_) {
    if (entry.shard != nullptr) work(*entry.shard, entry.range);
  }
}

void ShardMap::assign_shards(const TableSpec& spec) {
  if (spec.sparse) return assign_sparse_shards(spec);
  const std::vector<int>& servers = context_.roster.servers;
  const std::int64_t count = spec.matrix ? spec.rows : spec.cols;
  // Boundaries between hosts are rounded to the nearest stripe boundary, so that stripes are the same for any number of
  // hosts.
  const Geometry whole = geometry_of(spec, count);
  const std::int64_t stripe = spec.matrix ? whole.stripe_units : whole.unit_length;
  const auto aligned = [&](std::int64_t at) {
    return at == count ? at : std::min(count, (at + stripe / 2) / stripe * stripe);
  };
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(engine_.world().hosts()), 0);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const ShardRange exact = shard_range(count, static_cast<int>(servers.size()), static_cast<int>(s));
    const ShardRange range{aligned(exact.begin), aligned(exact.end)};
    const int host = engine_.world().location(servers[s]).host;
    if (range.begin == range.end) continue;
    if (!entries_.empty() && entries_.back().host == host) {
      entries_.back().range.end = range.end;
    } else {
      entries_.push_back({.range = range, .host = host, .number = numbers[static_cast<std::size_t>(host)]++});
    }
  }
  constexpr auto kChunk = static_cast<std::int64_t>(RpcTransport::kChunkBytes);
  constexpr auto kWhole = static_cast<std::int64_t>(RpcTransport::kWholeBytes);
  for (ShardEntry& entry : entries_) {
    entry.first = entry.range.begin * cols_;
    entry.geometry = geometry_of(spec, entry.range.end - entry.range.begin);
    if (entry.host == engine_.world().here().host) continue;
    const Geometry& g = entry.geometry;
    const std::int64_t stripe_bytes = g.unit_length * g.stripe_units * width_;
    check_row_length(stripe_bytes);
    const bool uncut = g.elements * width_ <= kWhole;
    entry.chunk_stripes = uncut ? g.stripes() : std::max<std::int64_t>(1, kChunk / stripe_bytes);
    entry.chunks_before = chunks_;
    chunks_ += static_cast<std::size_t>((g.stripes() + entry.chunk_stripes - 1) / entry.chunk_stripes);
  }
}

void ShardMap::check_row_length(std::int64_t bytes) const {
  if (bytes <= RpcTransport::kMaxBytes / 2) return;
  throw InvalidArgument(
      fmt::format("[create_table] a row of {} bytes is too long for a table on several hosts; at most {} are allowed",
                  bytes, RpcTransport::kMaxBytes / 2));
}

ShardMap::Chunk ShardMap::chunk(std::size_t index) const {
  const ShardEntry* entry = nullptr;
  for (const ShardEntry& other : entries_) {
    if (other.shard == nullptr && other.chunks_before <= index) entry = &other;
  }
  const Geometry& g = entry->geometry;
  const std::int64_t first = static_cast<std::int64_t>(index - entry->chunks_before) * entry->chunk_stripes;
  const StripeRange stripes{first, std::min(g.stripes(), first + entry->chunk_stripes)};
  return {.entry = entry,
          .stripes = stripes,
          .begin = g.start(g.first_unit(stripes.first)),
          .end = g.start(g.end_unit(stripes.end - 1))};
}

void ShardMap::start(const TableSpec& spec, ConstView initial) {
  engine_.collectives().barrier();
  const int root = spec.options.init_rank;
  if (engine_.world().one_host()) {
    if (engine_.world().rank() == root && initial.count > 0) {
      whole_->set(0, initial.data, static_cast<std::size_t>(initial.count));
      whole_->start();
    }
  } else {
    std::int64_t count = engine_.world().rank() == root ? initial.count : 0;
    engine_.collectives().broadcast(&count, sizeof count, root);
    const bool writes = engine_.world().makes_segments();
    std::vector<char> bytes;
    for (const ShardEntry& entry : entries_) {
      constexpr std::int64_t kPart = 1 << 20;
      for (std::int64_t at = 0; count > 0 && at < entry.geometry.elements; at += kPart) {
        const std::int64_t part = std::min(kPart, entry.geometry.elements - at);
        bytes.resize(static_cast<std::size_t>(part * width_));
        if (engine_.world().rank() == root) {
          std::memcpy(bytes.data(), static_cast<const char*>(initial.data) + (entry.first + at) * width_, bytes.size());
        }
        engine_.collectives().broadcast(bytes.data(), bytes.size(), root);
        if (writes && entry.shard != nullptr) entry.shard->set(at, bytes.data(), static_cast<std::size_t>(part));
      }
      if (count > 0 && writes && entry.shard != nullptr) entry.shard->start();
    }
    context_.service->add_table(id_, spec, shards_);
  }
  engine_.collectives().barrier();
}

std::uint64_t ShardMap::torn() const {
  std::uint64_t torn = 0;
  for (const auto& shard : shards_) torn += shard->storage().head().torn.load();
  return torn;
}

void ShardMap::close_rounds(std::uint64_t closed) {
  if (closed == 0) return;
  closed_.store(closed, std::memory_order_relaxed);
  for (const auto& shard : shards_) shard->close_rounds(closed);
}

std::vector<int> ShardMap::carriers() const {
  std::vector<int> ranks;
  for (int host = 0; host < engine_.world().hosts(); ++host) ranks.push_back(engine_.rpc()->serving_rank(host));
  return ranks;
}

TableHead ShardMap::head_for(const ShardEntry& entry, const Requester& requester, const Rates& rates) const {
  TableHead head;
  head.table = id_;
  head.shard = entry.number;
  head.worker = requester.worker;
  head.round = requester.round;
  head.closed = closed_.load(std::memory_order_relaxed);
  head.rates = rates;
  return head;
}

void ShardMap::set_up_combiner(const TableSpec& spec) {
  constexpr std::size_t kMostChunk = 1 << 20;
  const bool allowed = rounds_ ? !spec.options.ordered && spec.options.backup == 0
                               : make_updater(spec.options.updater, dtype_)->additive();
  const Geometry whole = geometry_of(spec, spec.matrix ? spec.rows : spec.cols);
  const auto stripe_bytes = static_cast<std::size_t>(whole.unit_length * whole.stripe_units * width_);
  // The condition is the same on every rank, because sharing memory is collective.
  if (spec.sparse || !allowed || engine_.world().hosts() == engine_.world().size() || stripe_bytes > kMostChunk) return;
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < chunks_; ++i) longest = std::max(longest, chunk(i).end - chunk(i).begin);
  const auto here = std::ranges::count_if(context_.roster.workers, [&](int rank) {
    return engine_.world().location(rank).host == engine_.world().here().host;
  });
  auto combiner = std::make_unique<Combiner>(engine_, dtype_, chunks_, static_cast<std::size_t>(longest * width_),
                                             rounds_, static_cast<int>(here));
  if (engine_.world().local_ranks() > 1 && engine_.world().local_ranks() <= Combiner::kMostRanks)
    combiner_ = std::move(combiner);
}

void ShardMap::each_delta(const WholeTableCall& call, const Chunk& chunk,
                          FunctionRef<void(std::int64_t, const char*, std::size_t)> put) const {
  const Geometry& g = chunk.entry->geometry;
  for (std::int64_t stripe = chunk.stripes.first; stripe < chunk.stripes.end; ++stripe) {
    const std::int64_t first = g.start(g.first_unit(stripe));
    const auto count = static_cast<std::size_t>(g.start(g.end_unit(stripe)) - first);
    put(first - chunk.begin, call.delta_of(chunk.entry->first + first, count), count);
  }
}

void ShardMap::run_local(const WholeTableCall& call) const {
  for (const ShardEntry& entry : entries_) {
    if (entry.shard != nullptr) call.local(*entry.shard, entry.first);
  }
}

namespace {

/// The parts of `ranges` between the elements `begin` and `end`, counted from `base`.
std::vector<ElementRange> ranges_between(std::span<const ElementRange> ranges, std::int64_t begin, std::int64_t end,
                                         std::int64_t base) {
  std::vector<ElementRange> found;
  auto range = std::ranges::upper_bound(ranges, begin, {}, &ElementRange::end);
  for (; range != ranges.end() && range->begin < end; ++range) {
    found.push_back({std::max(range->begin, begin) - base, std::min(range->end, end) - base});
  }
  return found;
}

}  // namespace

std::vector<ElementRange> ShardMap::kept_in(const Chunk& chunk, std::span<const ElementRange> kept) {
  const std::int64_t first = chunk.entry->first;
  return ranges_between(kept, first + chunk.begin, first + chunk.end, first);
}

// Exchanges chunks with other hosts and runs `meanwhile` at the same time.
void ShardMap::exchange_chunks(const WholeTableCall& call, std::span<const std::size_t> chunks,
                               Combiner::Call* combined, FunctionRef<void()> meanwhile) {
  const std::vector<int> to = carriers();
  const bool adds = call.operation != TableOperation::get;
  const auto bytes_of = [&](const Chunk& chunk) {
    return static_cast<std::size_t>((chunk.end - chunk.begin) * width_);
  };
  const auto fill = [&](std::size_t i, std::span<char> body) {
    const Chunk chunk = this->chunk(chunks[i]);
    Requester requester = call.requester;
    Rates rates = call.rates;
    const std::vector<ElementRange> kept = kept_in(chunk, call.kept);
    const std::span<char> delta = body.subspan(sizeof(TableHead) + kept.size() * sizeof(ElementRange));
    if (!kept.empty()) std::memcpy(body.data() + sizeof(TableHead), kept.data(), kept.size() * sizeof(ElementRange));
    if (adds) {
      each_delta(call, chunk, [&](std::int64_t first, const char* from, std::size_t count) {
        copy_bytes(delta.data() + first * width_, from, count * static_cast<std::size_t>(width_));
      });
    }
    if (combined != nullptr) combined->close(chunks[i], delta, requester, rates);
    TableHead head = head_for(*chunk.entry, requester, rates);
    head.first = chunk.stripes.first;
    head.count = chunk.stripes.end - chunk.stripes.first;
    head.kept = static_cast<std::int64_t>(kept.size());
    std::memcpy(body.data(), &head, sizeof head);
  };
  const auto part = [&](std::size_t i) {
    const Chunk chunk = this->chunk(chunks[i]);
    return OutgoingRequest{.to = to[static_cast<std::size_t>(chunk.entry->host)],
                           .operation = static_cast<std::uint32_t>(call.operation),
                           .idempotent = !adds,
                           .bytes = sizeof(TableHead) + kept_in(chunk, call.kept).size() * sizeof(ElementRange) +
                                    (adds ? bytes_of(chunk) : 0)};
  };
  const auto take_chunk = [&](std::size_t i, std::span<const char> body) {
    if (combined != nullptr) combined->acknowledged(chunks[i]);
    if (call.operation == TableOperation::add) return;
    const Chunk chunk = this->chunk(chunks[i]);
    if (body.size() != bytes_of(chunk)) throw TransportError("a reply has the wrong size");
    call.take(body.data(), chunk.entry->first + chunk.begin, static_cast<std::size_t>(chunk.end - chunk.begin));
  };
  engine_.rpc()->exchange({.call = adds ? Call::add : Call::get,
                           .count = chunks.size(),
                           .request = part,
                           .fill = fill,
                           .take = take_chunk,
                           .meanwhile = meanwhile});
}

void ShardMap::exchange(const WholeTableCall& call) {
  std::vector<std::size_t> all(chunks_);
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (call.operation == TableOperation::add) {  // a chunk that is kept as a whole need not be sent
    std::erase_if(all, [&](std::size_t i) {
      const Chunk chunk = this->chunk(i);
      const std::vector<ElementRange> kept = kept_in(chunk, call.kept);
      return kept.size() == 1 && kept[0].begin == chunk.begin && kept[0].end == chunk.end;
    });
  }
  exchange_chunks(call, all, nullptr, [&] { run_local(call); });
}

// Like exchange(), but skips the chunks that another rank of this host sends along.
void ShardMap::exchange_combined(const WholeTableCall& call) {
  Combiner::Call combined(*combiner_, call.requester, call.rates);
  for (std::size_t first = 0; first == 0 || first < chunks_; first += Combiner::kRun) {
    combined.collect();
    std::vector<std::size_t> mine;
    std::size_t bytes = 0;
    for (std::size_t i = first; i < std::min(chunks_, first + Combiner::kRun); ++i) {
      const Chunk chunk = this->chunk(i);
      const bool joined = combined.join(i, [&](char* sum, bool fresh) {
        each_delta(call, chunk, [&](std::int64_t at, const char* from, std::size_t count) {
          char* to = sum + at * width_;
          fresh ? copy_bytes(to, from, count * static_cast<std::size_t>(width_)) : add_to(dtype_, to, from, count);
        });
      });
      if (joined) continue;
      mine.push_back(i);
      bytes += static_cast<std::size_t>((chunk.end - chunk.begin) * width_);
    }
    combined.gather(bytes);
    try {
      exchange_chunks(call, mine, &combined, [&] {
        if (first == 0) run_local(call);
      });
    } catch (const Error&) {
      combined.fail(Problem::current());
      throw;
    }
  }
  combined.finish();
}

void ShardMap::add(const Requester& requester, const Rates& rates, Shard::DeltaOf delta_of,
                   std::span<const ElementRange> kept) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.add(
        requester, shard.all(), rates,
        [&](std::int64_t first, std::size_t count) { return delta_of(base + first, count); },
        ranges_between(kept, base, base + shard.geometry().elements, base));
  };
  const auto take = [](const char*, std::int64_t, std::size_t) {};
  const WholeTableCall call{.operation = TableOperation::add,
                            .requester = requester,
                            .rates = rates,
                            .delta_of = delta_of,
                            .take = take,
                            .local = local,
                            .kept = kept};
  combiner_ == nullptr || !kept.empty() ? exchange(call) : exchange_combined(call);
}

void ShardMap::get(Shard::Take take) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.get(shard.all(),
              [&](const char* values, std::int64_t first, std::size_t count) { take(values, base + first, count); });
  };
  const auto no_delta = [](std::int64_t, std::size_t) -> const char* { return nullptr; };
  exchange({.operation = TableOperation::get,
            .requester = {},
            .rates = {},
            .delta_of = no_delta,
            .take = take,
            .local = local});
}

void ShardMap::add_get(const Requester& requester, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take,
                       std::span<const ElementRange> kept) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.add_get(
        requester, shard.all(), rates,
        [&](std::int64_t first, std::size_t count) { return delta_of(base + first, count); },
        [&](const char* values, std::int64_t first, std::size_t count) { take(values, base + first, count); },
        ranges_between(kept, base, base + shard.geometry().elements, base));
  };
  exchange({.operation = TableOperation::add_get,
            .requester = requester,
            .rates = rates,
            .delta_of = delta_of,
            .take = take,
            .local = local,
            .kept = kept});
}

std::size_t ShardMap::entry_of(RowId id) const {
  if (!entry_of_server_.empty()) return entry_of_server_[(hash_of(id) >> 20U) % entry_of_server_.size()];
  const auto after =
      std::ranges::upper_bound(entries_, id, {}, [](const ShardEntry& entry) { return entry.range.begin; });
  return static_cast<std::size_t>(after - entries_.begin()) - 1;
}

// Runs one call on some rows: local(shard, local ids, positions) for shards of this host, messages for the others.
template <class Local>
void ShardMap::exchange_rows(TableOperation operation, const Requester& requester, const Rates& rates,
                             std::span<const RowId> ids, const char* delta, char* out, Local&& local) {
  const std::vector<int> to = carriers();
  const bool adds = operation == TableOperation::add_rows;
  const std::int64_t row_bytes = cols_ * width_;
  std::vector<std::vector<std::size_t>> positions(entries_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) positions[entry_of(ids[i])].push_back(i);
  std::vector<RowChunk> chunks;
  const std::size_t each = static_cast<std::size_t>(row_bytes) + sizeof(RowId);
  const std::size_t step = std::max<std::size_t>(1, RpcTransport::kChunkBytes / each);
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    if (entries_[p].shard != nullptr) continue;
    const std::span<const std::size_t> all(positions[p]);
    for (std::size_t first = 0; first < all.size(); first += step) {
      chunks.push_back({.entry = &entries_[p], .positions = all.subspan(first, std::min(step, all.size() - first))});
    }
  }
  const auto fill = [&](std::size_t i, std::span<char> body) {
    const RowChunk& chunk = chunks[i];
    TableHead head = head_for(*chunk.entry, requester, rates);
    head.count = static_cast<std::int64_t>(chunk.positions.size());
    std::memcpy(body.data(), &head, sizeof head);
    char* id_at = body.data() + sizeof head;
    char* row_at = id_at + chunk.positions.size() * sizeof(RowId);
    for (const std::size_t position : chunk.positions) {
      const RowId id = ids[position] - chunk.entry->range.begin;
      std::memcpy(id_at, &id, sizeof id);
      id_at += sizeof id;
      if (!adds) continue;
      copy_bytes(row_at, delta + static_cast<std::int64_t>(position) * row_bytes, static_cast<std::size_t>(row_bytes));
      row_at += row_bytes;
    }
  };
  engine_.rpc()->exchange({.call = adds ? Call::add : Call::get,
                           .count = chunks.size(),
                           .request =
                               [&](std::size_t i) {
                                 return OutgoingRequest{.to = to[static_cast<std::size_t>(chunks[i].entry->host)],
                                                        .operation = static_cast<std::uint32_t>(operation),
                                                        .idempotent = !adds,
                                                        .bytes = sizeof(TableHead) + chunks[i].positions.size() *
                                                                                         (adds ? each : sizeof(RowId))};
                               },
                           .fill = fill,
                           .take =
                               [&](std::size_t i, std::span<const char> body) {
                                 if (adds) return;
                                 const RowChunk& chunk = chunks[i];
                                 if (body.size() != chunk.positions.size() * static_cast<std::size_t>(row_bytes)) {
                                   throw TransportError("a reply has the wrong size");
                                 }
                                 const char* row = body.data();
                                 for (const std::size_t position : chunk.positions) {
                                   copy_bytes(out + static_cast<std::int64_t>(position) * row_bytes, row,
                                              static_cast<std::size_t>(row_bytes));
                                   row += row_bytes;
                                 }
                               },
                           .meanwhile =
                               [&] {
                                 for (std::size_t p = 0; p < entries_.size(); ++p) {
                                   if (entries_[p].shard == nullptr || positions[p].empty()) continue;
                                   std::vector<RowId> here;
                                   for (const std::size_t position : positions[p])
                                     here.push_back(ids[position] - entries_[p].range.begin);
                                   local(*entries_[p].shard, here, positions[p]);
                                 }
                               }});
}

void ShardMap::add_rows(const Requester& requester, std::span<const RowId> ids, const char* delta, const Rates& rates) {
  const std::optional<SummedRows> summed = sums_first_ ? sum_duplicates(dtype_, cols_, ids, delta) : std::nullopt;
  if (summed) {
    ids = summed->ids;
    delta = summed->delta.data();
  }
  const std::int64_t row_bytes = cols_ * width_;
  exchange_rows(TableOperation::add_rows, requester, rates, ids, delta, nullptr,
                [&](Shard& shard, const std::vector<RowId>& here, const std::vector<std::size_t>& positions) {
                  std::vector<char> rows(here.size() * static_cast<std::size_t>(row_bytes));
                  for (std::size_t i = 0; i < here.size(); ++i) {
                    copy_bytes(rows.data() + static_cast<std::int64_t>(i) * row_bytes,
                               delta + static_cast<std::int64_t>(positions[i]) * row_bytes,
                               static_cast<std::size_t>(row_bytes));
                  }
                  shard.add_rows(requester, here, rows.data(), rates);
                });
}

void ShardMap::get_rows(std::span<const RowId> ids, char* out) {
  const std::int64_t row_bytes = cols_ * width_;
  exchange_rows(TableOperation::get_rows, {}, {}, ids, nullptr, out,
                [&](Shard& shard, const std::vector<RowId>& here, const std::vector<std::size_t>& positions) {
                  std::vector<char> rows(here.size() * static_cast<std::size_t>(row_bytes));
                  shard.get_rows(here, rows.data());
                  for (std::size_t i = 0; i < here.size(); ++i) {
                    copy_bytes(out + static_cast<std::int64_t>(positions[i]) * row_bytes,
                               rows.data() + static_cast<std::int64_t>(i) * row_bytes,
                               static_cast<std::size_t>(row_bytes));
                  }
                });
}

}  // namespace pleiad
