// Snapshots: m ranks load what n ranks have saved, completely or not at all.
#include "pleiad/snapshot.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <mutex>

#include "file/manifest.h"
#include "pleiad/pleiad.hpp"
#include "session/snapshot.h"
#include "tests/cluster.h"
#include "tests/file/folder.h"
#include "updater/updater.h"

namespace pleiad {
namespace {

using test::Folder;
using test::hosts;
using test::kThreeStripes;

constexpr std::int64_t kSize = 70'001;  // three stripes of floats, the last one short
constexpr std::int64_t kRows = 11;
constexpr std::int64_t kCols = 5'000;

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 31) % 19) * 0.25F - 2;
  }
  return values;
}

struct Tables {
  ArrayTable array;
  MatrixTable matrix;

  Tables(Session& session, const std::string& rule)
      : array(session.create_array(kSize, options("a", rule), values(kSize))),
        matrix(session.create_matrix(kRows, kCols, options("m", rule), values(kRows * kCols))) {}

  static TableOptions options(const std::string& name, const std::string& rule) {
    TableOptions options;
    options.name = name;
    options.updater.rule = rule;
    options.updater.momentum = 0.5;
    return options;
  }
  static ConstView values(std::int64_t count) {
    static const std::vector<float> start = numbers(kSize + kRows * kCols, 3);
    return {start.data(), count, DType::float32};
  }
  void train(int seed) {
    array.add(numbers(kSize, seed));
    matrix.add(numbers(kRows * kCols, seed + 1));
    matrix.add_rows(std::vector<RowId>{3, 7, 3}, numbers(3 * kCols, seed + 2));
  }
  [[nodiscard]] std::vector<float> all() const {
    std::vector<float> out(static_cast<std::size_t>(kSize));
    array.get(out);
    std::vector<float> rows(static_cast<std::size_t>(kRows * kCols));
    matrix.get(rows);
    out.insert(out.end(), rows.begin(), rows.end());
    return out;
  }
};

/// Every rank's error message, or an empty text.
template <class F>
std::string problem_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void contains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), text.npos) << text; }

// Only the last worker trains after the load, so the state for each worker is either reset or the same in both runs.
void saved_by(int savers, int loaders, int host_count, const std::string& rule) {
  SCOPED_TRACE(rule + " saved by " + std::to_string(savers) + ", loaded by " + std::to_string(loaders));
  const Folder folder;
  std::vector<float> at_save;
  std::vector<float> later;
  run_cluster(
      savers,
      [&](Session& session) {
        Tables tables(session, rule);
        if (session.rank() == 0) tables.train(1);
        session.barrier();
        if (session.rank() == session.size() - 1) tables.train(4);
        save_tables(session, folder / "set", {.step = 17, .text = {{"epoch", "3"}}});
        if (session.rank() == 0) {
          at_save = tables.all();
          tables.train(9);
          later = tables.all();
        }
        session.barrier();  // hosts hold parts of the tables until all ranks have read them
      },
      hosts(host_count));
  run_cluster(
      loaders,
      [&](Session& session) {
        Tables tables(session, rule);
        if (session.rank() == 0) tables.train(100);  // the load must discard all of it
        const SnapshotNote note = load_tables(session, folder / "set");
        EXPECT_EQ(note.step, 17);
        EXPECT_EQ(note.text, (std::map<std::string, std::string>{{"epoch", "3"}}));
        EXPECT_EQ(tables.all(), at_save);
        session.barrier();
        const bool keeps = make_updater(Tables::options("", rule).updater, DType::float32)->state().per_worker > 0;
        if (session.rank() == 0 && (!keeps || savers == loaders)) {
          tables.train(9);
          EXPECT_EQ(tables.all(), later);
        }
        session.barrier();
      },
      hosts(std::min(host_count, loaders)));
}

TEST(Snapshot, WhatNSaveMLoadWithAllThatTheRuleKeeps) {
  for (const std::string& rule : updater_names()) {
    saved_by(1, 1, 1, rule);
    saved_by(3, 2, 1, rule);
    saved_by(2, 2, 1, rule);
  }
  saved_by(2, 3, 1, "multiverso/adagrad");
}

TEST(Snapshot, HostsDoNotMatter) {
  for (const std::string rule : {"sum", "adam"}) {
    saved_by(4, 1, 2, rule);
    saved_by(1, 4, 2, rule);
    saved_by(4, 3, 2, rule);
  }
}

