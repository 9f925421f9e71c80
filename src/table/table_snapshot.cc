#include "table/table_snapshot.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/kernels.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::vector<std::int64_t> shape_of(const TableSpec& spec) {
  return spec.matrix ? std::vector{spec.rows, spec.cols} : std::vector{spec.cols};
}

std::string units_prefix(const Table& table) { return table.name() + "/units/"; }

/// The stripes of a shard that this rank handles, and their elements.
struct RankStripes {
  Shard* shard = nullptr;
  StripeRange stripes;
  std::int64_t first = 0;  ///< index of the first element in the table
  std::int64_t count = 0;
  std::int64_t in_shard = 0;  ///< index of the first element in the shard

  [[nodiscard]] std::int64_t first_unit() const { return shard->geometry().first_unit(stripes.first); }
  [[nodiscard]] std::int64_t end_unit() const { return shard->geometry().end_unit(stripes.end - 1); }
};

void each_rank_stripes(Table& table, FunctionRef<void(const RankStripes&)> work) {
  const World& world = table.context().engine->world();
  const std::int64_t cols = table.spec().matrix ? table.spec().cols : 1;
  const std::int64_t local = world.here().local;
  table.each_local_shard([&](Shard& shard, ShardRange range) {
    const Geometry& g = shard.geometry();
    RankStripes own{.shard = &shard,
                    .stripes = {.first = g.stripes() * local / world.local_ranks(),
                                .end = g.stripes() * (local + 1) / world.local_ranks()}};
    if (own.stripes.first == own.stripes.end) return;
    own.in_shard = g.start(own.first_unit());
    own.first = range.begin * cols + own.in_shard;
    own.count = g.start(own.end_unit()) - own.in_shard;
    work(own);
  });
}

Box box_of(const TableSpec& spec, const RankStripes& own) {
  if (!spec.matrix) return {.begin = {own.first}, .extent = {own.count}};
  return {.begin = {own.first / spec.cols, 0}, .extent = {own.count / spec.cols, spec.cols}};
}

Box with_workers(Box box, std::int64_t workers) {
  box.begin.insert(box.begin.begin(), 0);
  box.extent.insert(box.extent.begin(), workers);
  return box;
}

/// Calls each(array, address) for the given element of the shard in every array of the rule's state: first the
/// per-element arrays, then those of each worker.
template <class F>
void each_state(const Storage& storage, std::int64_t element, F&& each) {
  const StateLayout& state = storage.shape().state;
  const int arrays = state.per_element + state.per_worker * storage.shape().workers;
  for (int a = 0; a < arrays; ++a) each(a, storage.state(a, element));
}

}  // namespace

