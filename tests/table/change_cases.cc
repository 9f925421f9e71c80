// Cases about get_changed.
#include <map>
#include <set>

#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

CASE(Changes, AGetOfWhatHasChangedBringsThatAlone) {
  for (const char* clock : {"async", "sync"}) {
    for (const char* apply : {"each", "round"}) {
      if (std::string(clock) == "async" && std::string(apply) == "round") continue;
      TableOptions options = with(clock, apply);
      options.track_changes = true;
      const std::int64_t cols = 3000;  // ten rows per stripe
      const MatrixTable matrix = session.create_matrix(100, cols, options);
      const SparseTable sparse = session.create_sparse(cols, options);
      const bool sync = std::string(clock) == "sync";
      const auto meet = [&] {
        if (!sync) session.barrier();
      };
      const auto ids_in = [](const ChangedRows& changed) {
        return std::set<RowId>(changed.ids.begin(), changed.ids.end());
      };
      EXPECT_EQ(matrix.get_changed().ids.size(), 100U) << "at first all";
      EXPECT_EQ(sparse.get_changed().ids.size(), 0U);
      meet();
      for (int step = 0; step < 3; ++step) {
        // Every rank changes one row of its own and one common row.
        const std::vector<RowId> rows = {10 * session.rank() + step, 99};
        const std::vector<RowId> ids = {-rows[0] * 1'000'000'007, 99};
        const std::vector<float> delta(static_cast<std::size_t>(2 * cols), 1);
        matrix.add_rows(rows, delta);
        sparse.add(ids, delta);
        meet();
        const ChangedRows changed = matrix.get_changed();
        const ChangedRows changed_ids = sparse.get_changed();
        std::set<RowId> expected = {99};
        std::set<RowId> expected_ids = {99};
        for (int r = 0; r < session.size(); ++r) {
          expected.insert(10 * r + step);
          expected_ids.insert(-(10 * r + step) * 1'000'000'007LL);
        }
        EXPECT_EQ(ids_in(changed), expected) << clock << " " << apply;
        EXPECT_EQ(changed.ids.size(), expected.size());
        EXPECT_EQ(ids_in(changed_ids), expected_ids) << clock << " " << apply;
        const auto values = changed.as<float>();
        ASSERT_EQ(values.size(), changed.ids.size() * static_cast<std::size_t>(cols));
        for (std::size_t i = 0; i < changed.ids.size(); ++i) {
          const auto n = static_cast<float>(session.size());
          const float sum = changed.ids[i] == 99 ? n * static_cast<float>(step + 1) : 1;
          EXPECT_EQ(values[i * static_cast<std::size_t>(cols)], sum);
        }
        meet();
        EXPECT_TRUE(matrix.get_changed().ids.empty());
        EXPECT_TRUE(sparse.get_changed().ids.empty());
        meet();
      }
      // Every add changes the whole matrix.
      matrix.add(std::vector<float>(static_cast<std::size_t>(100 * cols), 1));
      meet();
      EXPECT_EQ(matrix.get_changed().ids.size(), 100U);
      session.barrier();
    }
  }
}

// A rank that gathers changes while others add misses none of them, and ends with a copy of the table.
CASE_FOR(Changes, NoneIsMissedWhileOthersAdd, 2) {
  TableOptions options = options_of<std::int64_t>();
  options.track_changes = true;
  const SparseTable table = session.create_sparse(2, options);
  std::map<RowId, std::int64_t> mine;
  const auto gather = [&] {
    const ChangedRows changed = table.get_changed();
    const auto values = changed.as<std::int64_t>();
    for (std::size_t i = 0; i < changed.ids.size(); ++i) {
      EXPECT_EQ(values[2 * i], values[2 * i + 1]);
      mine[changed.ids[i]] = values[2 * i];
    }
  };
  session.barrier();
  std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
  for (int step = 0; step < repeats(1500); ++step) {
    std::vector<RowId> ids;
    for (int k = 0; k < 3; ++k) ids.push_back(static_cast<RowId>(random() % 50 * 7919));
    table.add(ids, std::vector<std::int64_t>(6, 1));
    if (step % 5 == session.rank() % 5) gather();
  }
  session.barrier();
  gather();
  session.barrier();
  std::vector<RowId> ids;
  for (const auto& [id, value] : mine) ids.push_back(id);
  EXPECT_EQ(table.rows(), static_cast<std::int64_t>(ids.size()));
  const auto now = rows_at<std::int64_t>(table, ids, 2);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(mine[ids[i]], now[2 * i]);
  session.barrier();
}

}  // namespace pleiad
