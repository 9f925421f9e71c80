// Snapshots in every earlier version of the format, kept in tests/session/old, can still be loaded completely.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "file/saved_set.h"
#include "pleiad/pleiad.hpp"

namespace pleiad {
namespace {

const std::filesystem::path kOld = PLEIAD_OLD_SNAPSHOTS;
constexpr int kSavers = 2;
constexpr std::int64_t kSize = 10;
constexpr std::int64_t kCols = 3;

struct Tables {
  ArrayTable array;
  MatrixTable matrix;
  ArrayTable delayed;
  SparseTable sparse;
  KeyValueTable counts;
  std::vector<RowId> ids = {0, -1, 7, std::int64_t{1} << 62, -(std::int64_t{1} << 40)};

  explicit Tables(Session& session)
      : array(session.create_array(kSize, {.name = "array", .updater = {.rule = "adam"}})),
        matrix(session.create_matrix(
            4, kCols, {.name = "matrix", .dtype = DType::float64, .updater = {.rule = "momentum", .momentum = 0.5}})),
        delayed(session.create_array(kSize, {.name = "delayed", .updater = {.rule = "dcasgd"}})),
        sparse(session.create_sparse(kCols,
                                     {.name = "sparse", .init = "uniform", .seed = 5, .updater = {.rule = "adam"}})),
        counts(session.create_key_value(1, {.name = "counts", .dtype = DType::int64})) {}

  void train(int step) const {
    array.add(std::vector<float>(kSize, static_cast<float>(step)));
    matrix.add_rows(std::vector<RowId>{step % 4, 3}, std::vector<double>(2 * kCols, 0.25 * step));
    delayed.add(std::vector<float>(kSize, 0.5F));
    const std::span<const RowId> some = std::span(ids).subspan(static_cast<std::size_t>(step % 3), 3);
    sparse.add(some, std::vector<float>(3 * kCols, 0.5F * static_cast<float>(step)));
    counts.add(some, std::vector<std::int64_t>(3, step));
  }

  /// Returns all values, one after another.
  [[nodiscard]] std::vector<double> all() const {
    std::vector<double> numbers;
    const auto append = [&](const auto& values) { numbers.insert(numbers.end(), values.begin(), values.end()); };
    std::vector<float> floats(kSize);
    array.get(floats);
    append(floats);
    delayed.get(floats);
    append(floats);
    std::vector<double> doubles(4 * kCols);
    matrix.get(doubles);
    append(doubles);
    floats.resize(ids.size() * kCols);
    sparse.get(ids, floats);
    append(floats);
    std::vector<std::int64_t> longs(ids.size());
    counts.get(ids, longs);
    append(longs);
    return numbers;
  }
};

/// The values of the tables when they were saved, and the result of one more step.
struct Expected {
  std::vector<double> saved, later;
};

Expected make(const std::filesystem::path* save_to) {
  Expected expected;
  run_cluster(kSavers, [&](Session& session) {
    const Tables tables(session);
    if (session.rank() == 0) {
      for (int step = 1; step <= 4; ++step) tables.train(step);
    }
    session.barrier();
    if (save_to != nullptr) save_tables(session, *save_to, {.step = 4, .text = {{"by", "a test"}}});
    if (session.rank() == 0) {
      expected.saved = tables.all();
      tables.train(5);
      expected.later = tables.all();
    }
  });
  return expected;
}

/// The files were written on another machine, whose mathematical functions may differ in the last bit.
void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << i;
  }
}

std::filesystem::path folder_of(std::int64_t version) { return kOld / ("v" + std::to_string(version)); }

TEST(OldSnapshots, OfEveryVersionAreLoadedByAnyNumberOfRanks) {
  const Expected expected = make(nullptr);
  for (std::int64_t version = 1; version <= Manifest::kVersion; ++version) {
    for (const int ranks : {1, kSavers, 3}) {
      SCOPED_TRACE("version " + std::to_string(version) + " by " + std::to_string(ranks));
      run_cluster(ranks, [&](Session& session) {
        const Tables tables(session);
        const SnapshotNote note = load_tables(session, folder_of(version));
        EXPECT_EQ(note.step, 4);
        EXPECT_EQ(note.text.at("by"), "a test");
        expect_near(tables.all(), expected.saved);
        session.barrier();
        // The state for each worker is reset if the number of workers has changed.
        if (session.rank() == 0 && ranks == kSavers) {
          tables.train(5);
          expect_near(tables.all(), expected.later);
        }
        session.barrier();
      });
    }
  }
}

// Run this once when the format gets a new version (--gtest_also_run_disabled_tests), and keep the files that it
// writes.
TEST(OldSnapshots, DISABLED_WriteThoseOfThisVersion) {
  const std::filesystem::path folder = folder_of(Manifest::kVersion);
  ASSERT_FALSE(std::filesystem::exists(folder)) << "old files are not written anew";
  (void)make(&folder);
}

}  // namespace
}  // namespace pleiad
