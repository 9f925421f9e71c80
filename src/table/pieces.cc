#include "table/pieces.h"

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

Pieces::Pieces(TableContext& context, std::uint32_t id, const TableSpec& spec, const std::string& name)
    : context_(context),
      engine_(*context.engine),
      id_(id),
      dtype_(spec.options.dtype),
      width_(static_cast<std::int64_t>(size_of(dtype_))),
      cols_(spec.matrix ? spec.cols : 1),
      rounds_(spec.options.apply == "round"),
      sums_first_(!rounds_ && !make_updater(spec.options.updater, dtype_)->additive()) {
  cut(spec);
  const int workers = std::max<int>(1, static_cast<int>(context_.roster.workers.size()));
  std::uint32_t most = 0;
  for (const Piece& piece : pieces_) most = std::max(most, piece.number + 1);
  // All ranks share memory equally often; a host that holds fewer pieces shares empty ones.
  for (std::uint32_t number = 0; number < most; ++number) {
    const auto mine = std::ranges::find_if(pieces_, [&](const Piece& piece) {
      return piece.host == engine_.place(engine_.rank()).host && piece.number == number;
    });
    const ShardRange range = mine == pieces_.end() ? ShardRange{} : mine->range;
    auto shard = std::make_shared<Shard>(engine_, spec, name, workers, range);
    if (mine == pieces_.end()) continue;
    shards_.push_back(shard);
    mine->shard = std::move(shard);
  }
  if (pieces_.size() == 1 && pieces_[0].shard != nullptr) whole_ = pieces_[0].shard.get();
  set_up_combiner(spec);
}

void Pieces::each_here(FunctionRef<void(Shard&, ShardRange)> work) const {
  for (const Piece& piece : pieces_) {
    if (piece.shard != nullptr) work(*piece.shard, piece.range);
  }
}

void Pieces::cut(const TableSpec& spec) {
  if (spec.sparse) return cut_sparse(spec);
  const std::vector<int>& servers = context_.roster.servers;
  const std::int64_t count = spec.matrix ? spec.rows : spec.cols;
  // Between hosts the cut is at the nearest end of a stripe: so stripes are the same however many hosts there are.
  const Geometry whole = geometry_of(spec, count);
  const std::int64_t stripe = spec.matrix ? whole.stripe_units : whole.unit_length;
  const auto aligned = [&](std::int64_t at) {
    return at == count ? at : std::min(count, (at + stripe / 2) / stripe * stripe);
  };
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(engine_.hosts()), 0);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const ShardRange exact = shard_range(count, static_cast<int>(servers.size()), static_cast<int>(s));
    const ShardRange range{aligned(exact.begin), aligned(exact.end)};
    const int host = engine_.place(servers[s]).host;
    if (range.begin == range.end) continue;
    if (!pieces_.empty() && pieces_.back().host == host) {
      pieces_.back().range.end = range.end;
    } else {
      pieces_.push_back({.range = range, .host = host, .number = numbers[static_cast<std::size_t>(host)]++});
    }
  }
  constexpr auto kChunk = static_cast<std::int64_t>(Messenger::kChunkBytes);
  constexpr auto kWhole = static_cast<std::int64_t>(Messenger::kWholeBytes);
  for (Piece& piece : pieces_) {
    piece.first = piece.range.begin * cols_;
    piece.geometry = geometry_of(spec, piece.range.end - piece.range.begin);
    if (piece.host == engine_.place(engine_.rank()).host) continue;
    const Geometry& g = piece.geometry;
    const std::int64_t stripe_bytes = g.unit_length * g.stripe_units * width_;
    check_row_length(stripe_bytes);
    const bool uncut = g.elements * width_ <= kWhole;
    piece.chunk_stripes = uncut ? g.stripes() : std::max<std::int64_t>(1, kChunk / stripe_bytes);
    piece.chunks_before = chunks_;
    chunks_ += static_cast<std::size_t>((g.stripes() + piece.chunk_stripes - 1) / piece.chunk_stripes);
  }
}

void Pieces::check_row_length(std::int64_t bytes) const {
  if (bytes <= Messenger::kMostBytes / 2) return;
  throw InvalidArgument(
      fmt::format("[create_table] a row of {} bytes is too long for a table on several hosts; at most {} are allowed",
                  bytes, Messenger::kMostBytes / 2));
}

