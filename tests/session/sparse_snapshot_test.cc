// Snapshots of sparse and key-value tables: all existing rows, on whichever rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "file/saved_set.h"
#include "pleiad/pleiad.hpp"
#include "pleiad/snapshot.h"
#include "tests/cluster.h"
#include "tests/file/folder.h"
#include "tests/file/mutate.h"
#include "updater/updater.h"

namespace pleiad {
namespace {

using test::Folder;
using test::hosts;

constexpr std::int64_t kCols = 50;

std::vector<RowId> ids_of(int seed, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  std::vector<RowId> ids(count);
  for (RowId& id : ids) id = static_cast<RowId>(random() % 5000 * 0x9E3779B97F4A7C15U);
  return ids;
}

struct Tables {
  SparseTable rows;
  KeyValueTable counts;

  Tables(Session& session, const std::string& rule)
      : rows(session.create_sparse(kCols, options(rule))),
        counts(session.create_key_value(1, {.name = "counts", .dtype = DType::int64, .track_changes = true})) {}

  static TableOptions options(const std::string& rule) {
    TableOptions options;
    options.name = "rows";
    options.init = "uniform";
    options.seed = 3;
    options.updater.rule = rule;
    options.updater.momentum = 0.5;
    return options;
  }
  void train(int seed) const {
    const auto ids = ids_of(seed, 2000);
    std::vector<float> delta(ids.size() * kCols);
    for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<float>((i * 7 + 3) % 11) * 0.125F;
    rows.add(ids, delta);
    counts.add(ids, std::vector<std::int64_t>(ids.size(), 1));
  }
  /// Returns all rows, by id.
  [[nodiscard]] std::map<RowId, std::vector<float>> all() const {
    std::map<RowId, std::vector<float>> found;
    const ChangedRows all = rows.get_all();
    for (std::size_t i = 0; i < all.ids.size(); ++i) {
      const auto row = all.as<float>().subspan(i * kCols, kCols);
      found[all.ids[i]].assign(row.begin(), row.end());
    }
    const ChangedRows keys = counts.get_all();
    for (std::size_t i = 0; i < keys.ids.size(); ++i) {
      found[keys.ids[i]].push_back(static_cast<float>(keys.as<std::int64_t>()[i]));
    }
    return found;
  }
};

void saved_by(int savers, int loaders, int host_count, const std::string& rule) {
  SCOPED_TRACE(rule + " saved by " + std::to_string(savers) + ", loaded by " + std::to_string(loaders));
  const Folder folder;
  std::map<RowId, std::vector<float>> at_save;
  std::map<RowId, std::vector<float>> later;
  run_cluster(
      savers,
      [&](Session& session) {
        const Tables tables(session, rule);
        if (session.rank() == 0) tables.train(1);
        session.barrier();
        if (session.rank() == session.size() - 1) tables.train(2);
        save_tables(session, folder / "set");
        if (session.rank() == 0) {
          at_save = tables.all();
          tables.train(3);
          later = tables.all();
        }
        session.barrier();
      },
      hosts(host_count));
  ASSERT_GT(at_save.size(), 2000U);
  run_cluster(
      loaders,
      [&](Session& session) {
        const Tables tables(session, rule);
        if (session.rank() == 0) tables.train(77);  // the load must discard all of it
        session.barrier();
        (void)tables.counts.get_changed();
        (void)load_tables(session, folder / "set");
        EXPECT_TRUE(tables.all() == at_save);
        EXPECT_EQ(tables.counts.get_changed().ids.size(), at_save.size()) << "what was loaded has changed";
        session.barrier();
        const bool keeps = make_updater(Tables::options(rule).updater, DType::float32)->state().per_worker > 0;
        if (session.rank() == 0 && (!keeps || savers == loaders)) {
          tables.train(3);
          EXPECT_TRUE(tables.all() == later) << "what the rule keeps was lost";
        }
        session.barrier();
      },
      hosts(std::min(host_count, loaders)));
}

TEST(SparseSnapshot, WhatNSaveMLoadWithAllThatTheRuleKeeps) {
  for (const std::string rule : {"sum", "adagrad", "adam", "dcasgd", "ftrl"}) {
    saved_by(1, 1, 1, rule);
    saved_by(3, 2, 1, rule);
  }
  saved_by(2, 2, 1, "dcasgd");
}

TEST(SparseSnapshot, HostsDoNotMatter) {
  saved_by(4, 1, 2, "adam");
  saved_by(1, 4, 2, "adam");
  saved_by(4, 3, 2, "sum");
}

TEST(SparseSnapshot, IsArraysOfIdsAndValues) {
  const Folder folder;
  run_cluster(
      2,
      [&](Session& session) {
        const Tables tables(session, "sum");
        tables.train(session.rank());
        save_tables(session, folder / "set");
        if (session.rank() != 0) return session.barrier();
        const SavedSet set(folder / "set");
        const std::int64_t rows = tables.rows.rows();
        EXPECT_EQ(set.at("rows/ids").shape, std::vector{rows});
        EXPECT_EQ(set.at("rows").shape, (std::vector{rows, kCols}));
        std::vector<RowId> ids(static_cast<std::size_t>(rows));
        std::vector<float> values(static_cast<std::size_t>(rows * kCols));
        set.read("rows/ids", std::as_writable_bytes(std::span(ids)));
        set.read("rows", std::as_writable_bytes(std::span(values)));
        std::vector<float> now(values.size());
        tables.rows.get(ids, now);
        EXPECT_EQ(values, now);
        session.barrier();
      },
      hosts(1));
}

TEST(SparseSnapshot, ATableWithoutRowsLoadsAsOne) {
  const Folder folder;
  run_cluster(
      2,
      [&](Session& session) {
        const Tables tables(session, "adam");
        save_tables(session, folder / "set");
      },
      hosts(1));
  run_cluster(
      2,
      [&](Session& session) {
        const Tables tables(session, "adam");
        tables.train(1);
        (void)load_tables(session, folder / "set");
        EXPECT_EQ(tables.rows.rows(), 0);
        session.barrier();
        tables.train(1);
        session.barrier();
        EXPECT_GT(tables.rows.rows(), 0);
        session.barrier();
      },
      hosts(1));
}

TEST(SparseSnapshot, WhatDoesNotFitIsRefusedBeforeARowIsTouched) {
  const Folder folder;
  run_cluster(
      1,
      [&](Session& session) {
        const Tables tables(session, "sum");
        tables.train(1);
        save_tables(session, folder / "set");
      },
      hosts(1));
  const auto refused = [&](std::int64_t cols, const TableOptions& options, const std::string& words) {
    run_cluster(
        2,
        [&](Session& session) {
          const SparseTable rows = session.create_sparse(cols, options);
          const RowId id = 5;
          if (session.rank() == 0) {
            rows.add({&id, 1}, ConstView(std::vector<double>(100, 0).data(), cols, options.dtype));
          }
          session.barrier();
          try {
            (void)load_tables(session, folder / "set");
            ADD_FAILURE() << "it was loaded";
          } catch (const FileError& error) {
            EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
          }
          EXPECT_EQ(rows.rows(), 1);
          session.barrier();
        },
        hosts(1));
  };
  TableOptions options = Tables::options("sum");
  refused(kCols + 1, options, "rows of 51");
  options.dtype = DType::float64;
  refused(kCols, options, "F64");
  options = Tables::options("sum");
  options.max_rows = 10;
  refused(kCols, options, "max_rows");
  options = Tables::options("adam");
  refused(kCols, options, "adam");
  options = Tables::options("sum");
  options.name = "others";
  refused(kCols, options, "not there");
}

// Flipped bits, changed bytes and truncation in any file are found before a row changes.
TEST(SparseSnapshot, RandomDamageIsAnErrorAndChangesNothing) {
  const Folder folder;
  std::int64_t saved_rows = 0;
  run_cluster(
      2,
      [&](Session& session) {
        const Tables tables(session, "adam");
        tables.train(session.rank());
        save_tables(session, folder / "set");
        if (session.rank() == 0) saved_rows = tables.rows.rows();
      },
      hosts(1));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "set")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 3U) << "two parts and the manifest";
  std::ranges::sort(files);
  std::mt19937 random(5);
  run_cluster(
      1,
      [&](Session& session) {
        const Tables tables(session, "adam");
        tables.train(9);
        auto before = tables.all();
        for (int i = 0; i < 150; ++i) {
          const auto& path = files[static_cast<std::size_t>(i) % files.size()];
          const std::string good = test::slurp(path);
          const std::string bad = test::mutated(good, random);
          test::spit(path, bad);
          try {
            (void)load_tables(session, folder / "set");
            // White space in a manifest has no meaning.
            ASSERT_TRUE(bad == good || path.filename() == "manifest.json") << path << " was loaded";
            EXPECT_EQ(tables.rows.rows(), saved_rows);
            before = tables.all();
          } catch (const FileError& error) {
            EXPECT_NE(std::string(error.what()).find((folder / "set").string()), std::string::npos) << error.what();
          }
          test::spit(path, good);
          ASSERT_TRUE(tables.all() == before) << path;
        }
      },
      hosts(1));
}

}  // namespace
}  // namespace pleiad
