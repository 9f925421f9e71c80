// Functions of tables with rows, other than adds and gets.
#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "core/problem.h"
#include "engine/run_collectively.h"
#include "pleiad/error.h"
#include "table/clocked_call.h"

namespace pleiad {

ChangedRows Table::get_changed() {
  engine_.members().check_usable(spec_.handle());
  if (!spec_.options.track_changes) {
    throw StateError(fmt::format("{} the table was created without track_changes", where("get_changed")));
  }
  const std::lock_guard lock(seen_mutex_);
  auto seen = seen_;  // a copy: after a failure, the next call returns the rows that this one did not
  ChangedRows changed = take_rows("get_changed", seen);
  seen_ = std::move(seen);
  return changed;
}

ChangedRows Table::get_all() {
  engine_.members().check_usable(spec_.handle());
  std::vector<std::vector<std::uint64_t>> nothing;
  return take_rows("get_all", nothing);
}

ChangedRows Table::take_rows(std::string_view name, std::vector<std::vector<std::uint64_t>>& seen) {
  if (clock_ && context_->roster.worker < 0) {
    throw StateError(fmt::format("{} this rank is not a worker, so it cannot call a synchronous table", where(name)));
  }
  ChangedRows rows;
  rows.dtype = spec_.options.dtype;
  const auto row_bytes = static_cast<std::size_t>(spec_.cols * width_);
  const auto run = [&] {
    run_call(Call::get, 0, [&] {
      shard_map_->take_changed(seen, [&](RowId id, const char* row) {
        rows.ids.push_back(id);
        const auto* bytes = reinterpret_cast<const std::byte*>(row);
        rows.bytes.insert(rows.bytes.end(), bytes, bytes + row_bytes);
      });
    });
    got_.bytes.fetch_add(rows.bytes.size(), std::memory_order_relaxed);
  };
  if (!clock_) {
    drain_background();
    run();
  } else {
    const ClockedCall call(*this, name);
    run();
  }
  return rows;
}

std::int64_t Table::rows() {
  engine_.members().check_usable(spec_.handle());
  if (!spec_.sparse) return spec_.rows;
  drain_background();
  return shard_map_->rows();
}

std::int64_t Table::evict() {
  engine_.members().check_usable(spec_.handle());
  if (!spec_.evicts()) {
    throw StateError(fmt::format("{} the table was created without evict or max_age", where("evict")));
  }
  drain_background();
  return shard_map_->evict();
}

void Table::set_rows(std::span<const RowId> ids, const ConstView& values, int root) {
  begin_set({.all = false, .ids = ids}, values, root);
  const bool gives = engine_.world().rank() == root;
  auto count = static_cast<std::int64_t>(ids.size());
  engine_.collectives().broadcast(&count, sizeof count, root);
  const bool writes = engine_.world().makes_segments();
  if (writes) shard_map_->each_local_shard([](Shard& shard, ShardRange) { shard.sparse()->clear(); });
  engine_.collectives().barrier();
  const std::int64_t row_bytes = spec_.cols * width_;
  const std::int64_t part = std::max<std::int64_t>(1, (1 << 20) / row_bytes);
  std::vector<RowId> some;
  std::vector<char> rows;
  std::optional<Problem> problem;
  for (std::int64_t first = 0; first < count; first += part) {
    const std::int64_t n = std::min(part, count - first);
    some.resize(static_cast<std::size_t>(n));
    rows.resize(static_cast<std::size_t>(n * row_bytes));
    if (gives) {
      std::copy_n(ids.data() + first, n, some.data());
      std::memcpy(rows.data(), static_cast<const char*>(values.data) + first * row_bytes, rows.size());
    }
    engine_.collectives().broadcast(some.data(), some.size() * sizeof(RowId), root);
    engine_.collectives().broadcast(rows.data(), rows.size(), root);
    if (!writes || problem) continue;
    try {
      shard_map_->each_local_shard([&](Shard& shard, ShardRange) {
        for (std::size_t i = 0; i < some.size(); ++i) {
          if (is_here(some[i])) shard.put_row(some[i], rows.data() + static_cast<std::int64_t>(i) * row_bytes);
        }
      });
    } catch (const Error&) {
      problem = Problem::current();  // the other ranks are still in the loop
    }
  }
  run_collectively(engine_, "set", [&] {
    if (problem) problem->raise();
  });
}

}  // namespace pleiad