Pieces::Chunk Pieces::chunk(std::size_t index) const {
  const Piece* piece = nullptr;
  for (const Piece& other : pieces_) {
    if (other.shard == nullptr && other.chunks_before <= index) piece = &other;
  }
  const Geometry& g = piece->geometry;
  const std::int64_t first = static_cast<std::int64_t>(index - piece->chunks_before) * piece->chunk_stripes;
  const StripeRange stripes{first, std::min(g.stripes(), first + piece->chunk_stripes)};
  return {.piece = piece,
          .stripes = stripes,
          .begin = g.start(g.first_unit(stripes.first)),
          .end = g.start(g.end_unit(stripes.end - 1))};
}

void Pieces::start(const TableSpec& spec, ConstView initial) {
  engine_.barrier();
  const int root = spec.options.init_rank;
  if (engine_.one_host()) {
    if (engine_.rank() == root && initial.count > 0) {
      whole_->set(0, initial.data, static_cast<std::size_t>(initial.count));
      whole_->start();
    }
  } else {
    std::int64_t count = engine_.rank() == root ? initial.count : 0;
    engine_.broadcast(&count, sizeof count, root);
    const bool writes = engine_.place(engine_.rank()).local == 0;
    std::vector<char> bytes;
    for (const Piece& piece : pieces_) {
      constexpr std::int64_t kPart = 1 << 20;
      for (std::int64_t at = 0; count > 0 && at < piece.geometry.elements; at += kPart) {
        const std::int64_t part = std::min(kPart, piece.geometry.elements - at);
        bytes.resize(static_cast<std::size_t>(part * width_));
        if (engine_.rank() == root) {
          std::memcpy(bytes.data(), static_cast<const char*>(initial.data) + (piece.first + at) * width_, bytes.size());
        }
        engine_.broadcast(bytes.data(), bytes.size(), root);
        if (writes && piece.shard != nullptr) piece.shard->set(at, bytes.data(), static_cast<std::size_t>(part));
      }
      if (count > 0 && writes && piece.shard != nullptr) piece.shard->start();
    }
    context_.service->add_table(id_, spec, shards_);
  }
  engine_.barrier();
}

std::uint64_t Pieces::torn() const {
  std::uint64_t torn = 0;
  for (const auto& shard : shards_) torn += shard->storage().head().torn.load();
  return torn;
}

void Pieces::close_rounds(std::uint64_t closed) {
  if (closed == 0) return;
  closed_.store(closed, std::memory_order_relaxed);
  for (const auto& shard : shards_) shard->close_rounds(closed);
}

std::vector<int> Pieces::carriers() const {
  std::vector<int> ranks;
  for (int host = 0; host < engine_.hosts(); ++host) ranks.push_back(engine_.messenger()->carrier(host));
  return ranks;
}

TableHead Pieces::head_for(const Piece& piece, const Asker& asker, const Rates& rates) const {
  TableHead head;
  head.table = id_;
  head.shard = piece.number;
  head.worker = asker.worker;
  head.round = asker.round;
  head.closed = closed_.load(std::memory_order_relaxed);
  head.rates = rates;
  return head;
}

void Pieces::set_up_combiner(const TableSpec& spec) {
  constexpr std::size_t kMostChunk = 1 << 20;
  const bool allowed = rounds_ ? !spec.options.ordered && spec.options.backup == 0
                               : make_updater(spec.options.updater, dtype_)->additive();
  const Geometry whole = geometry_of(spec, spec.matrix ? spec.rows : spec.cols);
  const auto stripe_bytes = static_cast<std::size_t>(whole.unit_length * whole.stripe_units * width_);
  // The same on every rank, for sharing memory is collective.
  if (spec.sparse || !allowed || engine_.hosts() == engine_.size() || stripe_bytes > kMostChunk) return;
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < chunks_; ++i) longest = std::max(longest, chunk(i).end - chunk(i).begin);
  const auto here = std::ranges::count_if(context_.roster.workers, [&](int rank) {
    return engine_.place(rank).host == engine_.place(engine_.rank()).host;
  });
  auto combiner = std::make_unique<Combiner>(engine_, dtype_, chunks_, static_cast<std::size_t>(longest * width_),
                                             rounds_, static_cast<int>(here));
  if (engine_.local_ranks() > 1 && engine_.local_ranks() <= Combiner::kMostRanks) combiner_ = std::move(combiner);
}