TEST(Snapshot, WhatDoesNotFitIsRefusedOnAllRanksAndNothingChanges) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    Tables tables(session, "momentum");
    save_tables(session, folder / "set");
  });
  const auto try_load = [&](auto&& create, const LoadOptions& load, const std::string& expected) {
    run_cluster(
        2,
        [&](Session& session) {
          auto table = create(session);
          const std::string text = problem_of([&] { (void)load_tables(session, folder / "set", load); });
          contains(text, expected);
          std::vector<float> out(static_cast<std::size_t>(kSize));
          if constexpr (std::is_same_v<decltype(table), ArrayTable>) {
            if (table.size() != kSize || load.values_only) return;
            table.get(out);
            EXPECT_EQ(out, std::vector<float>(static_cast<std::size_t>(kSize)));
          }
        },
        hosts(1));
  };
  const auto array = [](const std::string& name, std::int64_t size, const std::string& rule) {
    return [=](Session& session) {
      TableOptions options;
      options.name = name;
      options.updater.rule = rule;
      return session.create_array(size, options);
    };
  };
  try_load(array("b", kSize, "momentum"), {}, "\"b\"");
  try_load(array("a", kSize + 1, "momentum"), {}, "table \"a\" has 70002 F32; the saved table has 70001 F32");
  try_load(array("a", kSize, "sum"), {}, "has the rule \"sum\"; it was saved with \"momentum\"");
  try_load(array("a", kSize, "sum"), {.values_only = true}, "");
  run_cluster(1, [&](Session& session) {
    TableOptions options;
    options.name = "a";
    options.dtype = DType::float64;
    options.updater.rule = "momentum";
    const auto table = session.create_array(kSize, options);
    contains(problem_of([&] { (void)load_tables(session, folder / "set"); }),
             "70001 F64; the saved table has 70001 F32");
    contains(problem_of([&] { (void)load_tables(session, folder / "nowhere"); }), "nowhere");
  });
}

TEST(Snapshot, TwoTablesOfOneNameAreRefused) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    const TableOptions options = Tables::options("w", "sum");
    const auto one = session.create_array(3, options);
    const auto two = session.create_array(3, options);
    contains(problem_of([&] { save_tables(session, folder / "set"); }), "two tables are called \"w\"");
  });
}

void expect_damage_is_found(const std::string& rule) {
  SCOPED_TRACE(rule);
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    Tables tables(session, rule);
    tables.train(1);
    save_tables(session, folder / "set");
  });
  std::vector<std::filesystem::path> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "set")) {
    EXPECT_NE(entry.path().extension(), ".entry");
    if (entry.path().extension() == ".safetensors") parts.push_back(entry.path());
  }
  ASSERT_EQ(parts.size(), 2U);
  std::ranges::sort(parts);
  const auto loads = [&](const std::string& expected) {
    run_cluster(
        3,
        [&](Session& session) {
          Tables tables(session, rule);
          const auto before = tables.all();
          contains(problem_of([&] { (void)load_tables(session, folder / "set"); }), expected);
          EXPECT_EQ(tables.all(), before);
        },
        hosts(1));
  };
  std::fstream file(parts[1], std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('\x55');
  file.close();
  loads("checksum");
  std::filesystem::resize_file(parts[1], std::filesystem::file_size(parts[1]) - 100);
  loads(parts[1].filename().string());
  std::filesystem::remove(parts[1]);
  loads(parts[1].filename().string());
}

// Momentum has no state per block, so a rank reads only its own part of it and would load what the others refuse.
TEST(Snapshot, DamageIsFoundBeforeAValueChanges) {
  for (const char* rule : {"momentum", "adam"}) expect_damage_is_found(rule);
}

// Limits the size of files, which has the effect of a full disk on one process.
class LittleRoom {
 public:
  explicit LittleRoom(rlim_t bytes) {
    (void)std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LittleRoom() { setrlimit(RLIMIT_FSIZE, &before_); }
  LittleRoom(const LittleRoom&) = delete;
  LittleRoom& operator=(const LittleRoom&) = delete;

 private:
  rlimit before_{};
};

TEST(Snapshot, AFullDiskLeavesThePreviousOneIntact) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    Tables tables(session, "sum");
    save_tables(session, folder / "set");
    const auto saved = tables.all();
    session.barrier();
    if (session.rank() == 0) tables.train(1);
    session.barrier();
    {
      std::optional<LittleRoom> room;
      if (session.rank() == 0) room.emplace(10'000);
      session.barrier();
      contains(problem_of([&] { save_tables(session, folder / "set"); }), "File too large");
      session.barrier();
    }
    (void)load_tables(session, folder / "set");
    EXPECT_EQ(tables.all(), saved);
    session.barrier();
    if (session.rank() != 0) return;
    int files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "set")) ++files;
    EXPECT_EQ(files, 3) << "two parts and the manifest";
  });
}

