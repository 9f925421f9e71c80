// Saves and loads the rows of a sparse table for snapshots.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"
#include "pleiad/error.h"
#include "table/table_snapshot.h"

namespace pleiad {

namespace {

std::string ids_name(const Table& table) { return table.name() + "/ids"; }
std::string units_name(const Table& table) { return table.name() + "/units"; }

constexpr ElementType kIdType{.name = "I64", .bits = 64};

void append_bytes(RawBytes& to, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + bytes);
}

/// Returns the number of saved rows.
std::int64_t saved_rows(const Table& table, const SavedSet& set) {
  const std::vector<std::string> names = set.names();
  if (std::ranges::find(names, ids_name(table)) == names.end()) return 0;  // a table without rows has no array
  const SavedSet::Array& ids = set.at(ids_name(table));
  if (ids.shape.size() != 1 || ids.type.name != kIdType.name) {
    throw FileError(fmt::format("array \"{}\" is not a list of row ids", ids_name(table)));
  }
  return ids.shape[0];
}

}  // namespace

void copy_rows(Table& table, BufferPool& spare, std::vector<CopiedRegion>& out) {
  const World& world = table.context().engine->world();
  const std::int64_t cols = table.spec().cols;
  table.each_local_shard([&](Shard& shard, ShardRange) {
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const auto workers = static_cast<std::size_t>(storage.shape().workers);
    const std::size_t row_bytes = static_cast<std::size_t>(cols * storage.width());
    const std::int64_t local = world.here().local;
    const std::int64_t stripes = shard.in_use().end;
    const Geometry& g = shard.geometry();
    const StripeRange mine{.first = stripes * local / world.local_ranks(),
                           .end = stripes * (local + 1) / world.local_ranks()};
    const auto most = static_cast<std::size_t>(  // an upper bound: some units may be free
        mine.first == mine.end ? 0 : g.end_unit(mine.end - 1) - g.first_unit(mine.first));
    RawBytes ids = spare.take(most * sizeof(RowId));
    RawBytes values = spare.take(most * row_bytes);
    RawBytes units = spare.take(most * static_cast<std::size_t>(state.per_unit) * sizeof(double));
    std::vector<RawBytes> states;
    for (std::size_t a = 0;
         a < static_cast<std::size_t>(state.per_element) + static_cast<std::size_t>(state.per_worker) * workers; ++a) {
      states.push_back(spare.take(most * row_bytes));
    }
    shard.visit(mine, [&](std::int64_t stripe) {
      const std::int64_t end = std::min(g.end_unit(stripe), shard.sparse()->units());
      for (std::int64_t unit = g.first_unit(stripe); unit < end; ++unit) {
        if (!shard.sparse()->published(unit)) continue;
        const RowId id = shard.sparse()->id_of(unit);
        append_bytes(ids, &id, sizeof id);
        append_bytes(values, storage.value(g.start(unit)), row_bytes);
        for (std::size_t a = 0; a < states.size(); ++a) {
          append_bytes(states[a], storage.state(static_cast<int>(a), g.start(unit)), row_bytes);
        }
        if (state.per_unit > 0) {
          append_bytes(units, storage.unit(unit), static_cast<std::size_t>(state.per_unit) * sizeof(double));
        }
      }
    });
    const auto rows = static_cast<std::int64_t>(ids.size() / sizeof(RowId));
    if (rows == 0) return;
    const auto put = [&](std::string array, ElementType type, const std::vector<std::int64_t>& extent, int counted,
                         RawBytes bytes) {
      out.push_back({.array = std::move(array),
                     .type = type,
                     .shape = extent,
                     .box = {.begin = std::vector<std::int64_t>(extent.size()), .extent = extent},
                     .bytes = std::move(bytes),
                     .counted = counted});
    };
    const ElementType type = element_type(table.spec().options.dtype);
    put(ids_name(table), kIdType, {rows}, 0, std::move(ids));
    put(table.name(), type, {rows, cols}, 0, std::move(values));
    for (int k = 0; k < state.per_element; ++k) {
      put(state_name(table, k), type, {rows, cols}, 0, std::move(states[static_cast<std::size_t>(k)]));
    }
    // Array k of worker w has the index per_element + w * per_worker + k. In the file, the arrays k of all workers are
    // contiguous.
    for (int k = 0; k < state.per_worker; ++k) {
      RawBytes all = spare.take(workers * static_cast<std::size_t>(rows) * row_bytes);
      for (std::size_t w = 0; w < workers; ++w) {
        const auto& one =
            states[static_cast<std::size_t>(state.per_element + k) + w * static_cast<std::size_t>(state.per_worker)];
        append_bytes(all, one.data(), one.size());
      }
      put(worker_name(table, k), type, {static_cast<std::int64_t>(workers), rows, cols}, 1, std::move(all));
    }
    if (state.per_unit > 0) put(units_name(table), kUnitType, {rows, state.per_unit}, 0, std::move(units));
  });
}