void Pieces::each_delta(const Whole& call, const Chunk& chunk,
                        FunctionRef<void(std::int64_t, const char*, std::size_t)> put) const {
  const Geometry& g = chunk.piece->geometry;
  for (std::int64_t stripe = chunk.stripes.first; stripe < chunk.stripes.end; ++stripe) {
    const std::int64_t first = g.start(g.first_unit(stripe));
    const auto count = static_cast<std::size_t>(g.start(g.end_unit(stripe)) - first);
    put(first - chunk.begin, call.delta_of(chunk.piece->first + first, count), count);
  }
}

void Pieces::local_part(const Whole& call) const {
  for (const Piece& piece : pieces_) {
    if (piece.shard != nullptr) call.local(*piece.shard, piece.first);
  }
}

namespace {

/// The ranges between two elements, counted from `base`.
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

std::vector<ElementRange> Pieces::kept_in(const Chunk& chunk, std::span<const ElementRange> kept) {
  const std::int64_t first = chunk.piece->first;
  return ranges_between(kept, first + chunk.begin, first + chunk.end, first);
}

// Chunks of other hosts, and meanwhile something else.
void Pieces::exchange_chunks(const Whole& call, std::span<const std::size_t> chunks, Combiner::Call* combined,
                             FunctionRef<void()> meanwhile) {
  const std::vector<int> to = carriers();
  const bool adds = call.operation != TableOperation::get;
  const auto bytes_of = [&](const Chunk& chunk) {
    return static_cast<std::size_t>((chunk.end - chunk.begin) * width_);
  };
  const auto fill = [&](std::size_t i, std::span<char> body) {
    const Chunk chunk = this->chunk(chunks[i]);
    Asker asker = call.asker;
    Rates rates = call.rates;
    const std::vector<ElementRange> kept = kept_in(chunk, call.kept);
    const std::span<char> delta = body.subspan(sizeof(TableHead) + kept.size() * sizeof(ElementRange));
    if (!kept.empty()) std::memcpy(body.data() + sizeof(TableHead), kept.data(), kept.size() * sizeof(ElementRange));
    if (adds) {
      each_delta(call, chunk, [&](std::int64_t first, const char* from, std::size_t count) {
        copy_bytes(delta.data() + first * width_, from, count * static_cast<std::size_t>(width_));
      });
    }
    if (combined != nullptr) combined->close(chunks[i], delta, asker, rates);
    TableHead head = head_for(*chunk.piece, asker, rates);
    head.first = chunk.stripes.first;
    head.count = chunk.stripes.end - chunk.stripes.first;
    head.kept = static_cast<std::int64_t>(kept.size());
    std::memcpy(body.data(), &head, sizeof head);
  };
  const auto part = [&](std::size_t i) {
    const Chunk chunk = this->chunk(chunks[i]);
    return Part{.to = to[static_cast<std::size_t>(chunk.piece->host)],
                .operation = static_cast<std::uint32_t>(call.operation),
                .repeatable = !adds,
                .bytes = sizeof(TableHead) + kept_in(chunk, call.kept).size() * sizeof(ElementRange) +
                         (adds ? bytes_of(chunk) : 0)};
  };
  const auto take_chunk = [&](std::size_t i, std::span<const char> body) {
    if (combined != nullptr) combined->acknowledged(chunks[i]);
    if (call.operation == TableOperation::add) return;
    const Chunk chunk = this->chunk(chunks[i]);
    if (body.size() != bytes_of(chunk)) throw TransportError("an answer has the wrong size");
    call.take(body.data(), chunk.piece->first + chunk.begin, static_cast<std::size_t>(chunk.end - chunk.begin));
  };
  engine_.messenger()->exchange({.call = adds ? Call::add : Call::get,
                                 .count = chunks.size(),
                                 .part = part,
                                 .fill = fill,
                                 .take = take_chunk,
                                 .meanwhile = meanwhile});
}

void Pieces::exchange(const Whole& call) {
  std::vector<std::size_t> all(chunks_);
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (call.operation == TableOperation::add) {  // a chunk that is kept as a whole need not be sent
    std::erase_if(all, [&](std::size_t i) {
      const Chunk chunk = this->chunk(i);
      const std::vector<ElementRange> kept = kept_in(chunk, call.kept);
      return kept.size() == 1 && kept[0].begin == chunk.begin && kept[0].end == chunk.end;
    });
  }
  exchange_chunks(call, all, nullptr, [&] { local_part(call); });
}

// What a neighbour sends along need not be sent by this rank.
void Pieces::exchange_combined(const Whole& call) {
  Combiner::Call combined(*combiner_, call.asker, call.rates);
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
        if (first == 0) local_part(call);
      });
    } catch (const Error&) {
      combined.fail(Problem::current());
      throw;
    }
  }
  combined.finish();
}