// The first rank writes one of three stripes, the second two. This limit fails only the second rank.
constexpr rlim_t kRoomForOne = 200'000;

TEST(Snapshot, IfOneRankHasNoRoomNoRankLeavesFiles) {
  const Folder folder;
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kThreeStripes, Tables::options("w", "sum"));
        save_tables(session, folder / "set");
        {
          std::optional<LittleRoom> room;
          if (session.rank() == 0) room.emplace(kRoomForOne);
          session.barrier();
          contains(problem_of([&] { save_tables(session, folder / "set"); }), "00001.safetensors");
          session.barrier();
        }
        (void)load_tables(session, folder / "set");
        if (session.rank() != 0) return;
        const auto files = std::filesystem::directory_iterator(folder / "set");
        EXPECT_EQ(std::distance(begin(files), end(files)), 3) << "two parts and the manifest";
      },
      hosts(1));
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() != ".snapshots.lock") names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// The flush of the folder and the removal of old snapshots may fail after the new snapshot is committed.
TEST(Snapshot, AFailureAfterTheCommitLeavesTheSetIntact) {
  const Folder folder;
  run_cluster(1, [&](Session& session) {
    Tables tables(session, "sum");
    save_tables(session, folder / "set");
    const std::string part = Manifest::read(folder / "set").parts.at(0).file;
    const SnapshotCopy cut{.tag = part.substr(0, part.rfind('-')), .regions = {}, .metadata = {}};
    remove_snapshot_part(folder / "set", cut, 0);
    abandon_snapshot(folder / "set", cut, 0, true);
    EXPECT_NO_THROW((void)load_tables(session, folder / "set"));
    abandon_snapshot(folder / "nowhere", cut, 0, true);  // called on another thread, so it must not throw
    abandon_snapshot(folder / "nowhere", cut, 1, false);
  });
}

TEST(Snapshots, TheLastFewStayAndTheNewestIsLoaded) {
  for (const bool background : {false, true}) {
    const Folder folder;
    run_cluster(2, [&](Session& session) {
      const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
      Snapshots snapshots(session, folder / "run", {.every_steps = 5, .keep = 2, .background = background});
      EXPECT_FALSE(snapshots.load_last().has_value());
      for (int step = 1; step <= 23; ++step) {
        table.add(std::vector<float>(4, 1));
        const bool begun = snapshots.step(step);
        EXPECT_EQ(begun, step % 5 == 0);
        if (begun) snapshots.wait();
      }
    });
    EXPECT_EQ(names_in(folder / "run"), (std::vector<std::string>{"step-00000015", "step-00000020"}));
    std::filesystem::remove(folder / "run" / "step-00000020" / "manifest.json");
    std::filesystem::create_directories(folder / "run" / "step-00000099");
    run_cluster(
        3,
        [&](Session& session) {
          const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
          Snapshots snapshots(session, folder / "run", {.every_steps = 5, .background = background});
          const auto note = snapshots.load_last();
          ASSERT_TRUE(note.has_value());
          EXPECT_EQ(note->step, 15);
          std::vector<float> out(4);
          table.get(out);
          EXPECT_EQ(out, std::vector<float>(4, 30));
          EXPECT_FALSE(snapshots.step(19));
          EXPECT_TRUE(snapshots.step(20));
          snapshots.wait();
        },
        hosts(1));
    EXPECT_EQ(names_in(folder / "run"), (std::vector<std::string>{"step-00000015", "step-00000020"}));
  }
}