void check_rows(const Table& table, const SavedSet& set, const std::string& where) {
  const TableSpec& spec = table.spec();
  const Metadata& metadata = set.manifest().metadata;
  const auto kind = metadata.find(fmt::format("table.{}.kind", table.name()));
  if (kind == metadata.end() || (kind->second != "sparse" && kind->second != "key_value")) {
    throw FileError(fmt::format("{}: table \"{}\" is {}; the saved table is {}", where, table.name(), spec.kind(),
                                kind == metadata.end() ? "not there" : kind->second));
  }
  const std::int64_t rows = saved_rows(table, set);
  if (rows == 0) return;
  const SavedSet::Array& saved = set.at(table.name());
  const ElementType type = element_type(spec.options.dtype);
  if (saved.type.name != type.name || saved.shape != std::vector{rows, spec.cols}) {
    throw FileError(fmt::format("{}: table \"{}\" has rows of {} {}, {} of them saved; the saved array is {} {}", where,
                                table.name(), spec.cols, type.name, rows, fmt::join(saved.shape, " x "),
                                saved.type.name));
  }
  if (spec.options.max_rows > 0 && !spec.options.evict && rows > spec.options.max_rows) {
    throw FileError(fmt::format("{}: table \"{}\" may hold {} rows (max_rows); {} were saved", where, table.name(),
                                grouped(spec.options.max_rows), grouped(rows)));
  }
}

void load_rows(Table& table, const SavedSet& set, bool values_only, bool same_workers) {
  const World& world = table.context().engine->world();
  const std::int64_t local = world.here().local;
  const std::int64_t cols = table.spec().cols;
  const std::int64_t total = saved_rows(table, set);
  const std::int64_t last = total * (local + 1) / world.local_ranks();
  table.each_local_shard([&](Shard& shard, ShardRange) {
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const int workers = storage.shape().workers;
    const auto row_bytes = static_cast<std::size_t>(cols * storage.width());
    const auto part = std::max<std::int64_t>(1, (1 << 22) / static_cast<std::int64_t>(row_bytes));
    for (std::int64_t first = total * local / world.local_ranks(); first < last; first += part) {
      const std::int64_t rows = std::min(part, last - first);
      const Box box{.begin = {first, 0}, .extent = {rows, cols}};
      std::vector<RowId> ids(static_cast<std::size_t>(rows));
      set.read(ids_name(table), {.begin = {first}, .extent = {rows}}, std::as_writable_bytes(std::span(ids)));
      const std::size_t bytes = row_bytes * static_cast<std::size_t>(rows);
      std::vector<std::byte> values(bytes);
      set.read(table.name(), box, values);
      // One buffer for each array of the storage; empty if the array is reset.
      std::vector<std::vector<std::byte>> states(
          static_cast<std::size_t>(state.per_element + state.per_worker * workers));
      std::vector<double> units;
      if (!values_only) {
        for (int k = 0; k < state.per_element; ++k) {
          states[static_cast<std::size_t>(k)].resize(bytes);
          set.read(state_name(table, k), box, states[static_cast<std::size_t>(k)]);
        }
        for (int a = 0; same_workers && a < state.per_worker * workers; ++a) {
          auto& buffer = states[static_cast<std::size_t>(state.per_element + a)];
          buffer.resize(bytes);
          set.read(worker_name(table, a % state.per_worker),
                   {.begin = {a / state.per_worker, first, 0}, .extent = {1, rows, cols}}, buffer);
        }
        if (state.per_unit > 0) {
          units.resize(static_cast<std::size_t>(rows * state.per_unit));
          set.read(units_name(table), {.begin = {first, 0}, .extent = {rows, state.per_unit}},
                   std::as_writable_bytes(std::span(units)));
        }
      }
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!table.is_here(ids[i])) continue;
        const std::int64_t unit = shard.unit_for(ids[i]);
        const std::int64_t stripe = shard.geometry().stripe_of(unit);
        shard.visit({stripe, stripe + 1}, [&](std::int64_t) {
          const Change change(storage.stripe(stripe));
          storage.note_change(storage.stripe(stripe), unit);
          const std::int64_t element = shard.geometry().start(unit);
          std::memcpy(storage.value(element), values.data() + i * row_bytes, row_bytes);
          storage.start_states(unit);
          for (std::size_t a = 0; a < states.size(); ++a) {
            if (states[a].empty()) continue;
            std::memcpy(storage.state(static_cast<int>(a), element), states[a].data() + i * row_bytes, row_bytes);
          }
          if (!units.empty()) {
            std::copy_n(units.data() + i * static_cast<std::size_t>(state.per_unit), state.per_unit,
                        storage.unit(unit));
          }
        });
      }
    }
  });
}

}  // namespace pleiad