void Pieces::add(const Asker& asker, const Rates& rates, Shard::DeltaOf delta_of, std::span<const ElementRange> kept) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.add(
        asker, shard.all(), rates, [&](std::int64_t first, std::size_t count) { return delta_of(base + first, count); },
        ranges_between(kept, base, base + shard.geometry().elements, base));
  };
  const auto take = [](const char*, std::int64_t, std::size_t) {};
  const Whole call{.operation = TableOperation::add,
                   .asker = asker,
                   .rates = rates,
                   .delta_of = delta_of,
                   .take = take,
                   .local = local,
                   .kept = kept};
  combiner_ == nullptr || !kept.empty() ? exchange(call) : exchange_combined(call);
}

void Pieces::get(Shard::Take take) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.get(shard.all(),
              [&](const char* values, std::int64_t first, std::size_t count) { take(values, base + first, count); });
  };
  const auto no_delta = [](std::int64_t, std::size_t) -> const char* { return nullptr; };
  exchange(
      {.operation = TableOperation::get, .asker = {}, .rates = {}, .delta_of = no_delta, .take = take, .local = local});
}

void Pieces::add_get(const Asker& asker, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take,
                     std::span<const ElementRange> kept) {
  const auto local = [&](Shard& shard, std::int64_t base) {
    shard.add_get(
        asker, shard.all(), rates, [&](std::int64_t first, std::size_t count) { return delta_of(base + first, count); },
        [&](const char* values, std::int64_t first, std::size_t count) { take(values, base + first, count); },
        ranges_between(kept, base, base + shard.geometry().elements, base));
  };
  exchange({.operation = TableOperation::add_get,
            .asker = asker,
            .rates = rates,
            .delta_of = delta_of,
            .take = take,
            .local = local,
            .kept = kept});
}

std::size_t Pieces::piece_of(RowId id) const {
  if (!piece_of_server_.empty()) return piece_of_server_[(hash_of(id) >> 20U) % piece_of_server_.size()];
  const auto after = std::ranges::upper_bound(pieces_, id, {}, [](const Piece& piece) { return piece.range.begin; });
  return static_cast<std::size_t>(after - pieces_.begin()) - 1;
}