void copy_for_snapshot(Table& table, BufferPool& spare, std::vector<CopiedRegion>& out) {
  if (table.spec().sparse) return copy_rows(table, spare, out);
  const TableSpec& spec = table.spec();
  const ElementType type = element_type(spec.options.dtype);
  each_rank_stripes(table, [&](const RankStripes& own) {
    Shard& shard = *own.shard;
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const std::int64_t width = storage.width();
    const int workers = storage.shape().workers;
    const auto bytes = static_cast<std::size_t>(own.count * width);

    const auto region_for = [&](std::string name, std::size_t times = 1) {
      CopiedRegion region{.array = std::move(name),
                          .type = type,
                          .shape = shape_of(spec),
                          .box = box_of(spec, own),
                          .bytes = spare.take(bytes * times)};
      region.bytes.resize(bytes * times);
      return region;
    };
    CopiedRegion values = region_for(table.name());
    std::vector<CopiedRegion> states;
    for (int k = 0; k < state.per_element; ++k) {
      states.push_back(region_for(state_name(table, k)));
    }
    // Array k of worker w has the index per_element + w * per_worker + k. In the file, the arrays k of all workers are
    // contiguous.
    for (int k = 0; k < state.per_worker; ++k) {
      states.push_back(region_for(worker_name(table, k), static_cast<std::size_t>(workers)));
      CopiedRegion& region = states.back();
      region.shape.insert(region.shape.begin(), workers);
      region.box = with_workers(region.box, workers);
    }
    CopiedRegion units{.array = {}, .type = kUnitType, .shape = {}, .box = {}, .bytes = {}};
    const std::int64_t first_unit = own.first_unit();
    const std::int64_t columns = 1 + state.per_unit;
    if (state.per_unit > 0) {
      units.array = fmt::format("{}{}", units_prefix(table), own.first - own.in_shard);
      units.shape = {shard.geometry().units, columns};
      units.box = {.begin = {first_unit, 0}, .extent = {own.end_unit() - first_unit, columns}};
      units.bytes.resize(static_cast<std::size_t>(units.box.count()) * sizeof(double));
    }

    shard.visit(own.stripes, [&](std::int64_t stripe) {
      const Geometry& g = shard.geometry();
      const std::int64_t element = g.start(g.first_unit(stripe));
      const auto run = static_cast<std::size_t>((g.start(g.end_unit(stripe)) - element) * width);
      const auto at = static_cast<std::size_t>((element - own.in_shard) * width);
      copy_bytes(values.bytes.data() + at, storage.value(element), run);
      each_state(storage, element, [&](int a, const char* from) {
        if (a < state.per_element) {
          copy_bytes(states[static_cast<std::size_t>(a)].bytes.data() + at, from, run);
          return;
        }
        const int w = (a - state.per_element) / state.per_worker;
        const int k = (a - state.per_element) % state.per_worker;
        copy_bytes(states[static_cast<std::size_t>(state.per_element + k)].bytes.data() +
                       static_cast<std::size_t>(w) * bytes + at,
                   from, run);
      });
      if (state.per_unit == 0) return;
      for (std::int64_t unit = g.first_unit(stripe); unit < g.end_unit(stripe); ++unit) {
        std::byte* row = units.bytes.data() + static_cast<std::size_t>((unit - first_unit) * columns) * sizeof(double);
        const auto start = static_cast<double>(own.first - own.in_shard + g.start(unit));
        std::memcpy(row, &start, sizeof start);
        std::memcpy(row + sizeof start, storage.unit(unit), static_cast<std::size_t>(state.per_unit) * sizeof(double));
      }
    });
    out.push_back(std::move(values));
    for (CopiedRegion& region : states) out.push_back(std::move(region));
    if (state.per_unit > 0) out.push_back(std::move(units));
  });
}

void check_snapshot(const Table& table, const SavedSet& set, bool values_only, const std::string& where) {
  const TableSpec& spec = table.spec();
  const auto describe = [](const ElementType& type, const std::vector<std::int64_t>& shape) {
    return fmt::format("{} {}", fmt::join(shape, " x "), type.name);
  };
  if (spec.sparse) {
    check_rows(table, set, where);
  } else {
    const SavedSet::Array& saved = set.at(table.name());
    const ElementType type = element_type(spec.options.dtype);
    if (saved.type.name != type.name || saved.shape != shape_of(spec)) {
      throw FileError(fmt::format("{}: table \"{}\" has {}; the saved table has {}", where, table.name(),
                                  describe(type, shape_of(spec)), describe(saved.type, saved.shape)));
    }
  }
  if (values_only) return;
  const std::string rule = fmt::format("table.{}.rule", table.name());
  const auto found = set.manifest().metadata.find(rule);
  if (found != set.manifest().metadata.end() && found->second != spec.options.updater.rule) {
    throw FileError(
        fmt::format("{}: table \"{}\" has the rule \"{}\"; it was saved with \"{}\", which keeps different state "
                    "(values_only loads "
                    "the values alone)",
                    where, table.name(), spec.options.updater.rule, found->second));
  }
}