TEST(Snapshots, TheCopyIsOfOneMomentThoughTheWorkersGoOn) {
  const Folder folder;
  constexpr std::int64_t kMany = 3'000'000;
  run_cluster(2, [&](Session& session) {
    const ArrayTable table = session.create_array(kMany, Tables::options("w", "sum"));
    Snapshots snapshots(session, folder / "run", {.keep = 9});
    const std::vector<float> ones(kMany, 1);
    table.add(ones);
    snapshots.save({.step = 1, .text = {}});
    for (int k = 0; k < 20; ++k) table.add(ones);
    snapshots.wait();
  });
  run_cluster(1, [&](Session& session) {
    const ArrayTable table = session.create_array(kMany, Tables::options("w", "sum"));
    Snapshots snapshots(session, folder / "run");
    ASSERT_TRUE(snapshots.load_last().has_value());
    std::vector<float> out(kMany);
    table.get(out);
    EXPECT_EQ(std::ranges::count(out, 2.0F), kMany);
  });
}

// The memory of a copy is reused for the next one, whose tables may have grown or increased in number.
TEST(Snapshots, ASecondCopyIsCorrect) {
  const Folder folder;
  constexpr std::int64_t kMany = 3'000'001;
  for (const int host_count : {1, 2}) {
    run_cluster(
        2,
        [&](Session& session) {
          const ArrayTable table = session.create_array(kMany, Tables::options("w", "momentum"));
          const SparseTable sparse = session.create_sparse(8, Tables::options("s", "adam"));
          Snapshots snapshots(session, folder / "run", {.keep = 9});
          for (int step = 1; step <= 3; ++step) {
            if (session.rank() == 0) table.add(numbers(kMany, step));
            std::vector<RowId> ids(static_cast<std::size_t>(4'000 * step));
            for (std::size_t i = 0; i < ids.size(); ++i)
              ids[i] = static_cast<RowId>(i * 3 + static_cast<std::size_t>(session.rank()));
            sparse.add(ids, numbers(static_cast<std::int64_t>(ids.size()) * 8, step));
            snapshots.save({.step = step, .text = {}});
            snapshots.wait();
            save_tables(session, folder / ("plain-" + std::to_string(step)));
          }
        },
        hosts(host_count));
    const auto read = [&](const std::filesystem::path& path) {
      std::vector<float> out(kMany);
      std::vector<float> rows(24'000 * 8);
      run_cluster(1, [&](Session& session) {
        const ArrayTable table = session.create_array(kMany, Tables::options("w", "momentum"));
        const SparseTable sparse = session.create_sparse(8, Tables::options("s", "adam"));
        (void)load_tables(session, path);
        table.add(numbers(kMany, 7));  // depends on the state of the rules
        std::vector<RowId> ids(24'000);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<RowId>(i);
        sparse.add(ids, numbers(24'000 * 8, 5));
        table.get(out);
        sparse.get(ids, rows);
      });
      out.insert(out.end(), rows.begin(), rows.end());
      return out;
    };
    for (const int step : {1, 2, 3}) {
      EXPECT_EQ(read(folder / "run" / ("step-0000000" + std::to_string(step))),
                read(folder / ("plain-" + std::to_string(step))));
    }
  }
}

// The committing rank does not wait for a part that will never come.
TEST(Snapshots, ABackgroundFailureOfAnotherRankIsReportedAndLeavesNoFiles) {
  const Folder folder;
  SessionOptions options = hosts(1);
  options.timeout = 240;  // how long it would wait
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kThreeStripes, Tables::options("w", "sum"));
        Snapshots snapshots(session, folder / "run", {.every_steps = 1});
        snapshots.save({.step = 1, .text = {}});
        snapshots.wait();
        {
          std::optional<LittleRoom> room;
          if (session.rank() == 0) room.emplace(kRoomForOne);
          session.barrier();
          EXPECT_TRUE(snapshots.step(2));
          const std::string problem = problem_of([&] { snapshots.wait(); });
          contains(problem, "00001.safetensors");
          contains(problem, "File too large");
        }
        session.barrier();
        EXPECT_EQ(snapshots.load_last()->step, 1) << "the one before is whole";
        EXPECT_TRUE(snapshots.step(3));
        snapshots.wait();
      },
      options);
  EXPECT_EQ(names_in(folder / "run"), (std::vector<std::string>{"step-00000001", "step-00000003"}));
}

TEST(Snapshots, ABackgroundFailureIsReportedAndTheNextSaveTriesAgain) {
  const Folder folder;
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kSize, Tables::options("w", "sum"));
        Snapshots snapshots(session, folder / "run", {.every_steps = 1});
        {
          std::optional<LittleRoom> room;
          if (session.rank() == 0) room.emplace(10'000);
          session.barrier();
          EXPECT_TRUE(snapshots.step(1));
          contains(problem_of([&] { snapshots.wait(); }), "File too large");
        }
        session.barrier();
        EXPECT_TRUE(snapshots.step(2));
        snapshots.wait();
        EXPECT_EQ(snapshots.load_last()->step, 2);
      },
      hosts(1));
}

// Calls step until it has saved `wanted` times, or for ten minutes. Each call takes a millisecond of simulated time.
int saves_by_the_watch(Snapshots& snapshots, int wanted, std::int64_t first, std::int64_t by) {
  int saves = 0;
  for (int call = 0; saves < wanted && call < 600'000; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    saves += snapshots.step(first + call * by) ? 1 : 0;
  }
  return saves;
}

TEST(Snapshots, AFolderHasOneOwnerAtATime) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
    for (const bool background : {false, true}) {
      const std::filesystem::path run = folder / (background ? "one" : "other");
      std::optional<Snapshots> first(std::in_place, session, run, SnapshotOptions{.every_steps = 1});
      EXPECT_TRUE(first->step(1));
      first->wait();
      Snapshots second(session, run, {.every_steps = 1, .background = background});
      EXPECT_TRUE(second.load_last());  // reading needs no ownership
      contains(problem_of([&] { (void)second.step(2); }), "another job saves its snapshots here");
      first.reset();
      session.barrier();
      EXPECT_TRUE(second.step(3));
      second.wait();
    }
  });
}

