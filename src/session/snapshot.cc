#include "session/snapshot.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/option_list.h"
#include "core/text.h"
#include "engine/run_collectively.h"
#include "file/atomic.h"
#include "file/series.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "snapshot";
constexpr std::string_view kNote = "note.";

fs::path entry_file(const fs::path& folder, const std::string& tag, int rank) {
  return folder / fmt::format("{}-{}.entry", tag, rank);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw FileError(fmt::format("{}: cannot be read", path.string()));
  return text.str();
}

/// All ranks must see the same folder. A folder on another host's local disk does not count.
void require_folder(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw FileError(
        fmt::format("{}: this rank cannot see the folder; all ranks must see the same one", folder.string()));
  }
}

/// The call counts of all ranks: at(r, t) belongs to rank r and table t.
struct Clocks {
  std::size_t tables = 0;
  std::vector<Table::ClockCounts> counts;
  [[nodiscard]] const Table::ClockCounts& at(int rank, std::size_t table) const {
    return counts[static_cast<std::size_t>(rank) * tables + table];
  }
};

bool counts_calls(const TableSpec& spec) { return spec.options.clock == "sync" && spec.options.backup == 0; }

/// Collective. If workers have made different numbers of calls to a synchronous table, they are in the middle of a
/// round.
Clocks check_clocks(const SessionCore& core) {
  Engine& engine = core.engine();
  const auto tables = core.tables();
  std::vector<Table::ClockCounts> mine;
  run_collectively(engine, "save", [&] {
    for (const auto& table : tables) mine.push_back(table->clock_counts());
  });
  Clocks clocks{.tables = tables.size(), .counts = {}};
  clocks.counts.resize(mine.size() * static_cast<std::size_t>(engine.world().size()));
  engine.collectives().all_gather(mine.data(), clocks.counts.data(), mine.size() * sizeof(Table::ClockCounts));
  const std::vector<int>& workers = core.context().roster.workers;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    // A round that one rank knows to be closed counts as closed in what all ranks save.
    for (int r = 0; r < engine.world().size(); ++r) tables[t]->close_rounds(clocks.at(r, t).closed);
    if (!counts_calls(tables[t]->spec())) continue;
    for (const int other : workers) {
      const Table::ClockCounts& a = clocks.at(workers[0], t);
      const Table::ClockCounts& b = clocks.at(other, t);
      if (a.adds == b.adds && a.gets == b.gets) continue;
      throw OrderError(fmt::format(
          "[save] table \"{}\" is synchronous, and its workers are not at the same point: {} has made {} adds and {} "
          "gets, {} {} and {}",
          tables[t]->name(), engine.members().describe(workers[0]), a.adds, a.gets, engine.members().describe(other),
          b.adds, b.gets));
    }
  }
  return clocks;
}

Metadata metadata_of(const SessionCore& core, const SnapshotNote& note, const Clocks& clocks) {
  Metadata m;
  const std::vector<int>& workers = core.context().roster.workers;
  m["step"] = std::to_string(note.step);
  m["saved"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  m["ranks"] = std::to_string(core.engine().world().size());
  m["workers"] = std::to_string(workers.size());
  for (const auto& [key, value] : note.text) m[std::string(kNote) + key] = value;
  const auto tables = core.tables();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TableSpec& spec = tables[t]->spec();
    const auto say = [&](std::string_view what, std::string value) {
      m[fmt::format("table.{}.{}", tables[t]->name(), what)] = std::move(value);
    };
    say("kind", spec.kind());
    for (const auto& field : table_fields()) {
      if (field.name != "name") say(field.name, field.get(spec.options));
    }
    for (const auto& field : updater_fields()) say(field.name, field.get(spec.options.updater));
    if (workers.empty()) continue;
    if (counts_calls(spec)) {
      say("clock.adds", std::to_string(clocks.at(workers[0], t).adds));
      say("clock.gets", std::to_string(clocks.at(workers[0], t).gets));
    } else if (spec.options.clock == "sync") {
      say("clock.rounds", std::to_string(clocks.at(workers[0], t).closed));
    } else if (spec.options.clock == "ssp") {
      std::vector<std::uint64_t> ticks;
      for (const int worker : workers) ticks.push_back(clocks.at(worker, t).ticks);
      say("clock.ticks", fmt::format("{}", fmt::join(ticks, ",")));
    }
  }
  return m;
}

}  // namespace

