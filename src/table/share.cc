#include "table/share.h"

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
struct Portion {
  Shard* shard = nullptr;
  StripeRange stripes;
  std::int64_t first = 0;  ///< index of the first element in the table
  std::int64_t count = 0;
  std::int64_t in_shard = 0;  ///< index of the first element in the shard

  [[nodiscard]] std::int64_t first_unit() const { return shard->geometry().first_unit(stripes.first); }
  [[nodiscard]] std::int64_t end_unit() const { return shard->geometry().end_unit(stripes.end - 1); }
};

void each_portion(Table& table, FunctionRef<void(const Portion&)> work) {
  const Engine& engine = *table.context().engine;
  const std::int64_t cols = table.spec().matrix ? table.spec().cols : 1;
  const std::int64_t local = engine.place(engine.rank()).local;
  table.each_shard_here([&](Shard& shard, ShardRange range) {
    const Geometry& g = shard.geometry();
    Portion portion{.shard = &shard,
                    .stripes = {.first = g.stripes() * local / engine.local_ranks(),
                                .end = g.stripes() * (local + 1) / engine.local_ranks()}};
    if (portion.stripes.first == portion.stripes.end) return;
    portion.in_shard = g.start(portion.first_unit());
    portion.first = range.begin * cols + portion.in_shard;
    portion.count = g.start(portion.end_unit()) - portion.in_shard;
    work(portion);
  });
}

Box box_of(const TableSpec& spec, const Portion& portion) {
  if (!spec.matrix) return {.begin = {portion.first}, .extent = {portion.count}};
  return {.begin = {portion.first / spec.cols, 0}, .extent = {portion.count / spec.cols, spec.cols}};
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

void copy_share(Table& table, SpareBytes& spare, std::vector<CopiedPiece>& out) {
  if (table.spec().sparse) return copy_rows(table, spare, out);
  const TableSpec& spec = table.spec();
  const ElementType type = element_type(spec.options.dtype);
  each_portion(table, [&](const Portion& portion) {
    Shard& shard = *portion.shard;
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const std::int64_t width = storage.width();
    const int workers = storage.shape().workers;
    const auto bytes = static_cast<std::size_t>(portion.count * width);

    const auto piece_for = [&](std::string name, std::size_t times = 1) {
      CopiedPiece piece{.array = std::move(name),
                        .type = type,
                        .shape = shape_of(spec),
                        .box = box_of(spec, portion),
                        .bytes = spare.take(bytes * times)};
      piece.bytes.resize(bytes * times);
      return piece;
    };
    CopiedPiece values = piece_for(table.name());
    std::vector<CopiedPiece> states;
    for (int k = 0; k < state.per_element; ++k) {
      states.push_back(piece_for(state_name(table, k)));
    }
    // Array k of worker w has the index per_element + w * per_worker + k. In the file, the arrays k of all workers are
    // contiguous.
    for (int k = 0; k < state.per_worker; ++k) {
      states.push_back(piece_for(worker_name(table, k), static_cast<std::size_t>(workers)));
      CopiedPiece& piece = states.back();
      piece.shape.insert(piece.shape.begin(), workers);
      piece.box = with_workers(piece.box, workers);
    }
    CopiedPiece units{.array = {}, .type = kUnitType, .shape = {}, .box = {}, .bytes = {}};
    const std::int64_t first_unit = portion.first_unit();
    const std::int64_t columns = 1 + state.per_unit;
    if (state.per_unit > 0) {
      units.array = fmt::format("{}{}", units_prefix(table), portion.first - portion.in_shard);
      units.shape = {shard.geometry().units, columns};
      units.box = {.begin = {first_unit, 0}, .extent = {portion.end_unit() - first_unit, columns}};
      units.bytes.resize(static_cast<std::size_t>(units.box.count()) * sizeof(double));
    }

    shard.visit(portion.stripes, [&](std::int64_t stripe) {
      const Geometry& g = shard.geometry();
      const std::int64_t element = g.start(g.first_unit(stripe));
      const auto run = static_cast<std::size_t>((g.start(g.end_unit(stripe)) - element) * width);
      const auto at = static_cast<std::size_t>((element - portion.in_shard) * width);
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
        const auto start = static_cast<double>(portion.first - portion.in_shard + g.start(unit));
        std::memcpy(row, &start, sizeof start);
        std::memcpy(row + sizeof start, storage.unit(unit), static_cast<std::size_t>(state.per_unit) * sizeof(double));
      }
    });
    out.push_back(std::move(values));
    for (CopiedPiece& piece : states) out.push_back(std::move(piece));
    if (state.per_unit > 0) out.push_back(std::move(units));
  });
}

void check_share(const Table& table, const SavedSet& set, bool values_only, const std::string& where) {
  const TableSpec& spec = table.spec();
  const auto words = [](const ElementType& type, const std::vector<std::int64_t>& shape) {
    return fmt::format("{} {}", fmt::join(shape, " x "), type.name);
  };
  if (spec.sparse) {
    check_rows(table, set, where);
  } else {
    const SavedSet::Array& saved = set.at(table.name());
    const ElementType type = element_type(spec.options.dtype);
    if (saved.type.name != type.name || saved.shape != shape_of(spec)) {
      throw FileError(fmt::format("{}: table \"{}\" has {}; the saved one has {}", where, table.name(),
                                  words(type, shape_of(spec)), words(saved.type, saved.shape)));
    }
  }
  if (values_only) return;
  const std::string rule = fmt::format("table.{}.rule", table.name());
  const auto found = set.manifest().metadata.find(rule);
  if (found != set.manifest().metadata.end() && found->second != spec.options.updater.rule) {
    throw FileError(fmt::format(
        "{}: table \"{}\" has the rule \"{}\"; it was saved with \"{}\", which keeps other numbers (values_only loads "
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
      throw FileError(fmt::format("array \"{}\" is no list of {} numbers for each unit", name, per_unit));
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

void clear_share(Table& table) {
  const Engine& engine = *table.context().engine;
  if (!table.spec().sparse || engine.place(engine.rank()).local != 0) return;
  table.each_shard_here([](Shard& shard, ShardRange) { shard.sparse()->clear(); });
}

void load_share(Table& table, const SavedSet& set, bool values_only, bool same_workers) {
  if (table.spec().sparse) return load_rows(table, set, values_only, same_workers);
  const TableSpec& spec = table.spec();
  each_portion(table, [&](const Portion& portion) {
    Shard& shard = *portion.shard;
    const Storage& storage = shard.storage();
    const StateLayout& state = storage.shape().state;
    const int workers = storage.shape().workers;
    const auto bytes = static_cast<std::size_t>(portion.count * storage.width());
    const Box box = box_of(spec, portion);

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

    shard.visit(portion.stripes, [&](std::int64_t stripe) {
      const Geometry& g = shard.geometry();
      const std::int64_t element = g.start(g.first_unit(stripe));
      const auto run = static_cast<std::size_t>((g.start(g.end_unit(stripe)) - element) * storage.width());
      const auto at = static_cast<std::size_t>((element - portion.in_shard) * storage.width());
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
        auto saved = units.upper_bound(portion.first - portion.in_shard + g.start(unit));
        if (saved != units.begin()) std::ranges::copy(std::prev(saved)->second, to);
      }
    });
  });
}

}  // namespace pleiad
