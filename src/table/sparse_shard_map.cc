// The shard map of tables with rows: which host owns an id, which rows have changed, and how many there are.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "pleiad/error.h"
#include "table/shard_map.h"
#include "table/table_service.h"

namespace pleiad {

void ShardMap::assign_sparse_shards(const TableSpec& spec) {
  const std::vector<int>& servers = context_.roster.servers;
  check_row_length(engine_.world().one_host() ? 0 : cols_ * width_);
  const std::int64_t most = spec.options.max_rows;
  for (const int server : servers) {
    const int host = engine_.world().location(server).host;
    auto entry = std::ranges::find(entries_, host, &ShardEntry::host);
    if (entry == entries_.end()) entry = entries_.insert(entry, ShardEntry{.range = {}, .host = host});
    ++entry->range.end;
    entry_of_server_.push_back(static_cast<std::size_t>(entry - entries_.begin()));
  }
  for (ShardEntry& entry : entries_) {
    // A host may hold the share of the rows that corresponds to its number of servers.
    const std::int64_t own = entry.range.end;
    const auto all = static_cast<std::int64_t>(servers.size());
    entry.range.end = most == 0 ? 0 : std::max<std::int64_t>(1, most / all * own + (most % all * own + all - 1) / all);
  }
}

void ShardMap::request_each(TableOperation operation, Call call,
                            FunctionRef<void(std::size_t entry, std::span<const char>)> take,
                            FunctionRef<void(std::size_t entry, Shard&)> local) {
  const auto here = [&] {
    for (std::size_t p = 0; p < entries_.size(); ++p) {
      if (entries_[p].shard != nullptr) local(p, *entries_[p].shard);
    }
  };
  if (whole_ != nullptr) return here();
  const std::vector<int> to = carriers();
  std::vector<std::size_t> others;
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    if (entries_[p].shard == nullptr) others.push_back(p);
  }
  engine_.rpc()->exchange({.call = call,
                           .count = others.size(),
                           .request =
                               [&](std::size_t i) {
                                 const int host = entries_[others[i]].host;
                                 return OutgoingRequest{.to = to[static_cast<std::size_t>(host)],
                                                        .operation = static_cast<std::uint32_t>(operation),
                                                        .idempotent = true,
                                                        .bytes = sizeof(TableHead)};
                               },
                           .fill =
                               [&](std::size_t i, std::span<char> body) {
                                 const TableHead head = head_for(entries_[others[i]], {}, {});
                                 std::memcpy(body.data(), &head, sizeof head);
                               },
                           .take = [&](std::size_t i, std::span<const char> body) { take(others[i], body); },
                           .meanwhile = here});
}

std::vector<ShardMap::Extent> ShardMap::extents() {
  std::vector<Extent> extents(entries_.size());
  request_each(
      TableOperation::extent, Call::get,
      [&](std::size_t p, std::span<const char> body) {
        if (body.size() != sizeof(Extent)) throw TransportError("a reply has the wrong size");
        std::memcpy(&extents[p], body.data(), sizeof(Extent));
      },
      [&](std::size_t p, Shard& shard) {
        extents[p] = {.rows = shard.sparse() == nullptr ? shard.geometry().units : shard.sparse()->rows(),
                      .stripes = shard.in_use().end};
      });
  return extents;
}

std::int64_t ShardMap::rows() {
  std::int64_t rows = 0;
  for (const Extent& extent : extents()) rows += extent.rows;
  return rows;
}

std::int64_t ShardMap::evict() {
  std::int64_t gone = 0;
  request_each(
      TableOperation::evict, Call::add,
      [&](std::size_t, std::span<const char> body) {
        std::int64_t there = 0;
        if (body.size() != sizeof there) throw TransportError("a reply has the wrong size");
        std::memcpy(&there, body.data(), sizeof there);
        gone += there;
      },
      [&](std::size_t, Shard& shard) { gone += shard.evict(); });
  return gone;
}