namespace {

/// Collective. The rows of a sparse table are stored in rank order: each rank learns how many rows precede its own.
void place_rows(Engine& engine, std::vector<CopiedRegion>& regions, const std::vector<std::size_t>& ends) {
  std::vector<std::int64_t> mine(ends.size());
  const auto each = [&](auto&& work) {
    for (std::size_t t = 0, i = 0; t < ends.size(); ++t) {
      for (; i < ends[t]; ++i) {
        if (regions[i].counted >= 0) work(t, regions[i], static_cast<std::size_t>(regions[i].counted));
      }
    }
  };
  each([&](std::size_t t, const CopiedRegion& region, std::size_t d) { mine[t] = region.box.extent[d]; });
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(engine.world().size()));
  engine.collectives().all_gather(mine.data(), all.data(), mine.size() * sizeof(std::int64_t));
  each([&](std::size_t t, CopiedRegion& region, std::size_t d) {
    region.shape[d] = 0;
    for (int r = 0; r < engine.world().size(); ++r) {
      if (r == engine.world().rank()) region.box.begin[d] = region.shape[d];
      region.shape[d] += all[static_cast<std::size_t>(r) * mine.size() + t];
    }
  });
}

}  // namespace

SnapshotCopy copy_tables(SessionCore& core, const SnapshotNote& note, BufferPool& spare) {
  Engine& engine = core.engine();
  SnapshotCopy copy;
  const Clocks clocks = check_clocks(core);
  std::uint64_t number = std::random_device{}() | (std::uint64_t{std::random_device{}()} << 32);
  engine.collectives().broadcast(&number, sizeof number, engine.world().snapshot_committer());
  copy.tag = fmt::format("part-{:016x}", number);
  std::vector<std::size_t> ends;  // end index of each table's regions
  run_collectively(engine, "save", [&] {
    std::vector<std::string> names;
    for (const auto& table : core.tables()) {
      if (std::ranges::find(names, table->name()) != names.end()) {
        throw InvalidArgument(fmt::format(
            "[save] two tables are called \"{}\"; each table of a snapshot needs a unique name", table->name()));
      }
      names.push_back(table->name());
      copy_for_snapshot(*table, spare, copy.regions);
      ends.push_back(copy.regions.size());
    }
    copy.metadata = metadata_of(core, note, clocks);
  });
  spare.drop();
  if (std::ranges::any_of(core.tables(), [](const auto& table) { return table->spec().sparse; })) {
    place_rows(engine, copy.regions, ends);
  }
  return copy;
}

void write_snapshot_part(const fs::path& folder, const SnapshotCopy& copy, int rank) {
  std::vector<PieceToWrite> regions;
  for (const CopiedRegion& region : copy.regions) {
    regions.push_back(
        {.array = region.array, .type = region.type, .shape = region.shape, .box = region.box, .bytes = region.bytes});
  }
  // A rank of a small world may have no stripe to write.
  const std::string entry = regions.empty() ? "" : write_part(folder, copy.tag, rank, regions).to_text();
  write_whole_file(entry_file(folder, copy.tag, rank), std::as_bytes(std::span(entry)));
}