// One call on some rows: local(shard, local ids, places) for what lies here, messages for the rest.
template <class Local>
void Pieces::exchange_rows(TableOperation operation, const Asker& asker, const Rates& rates, std::span<const RowId> ids,
                           const char* delta, char* out, Local&& local) {
  const std::vector<int> to = carriers();
  const bool adds = operation == TableOperation::add_rows;
  const std::int64_t row_bytes = cols_ * width_;
  std::vector<std::vector<std::size_t>> places(pieces_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) places[piece_of(ids[i])].push_back(i);
  std::vector<RowChunk> chunks;
  const std::size_t each = static_cast<std::size_t>(row_bytes) + sizeof(RowId);
  const std::size_t step = std::max<std::size_t>(1, Messenger::kChunkBytes / each);
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (pieces_[p].shard != nullptr) continue;
    const std::span<const std::size_t> all(places[p]);
    for (std::size_t first = 0; first < all.size(); first += step) {
      chunks.push_back({.piece = &pieces_[p], .places = all.subspan(first, std::min(step, all.size() - first))});
    }
  }
  const auto fill = [&](std::size_t i, std::span<char> body) {
    const RowChunk& chunk = chunks[i];
    TableHead head = head_for(*chunk.piece, asker, rates);
    head.count = static_cast<std::int64_t>(chunk.places.size());
    std::memcpy(body.data(), &head, sizeof head);
    char* id_at = body.data() + sizeof head;
    char* row_at = id_at + chunk.places.size() * sizeof(RowId);
    for (const std::size_t place : chunk.places) {
      const RowId id = ids[place] - chunk.piece->range.begin;
      std::memcpy(id_at, &id, sizeof id);
      id_at += sizeof id;
      if (!adds) continue;
      copy_bytes(row_at, delta + static_cast<std::int64_t>(place) * row_bytes, static_cast<std::size_t>(row_bytes));
      row_at += row_bytes;
    }
  };
  engine_.messenger()->exchange(
      {.call = adds ? Call::add : Call::get,
       .count = chunks.size(),
       .part =
           [&](std::size_t i) {
             return Part{.to = to[static_cast<std::size_t>(chunks[i].piece->host)],
                         .operation = static_cast<std::uint32_t>(operation),
                         .repeatable = !adds,
                         .bytes = sizeof(TableHead) + chunks[i].places.size() * (adds ? each : sizeof(RowId))};
           },
       .fill = fill,
       .take =
           [&](std::size_t i, std::span<const char> body) {
             if (adds) return;
             const RowChunk& chunk = chunks[i];
             if (body.size() != chunk.places.size() * static_cast<std::size_t>(row_bytes)) {
               throw TransportError("an answer has the wrong size");
             }
             const char* row = body.data();
             for (const std::size_t place : chunk.places) {
               copy_bytes(out + static_cast<std::int64_t>(place) * row_bytes, row, static_cast<std::size_t>(row_bytes));
               row += row_bytes;
             }
           },
       .meanwhile =
           [&] {
             for (std::size_t p = 0; p < pieces_.size(); ++p) {
               if (pieces_[p].shard == nullptr || places[p].empty()) continue;
               std::vector<RowId> here;
               for (const std::size_t place : places[p]) here.push_back(ids[place] - pieces_[p].range.begin);
               local(*pieces_[p].shard, here, places[p]);
             }
           }});
}

void Pieces::add_rows(const Asker& asker, std::span<const RowId> ids, const char* delta, const Rates& rates) {
  const std::optional<SummedRows> summed = sums_first_ ? sum_duplicates(dtype_, cols_, ids, delta) : std::nullopt;
  if (summed) {
    ids = summed->ids;
    delta = summed->delta.data();
  }
  const std::int64_t row_bytes = cols_ * width_;
  exchange_rows(TableOperation::add_rows, asker, rates, ids, delta, nullptr,
                [&](Shard& shard, const std::vector<RowId>& here, const std::vector<std::size_t>& places) {
                  std::vector<char> rows(here.size() * static_cast<std::size_t>(row_bytes));
                  for (std::size_t i = 0; i < here.size(); ++i) {
                    copy_bytes(rows.data() + static_cast<std::int64_t>(i) * row_bytes,
                               delta + static_cast<std::int64_t>(places[i]) * row_bytes,
                               static_cast<std::size_t>(row_bytes));
                  }
                  shard.add_rows(asker, here, rows.data(), rates);
                });
}

void Pieces::get_rows(std::span<const RowId> ids, char* out) {
  const std::int64_t row_bytes = cols_ * width_;
  exchange_rows(TableOperation::get_rows, {}, {}, ids, nullptr, out,
                [&](Shard& shard, const std::vector<RowId>& here, const std::vector<std::size_t>& places) {
                  std::vector<char> rows(here.size() * static_cast<std::size_t>(row_bytes));
                  shard.get_rows(here, rows.data());
                  for (std::size_t i = 0; i < here.size(); ++i) {
                    copy_bytes(out + static_cast<std::int64_t>(places[i]) * row_bytes,
                               rows.data() + static_cast<std::int64_t>(i) * row_bytes,
                               static_cast<std::size_t>(row_bytes));
                  }
                });
}

}  // namespace pleiad