void ShardMap::take_changed(std::vector<std::vector<std::uint64_t>>& seen,
                            FunctionRef<void(RowId id, const char* row)> take) {
  const std::int64_t row_bytes = cols_ * width_;
  const std::vector<Extent> extents = this->extents();
  seen.resize(entries_.size());
  struct StripeRequest {
    std::size_t entry;
    StripeRange stripes;
  };
  std::vector<StripeRequest> requests;
  // A reply may contain all rows of its stripes.
  const std::int64_t together = std::max<std::int64_t>(1, (1 << 20) / std::max(kStripeBytes, row_bytes));
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    // A stripe stays in use once it was, unless the table is loaded again.
    const std::int64_t stripes = extents[p].stripes;
    seen[p].resize(static_cast<std::size_t>(stripes));
    if (entries_[p].shard != nullptr) continue;
    for (std::int64_t first = 0; first < stripes; first += together) {
      requests.push_back({.entry = p, .stripes = {first, std::min(stripes, first + together)}});
    }
  }
  const auto part_of_seen = [&](const StripeRequest& one) {
    return std::span(seen[one.entry])
        .subspan(static_cast<std::size_t>(one.stripes.first),
                 static_cast<std::size_t>(one.stripes.end - one.stripes.first));
  };
  const auto here = [&] {
    for (std::size_t p = 0; p < entries_.size(); ++p) {
      if (entries_[p].shard == nullptr) continue;
      const std::int64_t base = entries_[p].range.begin;
      const StripeRange all{0, static_cast<std::int64_t>(seen[p].size())};
      entries_[p].shard->take_changed(all, seen[p], [&](RowId id, const char* row) { take(base + id, row); });
    }
  };
  if (whole_ != nullptr) return here();
  const std::vector<int> to = carriers();
  engine_.rpc()->exchange(
      {.call = Call::get,
       .count = requests.size(),
       .request =
           [&](std::size_t i) {
             return OutgoingRequest{.to = to[static_cast<std::size_t>(entries_[requests[i].entry].host)],
                                    .operation = static_cast<std::uint32_t>(TableOperation::changed),
                                    .idempotent = true,
                                    .bytes = sizeof(TableHead) + part_of_seen(requests[i]).size_bytes()};
           },
       .fill =
           [&](std::size_t i, std::span<char> body) {
             TableHead head = head_for(entries_[requests[i].entry], {}, {});
             const auto known = part_of_seen(requests[i]);
             head.first = requests[i].stripes.first;
             head.count = static_cast<std::int64_t>(known.size());
             std::memcpy(body.data(), &head, sizeof head);
             std::memcpy(body.data() + sizeof head, known.data(), known.size_bytes());
           },
       .take =
           [&](std::size_t i, std::span<const char> body) {
             const auto known = part_of_seen(requests[i]);
             const std::size_t each = sizeof(RowId) + static_cast<std::size_t>(row_bytes);
             if (body.size() < known.size_bytes() || (body.size() - known.size_bytes()) % each != 0) {
               throw TransportError("a reply has the wrong size");
             }
             std::memcpy(known.data(), body.data(), known.size_bytes());
             const std::int64_t base = entries_[requests[i].entry].range.begin;
             for (auto rest = body.subspan(known.size_bytes()); !rest.empty(); rest = rest.subspan(each)) {
               RowId id = 0;
               std::memcpy(&id, rest.data(), sizeof id);
               take(base + id, rest.data() + sizeof id);
             }
           },
       .meanwhile = here});
}

void TableService::on_whole(const TableHead& head, const IncomingRequest& request,
                            FunctionRef<std::span<char>(std::size_t)> answer) {
  const RequestTarget table = target(head);
  Shard& shard = *table.shard;
  if (table.cols == 0) throw InvalidArgument(fmt::format("table {} has no rows", head.table));
  if (request.operation == static_cast<std::uint32_t>(TableOperation::evict)) {
    if (shard.sparse() == nullptr) throw InvalidArgument(fmt::format("table {} is not sparse", head.table));
    const std::int64_t gone = shard.evict();
    std::memcpy(answer(sizeof gone).data(), &gone, sizeof gone);
    return;
  }
  const std::int64_t extent[2] = {shard.sparse() == nullptr ? shard.geometry().units : shard.sparse()->rows(),
                                  shard.in_use().end};
  std::memcpy(answer(sizeof extent).data(), extent, sizeof extent);
}

void TableService::on_changed(const TableHead& head, std::span<const char> rest,
                              FunctionRef<std::span<char>(std::size_t)> answer) {
  const RequestTarget table = target(head);
  Shard& shard = *table.shard;
  const std::int64_t stripes = shard.in_use().end;
  if (table.cols == 0 || head.first < 0 || head.count < 1 || head.count > stripes ||
      head.first > stripes - head.count ||
      rest.size() != static_cast<std::size_t>(head.count) * sizeof(std::uint64_t)) {
    throw InvalidArgument(
        fmt::format("a request to shard {} of table {} is wrong: no such stripes", head.shard, head.table));
  }
  std::vector<std::uint64_t> seen(static_cast<std::size_t>(head.count));
  std::memcpy(seen.data(), rest.data(), rest.size());
  std::vector<char> rows;
  const auto row_bytes = static_cast<std::size_t>(table.cols * table.width);
  shard.take_changed({head.first, head.first + head.count}, seen, [&](RowId id, const char* row) {
    const auto* bytes = reinterpret_cast<const char*>(&id);
    rows.insert(rows.end(), bytes, bytes + sizeof id);
    rows.insert(rows.end(), row, row + row_bytes);
  });
  const std::span<char> to = answer(rest.size() + rows.size());
  std::memcpy(to.data(), seen.data(), rest.size());
  if (!rows.empty()) std::memcpy(to.data() + rest.size(), rows.data(), rows.size());
}

}  // namespace pleiad