TEST(Snapshots, WhatAKilledSaveHasLeftGoesWithTheNext) {
  const Folder folder;
  run_cluster(1, [&](Session& session) {
    const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
    save_tables(session, folder / "set");
    const std::vector<std::string> whole = names_in(folder / "set");
    for (const char* name : {"part-00000000000000ab-00000.safetensors", "part-00000000000000ab-0.entry",
                             ".part-00000000000000ab-00001.safetensors.17-0.tmp", ".manifest.json.17-1.tmp"}) {
      std::ofstream(folder / "set" / name) << "half";
    }
    std::ofstream(folder / "set" / "notes.txt") << "the user's own";
    save_tables(session, folder / "set");
    EXPECT_EQ(names_in(folder / "set").size(), whole.size() + 1);
    EXPECT_TRUE(std::filesystem::exists(folder / "set" / "notes.txt"));
  });
}

TEST(Snapshot, APartThatIsALinkIsRefused) {
  const Folder folder;
  run_cluster(1, [&](Session& session) {
    const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
    save_tables(session, folder / "set");
    const std::filesystem::path part = folder / "set" / Manifest::read(folder / "set").parts.at(0).file;
    std::filesystem::rename(part, folder / "elsewhere");
    std::filesystem::create_symlink(folder / "elsewhere", part);
    contains(problem_of([&] { (void)load_tables(session, folder / "set"); }), "is a symbolic link");
  });
}

TEST(Snapshots, ByTheWatchOfOneRank) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
    Snapshots snapshots(session, folder / "run", {.every_seconds = 0.05});
    EXPECT_EQ(saves_by_the_watch(snapshots, 2, 1, 1), 2);
  });
}

// The timer is checked in time, however the caller counts its steps and when it restarts the count.
TEST(Snapshots, ByTimeHoweverTheStepsAreCounted) {
  const Folder folder;
  run_cluster(2, [&](Session& session) {
    const ArrayTable table = session.create_array(4, Tables::options("w", "sum"));
    Snapshots snapshots(session, folder / "run", {.every_seconds = 0.05});
    EXPECT_EQ(saves_by_the_watch(snapshots, 1, 1'000'000, 100), 1);
    snapshots.wait();
    EXPECT_EQ(saves_by_the_watch(snapshots, 1, 5, 1), 1);
    // A hundred idle steps must not delay the check for long.
    for (std::int64_t step = 1'000'000; step < 1'000'100; ++step) (void)snapshots.step(step);
    snapshots.wait();
    EXPECT_EQ(saves_by_the_watch(snapshots, 1, 1'000'100, 1), 1);
  });
}

TEST(Snapshots, OptionsThatMakeNoSenseAreRefused) {
  const Folder folder;
  run_cluster(1, [&](Session& session) {
    contains(problem_of([&] { const Snapshots snapshots(session, folder / "run", {.keep = 0}); }), "keep >= 1");
    contains(problem_of([&] { const Snapshots snapshots(session, folder / "run", {.every_steps = -1}); }), "-1");
  });
}

}  // namespace
}  // namespace pleiad