void commit_snapshot(const fs::path& folder, const SnapshotCopy& copy, int ranks,
                     FunctionRef<bool(const std::vector<int>& missing)> patience) {
  for (;;) {
    std::vector<int> missing;
    for (int r = 0; r < ranks; ++r) {
      if (!fs::exists(entry_file(folder, copy.tag, r))) missing.push_back(r);
    }
    if (missing.empty()) break;
    if (!patience(missing)) {
      throw FileError(
          fmt::format("{}: the parts of rank {} did not arrive", folder.string(), fmt::join(missing, ", ")));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Manifest manifest{.kind = kKind, .metadata = copy.metadata, .parts = {}};
  for (int r = 0; r < ranks; ++r) {
    const fs::path path = entry_file(folder, copy.tag, r);
    const std::string text = read_text(path);
    if (!text.empty()) manifest.parts.push_back(PartEntry::from_text(text, path.string()));
  }
  manifest.commit(folder);
  std::error_code ignored;
  for (int r = 0; r < ranks; ++r) fs::remove(entry_file(folder, copy.tag, r), ignored);
}

namespace {

/// An error may occur after the commit, because syncing the folder to disk is the last step.
bool is_committed(const fs::path& folder, const SnapshotCopy& copy) {
  try {
    const Manifest manifest = Manifest::read(folder);
    return std::ranges::any_of(manifest.parts, [&](const PartEntry& part) { return part.file.starts_with(copy.tag); });
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void remove_snapshot_part(const fs::path& folder, const SnapshotCopy& copy, int rank) {
  if (is_committed(folder, copy)) return;
  std::error_code ignored;
  fs::remove(entry_file(folder, copy.tag, rank), ignored);
  fs::remove(folder / part_file(copy.tag, rank), ignored);
}

void abandon_snapshot(const fs::path& folder, const SnapshotCopy& copy, int rank, bool commits) {
  try {
    remove_snapshot_part(folder, copy, rank);
    if (!commits || is_committed(folder, copy)) return;
    for (const auto& file : fs::directory_iterator(folder)) {
      std::error_code ignored;
      if (file.path().filename().string().starts_with(copy.tag)) fs::remove(file.path(), ignored);
    }
  } catch (const std::exception&) {  // the next save removes remaining files
  }
}

void save_tables(Session& session, const fs::path& folder, const SnapshotNote& note) {
  SessionCore& core = session.core();
  Engine& engine = core.engine();
  core.barrier_for_all("save");
  run_collectively(engine, "save", [&] {
    if (engine.world().commits_snapshots()) make_folder(folder);
  });
  BufferPool none;
  const SnapshotCopy copy = copy_tables(core, note, none);
  try {
    run_collectively(engine, "save", [&] {
      require_folder(folder);
      write_snapshot_part(folder, copy, engine.world().rank());
    });
    run_collectively(engine, "save", [&] {
      if (engine.world().commits_snapshots())
        commit_snapshot(folder, copy, engine.world().size(), [](const auto&) { return false; });
    });
  } catch (...) {
    remove_snapshot_part(folder, copy, engine.world().rank());
    throw;
  }
}

SnapshotNote load_tables(Session& session, const fs::path& folder, const LoadOptions& options) {
  SessionCore& core = session.core();
  Engine& engine = core.engine();
  core.barrier_for_all("load");
  std::optional<SavedSet> set;
  SnapshotNote note;
  bool same_workers = false;
  run_collectively(engine, "load", [&] {
    set.emplace(folder);
    if (set->manifest().kind != kKind) {
      throw FileError(
          fmt::format("{}: expected a snapshot of tables; received a {}", folder.string(), set->manifest().kind));
    }
    for (const auto& [key, value] : set->manifest().metadata) {
      if (key.starts_with(kNote)) note.text[key.substr(kNote.size())] = value;
    }
    const Metadata& metadata = set->manifest().metadata;
    if (const auto workers = metadata.find("workers"); workers != metadata.end()) {
      same_workers = workers->second == std::to_string(core.context().roster.workers.size());
    }
    if (const auto step = metadata.find("step"); step != metadata.end()) {
      note.step = number_option<std::int64_t>("step", step->second);
    }
    for (const auto& table : core.tables()) check_snapshot(*table, *set, options.values_only, folder.string());
    // Finds damage before the first value changes.
    if (engine.world().commits_snapshots()) set->verify();
  });
  run_collectively(engine, "load", [&] {
    for (const auto& table : core.tables()) clear_for_load(*table);
  });
  run_collectively(engine, "load", [&] {
    for (const auto& table : core.tables()) load_from_snapshot(*table, *set, options.values_only, same_workers);
  });
  return note;
}

}  // namespace pleiad