namespace {

/// The rule's state of the unit that begins at an element, or of the preceding one if the table was split differently.
using UnitStates = std::map<std::int64_t, std::vector<double>>;

UnitStates read_units(const Table& table, const SavedSet& set, int per_unit) {
  UnitStates units;
  if (per_unit == 0) return units;
  for (const std::string& name : set.names()) {
    if (!name.starts_with(units_prefix(table))) continue;
    const SavedSet::Array& array = set.at(name);
    if (array.shape.size() != 2 || array.shape[1] != 1 + per_unit || array.type.name != kUnitType.name) {
      throw FileError(fmt::format("array \"{}\" does not hold {} numbers for each unit", name, per_unit));
    }
    std::vector<double> rows(static_cast<std::size_t>(array.shape[0] * array.shape[1]));
    set.read(name, std::as_writable_bytes(std::span(rows)));
    for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(1 + per_unit)) {
      const auto* row = rows.data() + at;
      units[static_cast<std::int64_t>(row[0])].assign(row + 1, row + 1 + per_unit);
    }
  }
  return units;
}

}  // namespace

void clear_for_load(Table& table) {
  const World& world = table.context().engine->world();
  if (!table.spec().sparse || !world.makes_segments()) return;
  table.each_local_shard([](Shard& shard, ShardRange) { shard.sparse()->clear(); });
}

void load_from_snapshot(Table& table, const SavedSet& set, bool values_only, bool same_workers) {
  if (table.spec().sparse) return load_rows(table, set, values_only, same_workers);
  const TableSpec& spec = table.spec();
  each_rank_stripes(table, [&](const RankStripes& own) {
    Shard& shard = *own.shard;
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const int workers = storage.shape().workers;
    const auto bytes = static_cast<std::size_t>(own.count * storage.width());
    const Box box = box_of(spec, own);

    std::vector<std::byte> values(bytes);
    set.read(table.name(), box, values);
    // One buffer for each array of the storage; empty if the array is reset.
    std::vector<std::vector<std::byte>> states(
        static_cast<std::size_t>(state.per_element + state.per_worker * workers));
    UnitStates units;
    if (!values_only) {
      for (int k = 0; k < state.per_element; ++k) {
        states[static_cast<std::size_t>(k)].resize(bytes);
        set.read(state_name(table, k), box, states[static_cast<std::size_t>(k)]);
      }
      for (int w = 0; same_workers && w < workers; ++w) {
        for (int k = 0; k < state.per_worker; ++k) {
          auto& buffer = states[static_cast<std::size_t>(state.per_element + w * state.per_worker + k)];
          buffer.resize(bytes);
          Box one = with_workers(box, 1);
          one.begin[0] = w;
          set.read(worker_name(table, k), one, buffer);
        }
      }
      units = read_units(table, set, state.per_unit);
    }

    shard.visit(own.stripes, [&](std::int64_t stripe) {
      const Geometry& g = shard.geometry();
      const std::int64_t element = g.start(g.first_unit(stripe));
      const auto run = static_cast<std::size_t>((g.start(g.end_unit(stripe)) - element) * storage.width());
      const auto at = static_cast<std::size_t>((element - own.in_shard) * storage.width());
      const Change change(storage.stripe(stripe));
      storage.note_changes(stripe);
      std::memcpy(storage.value(element), values.data() + at, run);
      each_state(storage, element, [&](int a, char* to) {
        const auto& saved = states[static_cast<std::size_t>(a)];
        if (!saved.empty()) {
          std::memcpy(to, saved.data() + at, run);
        } else if (a >= state.per_element && state.per_worker_starts_as_value) {
          std::memcpy(to, values.data() + at, run);
        } else {
          std::memset(to, 0, run);
        }
      });
      for (std::int64_t unit = g.first_unit(stripe); state.per_unit > 0 && unit < g.end_unit(stripe); ++unit) {
        double* to = storage.unit(unit);
        std::fill_n(to, state.per_unit, 0.0);
        auto saved = units.upper_bound(own.first - own.in_shard + g.start(unit));
        if (saved != units.begin()) std::ranges::copy(std::prev(saved)->second, to);
      }
    });
  });
}

}  // namespace pleiad
