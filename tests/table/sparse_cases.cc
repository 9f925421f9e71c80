// Sparse and key-value tables, on every engine and clock.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "tests/table/tables.h"
#include "updater/updater.h"

namespace pleiad {

using namespace conformance;

namespace {

/// Unsorted ids: the ends of the range, small ones and arbitrary ones.
std::vector<RowId> some_ids(std::size_t count, std::uint64_t seed) {
  std::vector<RowId> ids = {0, -1, std::numeric_limits<RowId>::min(), std::numeric_limits<RowId>::max(), 1, 256};
  std::mt19937_64 random(seed);
  std::set<RowId> seen(ids.begin(), ids.end());
  while (ids.size() < count) {
    const auto id = static_cast<RowId>(random());
    if (seen.insert(id).second) ids.push_back(id);
  }
  ids.resize(count);
  return ids;
}

}  // namespace

CASE(Sparse, HoldsWhatAllWorkersAdded) {
  for_each_dtype([&]<class T>() {
    for (const std::int64_t cols : {1, 3, 40, 40000}) {
      const auto ids = some_ids(cols == 40000 ? 7 : static_cast<std::size_t>(repeats(3000)), 1);
      const auto width = static_cast<std::size_t>(cols);
      const SparseTable table = session.create_sparse(cols, options_of<T>());
      EXPECT_EQ(table.cols(), cols);
      EXPECT_EQ(table.rows(), 0);
      std::vector<T> expected(ids.size() * width);
      session.barrier();
      for (int r = 0; r < session.size(); ++r) {
        const auto delta = whole_numbers<T>(ids.size() * width, static_cast<std::uint64_t>(r) + 3);
        if (r == session.rank()) table.add(ids, delta);
        add_into(expected, delta);
      }
      session.barrier();
      ASSERT_EQ(rows_at<T>(table, ids, cols), expected) << cols;
      EXPECT_EQ(table.rows(), static_cast<std::int64_t>(ids.size()));
      EXPECT_EQ(table.stats().torn_stripes, 0U);
      const ChangedRows all = table.get_all();
      std::map<RowId, std::size_t> place;
      for (std::size_t i = 0; i < ids.size(); ++i) place[ids[i]] = i;
      ASSERT_EQ(all.ids.size(), ids.size());
      for (std::size_t i = 0; i < all.ids.size(); ++i) {
        ASSERT_EQ(all.as<T>()[i * width], expected[place.at(all.ids[i]) * width]);
        place.erase(all.ids[i]);
      }
      session.barrier();
    }
  });
}

CASE(Sparse, ARowNamedTwiceIsSummedOnAddAndRepeatedOnGet) {
  TableOptions options;
  for (const char* rule : {"sum", "momentum", "adam"}) {
    options.updater = {.rule = rule, .learning_rate = 0.5, .momentum = 0.5};
    const SparseTable twice = session.create_sparse(2, options);
    const SparseTable once = session.create_sparse(2, options);
    if (session.rank() == 0) {
      for (int step = 0; step < 3; ++step) {
        twice.add(std::vector<RowId>{-7, 1LL << 50, -7}, std::vector<float>{1, 2, 5, 6, 10, 20});
        once.add(std::vector<RowId>{1LL << 50, -7}, std::vector<float>{5, 6, 11, 22});
      }
      const std::vector<RowId> asked = {-7, -7, 3, 1LL << 50, -7};
      EXPECT_EQ(rows_at<float>(twice, asked, 2), rows_at<float>(once, asked, 2)) << rule;
      EXPECT_EQ(rows_at<float>(twice, {-7, 3}, 2)[2], 0);
      EXPECT_EQ(twice.rows(), 2);
    }
    session.barrier();
  }
}

CASE(Sparse, AMissingRowHasItsInitialValuesOnEveryRank) {
  for (const char* init : {"zeros", "constant", "uniform", "gaussian"}) {
    TableOptions options;
    options.init = init;
    options.init_value = 0.5;
    options.init_spread = 0.125;
    options.seed = 11;
    const SparseTable table = session.create_sparse(33, options);
    const auto ids = some_ids(50, 4);
    const std::vector<float> before = rows_at<float>(table, ids, 33);
    EXPECT_EQ(table.rows(), 0) << "a get makes no rows";
    std::vector<float> all(before.size() * static_cast<std::size_t>(session.size()));
    session.all_gather(before, all);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], before[i % before.size()]) << init;
    // The first add creates each row, with the same initial values on any rank.
    const std::vector<float> ones(before.size(), 1);
    table.add(ids, ones);
    session.barrier();
    const std::vector<float> after = rows_at<float>(table, ids, 33);
    for (std::size_t i = 0; i < after.size(); ++i) {
      float expected = before[i];
      for (int r = 0; r < session.size(); ++r) expected += 1;
      ASSERT_EQ(after[i], expected) << init;
    }
    double mean = 0;
    double square = 0;
    for (const float value : before) {
      mean += value / static_cast<double>(before.size());
      square += (value - 0.5) * (value - 0.5) / static_cast<double>(before.size());
    }
    const std::string kind = init;
    if (kind == "zeros") {
      EXPECT_EQ(before, std::vector<float>(before.size()));
    }
    if (kind == "constant") {
      EXPECT_EQ(before, std::vector<float>(before.size(), 0.5F));
    }
    if (kind == "uniform" || kind == "gaussian") {
      EXPECT_NEAR(mean, 0.5, 0.02);
      EXPECT_NEAR(std::sqrt(square), kind == "gaussian" ? 0.125 : 0.125 / std::sqrt(3), 0.01);
      EXPECT_EQ(std::set<float>(before.begin(), before.begin() + 66).size(), 66U) << "rows and columns differ";
      options.seed = 12;
      const SparseTable other = session.create_sparse(33, options);
      EXPECT_NE(rows_at<float>(other, ids, 33), before) << "another seed, other numbers";
    }
    session.barrier();
  }
}

CASE(Sparse, EveryRuleDoesToRowsWhatItDoesToThoseOfAMatrix) {
  for (const std::string& rule : updater_names()) {
    TableOptions options;
    options.updater.rule = rule;
    options.updater.momentum = 0.5;
    const SparseTable sparse = session.create_sparse(5, options);
    const MatrixTable matrix = session.create_matrix(4, 5, options);
    const std::vector<RowId> ids = {9'000'000'000, -5, 77, 3};
    if (session.rank() == 0) {
      for (int step = 0; step < 4; ++step) {
        const auto delta = whole_numbers<float>(15, static_cast<std::uint64_t>(step));
        const std::vector<RowId> part = {(step + 1) % 4, step % 4, (step + 2) % 4};
        std::vector<RowId> named;
        for (const RowId row : part) named.push_back(ids[static_cast<std::size_t>(row)]);
        sparse.add(named, delta, {.learning_rate = 0.1});
        matrix.add_rows(part, delta, {.learning_rate = 0.1});
      }
      EXPECT_EQ(rows_at<float>(sparse, ids, 5), all_of<float>(matrix)) << rule;
    }
    session.barrier();
  }
}

CASE_FOR(Sparse, RanksThatMakeTheSameRowsAtOnceMakeEachOnce, 2) {
  for (const char* clock : {"async", "ssp"}) {
    const SparseTable table = session.create_sparse(4, [&] {
      TableOptions options = options_of<std::int64_t>();
      options.clock = clock;
      options.staleness = std::string(clock) == "ssp" ? 3 : 0;
      return options;
    }());
    const auto ids = some_ids(static_cast<std::size_t>(repeats(20000)), 9);
    const std::vector<std::int64_t> ones(4 * 100, 1);
    session.barrier();
    for (std::size_t first = 0; first + 100 <= ids.size(); first += 100) {
      table.add(std::span(ids).subspan(first, 100), ones);
      std::vector<std::int64_t> seen(400);
      table.get(std::span(ids).subspan(first, 100), seen);
      for (const std::int64_t value : seen) ASSERT_TRUE(value >= 1 && value <= session.size()) << value;
    }
    session.barrier();
    const std::size_t rows = ids.size() / 100 * 100;
    EXPECT_EQ(table.rows(), static_cast<std::int64_t>(rows));
    const auto all = rows_at<std::int64_t>(table, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(rows)}, 4);
    EXPECT_TRUE(std::ranges::all_of(all, [&](std::int64_t value) { return value == session.size(); }));
    session.barrier();
  }
}

CASE(Sparse, AClockHoldsForRowsToo) {
  const auto n = session.size();
  for (const char* apply : {"each", "round"}) {
    TableOptions options = with("sync", apply);
    options.dtype = DType::float64;
    options.init = "constant";
    options.init_value = 100;
    const SparseTable table = session.create_sparse(2, options);
    for (int step = 0; step < 5; ++step) {
      // Every worker has a row of its own, one row is common, and every step creates a new row.
      const std::vector<RowId> ids = {-1000 - session.rank(), 5, 1'000'000 + step};
      table.add(ids, std::vector<double>{1, 1, 1, 1, 1, 1});
      std::vector<RowId> asked = {5, 1'000'000 + step, 7};
      for (int r = 0; r < n; ++r) asked.push_back(-1000 - r);
      const auto got = rows_at<double>(table, asked, 2);
      EXPECT_EQ(got[0], 100 + n * (step + 1)) << apply;
      EXPECT_EQ(got[2], 100 + n);
      EXPECT_EQ(got[4], 100);
      for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r) EXPECT_EQ(got[6 + 2 * r], 101 + step);
    }
    session.barrier();
  }
}

CASE(Sparse, ARoundRunsTheRuleOnceOnTheSum) {
  for (const bool ordered : {false, true}) {
    TableOptions options = with("sync", "round");
    options.ordered = ordered;
    options.dtype = DType::float64;
    options.updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5};
    const SparseTable table = session.create_sparse(1, options);
    double value = 0;
    double velocity = 0;
    for (int step = 0; step < 4; ++step) {
      table.add(std::vector<RowId>{1LL << 40}, std::vector<double>{static_cast<double>(session.rank() + 1)});
      velocity = 0.5 * velocity + session.size() * (session.size() + 1) / 2.0;
      value -= velocity;
      EXPECT_EQ(rows_at<double>(table, {1LL << 40}, 1)[0], value);
    }
    session.barrier();
  }
}

CASE(Sparse, StaleBoundedWorkersSeeWhatWasAddedBeforeTheTicksTheyWaitFor) {
  TableOptions options = with("ssp");
  options.staleness = 1;
  options.dtype = DType::int64;
  const SparseTable table = session.create_sparse(1, options);
  const std::vector<RowId> key = {1LL << 60};
  for (std::int64_t step = 1; step <= 6; ++step) {
    table.add(key, std::vector<std::int64_t>{1});
    table.tick();
    // Each of the other workers may be one tick behind, and adds once per tick.
    const std::int64_t seen = rows_at<std::int64_t>(table, key, 1)[0];
    EXPECT_GE(seen, step + (session.size() - 1) * (step - 1));
  }
}

CASE(Sparse, StartedCallsAreCompleteWhenWaitedFor) {
  for (const char* clock : {"async", "sync"}) {
    const SparseTable table = session.create_sparse(3, [&] {
      TableOptions options = options_of<std::int32_t>();
      options.clock = clock;
      return options;
    }());
    std::vector<RowId> ids = {-3, 1LL << 33};
    std::vector<std::int32_t> delta = {1, 2, 3, 4, 5, 6};
    Pending add = table.add_async(ids, delta);
    ids = {0, 0};  // the buffers may be reused
    delta.assign(6, 99);
    std::vector<std::int32_t> out(6);
    Pending get = table.get_async(std::vector<RowId>{-3, 1LL << 33}, out);
    add.wait();
    get.wait();
    if (std::string(clock) == "async") session.barrier();
    const std::int32_t n = session.size();
    EXPECT_EQ(rows_at<std::int32_t>(table, {-3, 1LL << 33}, 3),
              (std::vector<std::int32_t>{n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n}));
    if (std::string(clock) == "sync") {
      EXPECT_EQ(out[0], n);
    }
    session.barrier();
  }
}

CASE(Sparse, NoRowsAreAllowed) {
  for (const char* clock : {"async", "sync"}) {
    const SparseTable table = session.create_sparse(3, with(clock));
    std::vector<float> none;
    table.add({}, none);
    table.get({}, none);
    table.add_async({}, none).wait();
    table.get_async({}, none).wait();
    session.barrier();
    EXPECT_EQ(table.rows(), 0);
  }
}

CASE(Sparse, AtMaxRowsAnAddOfNewRowsIsRefusedAndTheTableContinues) {
  TableOptions options = options_of<std::int32_t>();
  options.name = "bounded";
  options.max_rows = 10 * session.servers();
  const SparseTable table = session.create_sparse(1, options);
  std::vector<RowId> ids;
  if (session.rank() == 0) {
    // Adds rows until a host is full. The hash of an id decides which host holds its row.
    std::string text;
    for (RowId id = 0; text.empty() && id < 1000; ++id) {
      try {
        table.add(std::vector<RowId>{id}, std::vector<std::int32_t>{1});
        ids.push_back(id);
      } catch (const MemoryError& error) {
        text = error.what();
      }
    }
    EXPECT_TRUE(mentions(text, {"bounded", "max_rows", "no row was changed"}));
    EXPECT_LE(table.rows(), options.max_rows);
    // Adds to existing rows still work. An add that also needs a new row changes nothing on the full host.
    table.add(ids, std::vector<std::int32_t>(ids.size(), 1));
    for (const std::int32_t value : rows_at<std::int32_t>(table, ids, 1)) EXPECT_EQ(value, 2);
    EXPECT_EQ(rows_at<std::int32_t>(table, {5000}, 1)[0], 0);
    if (session.hosts() == 1) {
      (void)message_of<MemoryError>(
          [&] { table.add(std::vector<RowId>{ids[0], 6000}, std::vector<std::int32_t>{1, 1}); });
      EXPECT_EQ(rows_at<std::int32_t>(table, {ids[0]}, 1)[0], 2);
      EXPECT_EQ(table.rows(), options.max_rows);
    }
  }
  session.barrier();
}

CASE_FOR(Sparse, TheRowsWithTheOldestLastAddAreEvictedFirst, 1, true) {
  TableOptions options = options_of<std::int64_t>();
  options.max_rows = 4;
  options.evict = true;
  options.init = "constant";
  options.init_value = -1;
  const SparseTable table = session.create_sparse(2, options);
  if (session.rank() == 0) {
    const auto add = [&](RowId id) { table.add({&id, 1}, std::vector<std::int64_t>{10, 10}); };
    for (const RowId id : {100, 200, 300, 400}) add(id);
    add(100);                                                // the oldest row is now 200
    (void)rows_at<std::int64_t>(table, {200, 200, 200}, 2);  // a get does not count as a use
    add(500);
    add(600);
    EXPECT_EQ(table.rows(), 4);
    EXPECT_EQ(rows_at<std::int64_t>(table, {100, 200, 300, 400, 500, 600}, 2),
              (std::vector<std::int64_t>{19, 19, -1, -1, -1, -1, 9, 9, 9, 9, 9, 9}));
    add(200);  // creates the row again and evicts 400
    EXPECT_EQ(rows_at<std::int64_t>(table, {200, 400}, 2), (std::vector<std::int64_t>{9, 9, -1, -1}));
    // An add with more rows than max_rows keeps the last ones.
    std::vector<RowId> many;
    for (RowId id = 0; id < 50; ++id) many.push_back(id);
    table.add(many, std::vector<std::int64_t>(100, 1));
    EXPECT_EQ(table.rows(), 4);
  }
  session.barrier();
}

CASE(Sparse, RowsOlderThanMaxAgeAreDroppedOnRequestAndStartAgain) {
  using Clock = std::chrono::steady_clock;
  // The machine may pause between the add and the check of the ages. If the pause was as long as max_age, the test says
  // nothing, so it tries again with a greater max_age.
  std::vector<std::int32_t> in_time(1);
  for (int seconds = 1; in_time[0] == 0 && seconds <= 256; seconds *= 2) {
    TableOptions options = options_of<float>();
    options.max_age = seconds;
    options.updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5};
    const SparseTable table = session.create_sparse(1, options);
    const auto evict = [&](Clock::time_point youngest) -> std::optional<std::int64_t> {
      const std::int64_t gone = table.evict();
      return Clock::now() - youngest < std::chrono::seconds(seconds) ? std::optional(gone) : std::nullopt;
    };
    const auto trial = [&] {
      const std::vector<RowId> ids = some_ids(100, 2);
      auto before = Clock::now();
      table.add(ids, std::vector<float>(100, 1));
      const auto at_first = evict(before);
      if (!at_first) return false;
      EXPECT_EQ(*at_first, 0);
      EXPECT_EQ(table.rows(), 100);
      std::this_thread::sleep_for(std::chrono::milliseconds(1000 * seconds + 100));
      const std::vector<RowId> young = {ids[3], 12345};
      before = Clock::now();
      table.add(young, std::vector<float>{1, 1});
      const auto later = evict(before);
      if (!later) return false;
      EXPECT_EQ(*later, 99);
      EXPECT_EQ(table.rows(), 2);
      // The state of the rule was dropped with the row.
      table.add(ids, std::vector<float>(100, 1));
      const auto now = rows_at<float>(table, ids, 1);
      for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i], i == 3 ? -1 - 1.5F - 1.75F : -1);
      return true;
    };
    if (session.rank() == 0) in_time[0] = trial() ? 1 : 0;
    session.broadcast(in_time, 0);
  }
  EXPECT_EQ(in_time[0], 1) << "every look came more than minutes after the add before it";
}

CASE_FOR(Sparse, RowsThatAreTooOldGoBeforeTheTableTakesMoreMemory, 1, true) {
  TableOptions options = options_of<float>();
  options.max_age = 0.05;
  options.init = "constant";
  options.init_value = -1;
  constexpr std::int64_t kCols = 4000;  // eight rows per stripe
  const SparseTable table = session.create_sparse(kCols, options);
  if (session.rank() == 0) {
    const std::vector<RowId> old = some_ids(30, 2);
    table.add(old, std::vector<float>(30 * kCols, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::vector<RowId> others;  // more rows than fit beside the old ones
    for (RowId id = 1000; id < 1060; ++id) others.push_back(id);
    table.add(others, std::vector<float>(60 * kCols, 1));
    EXPECT_LE(table.rows(), 60);
    EXPECT_EQ(rows_at<float>(table, old, kCols), std::vector<float>(30 * kCols, -1)) << "they begin anew";
  }
  session.barrier();
}

// Rows are created and evicted while other ranks read: a get returns a whole row or initial values, never another row's
// values.
CASE_FOR(Sparse, AnEvictedRowIsNeverReadAsAnother, 2) {
  TableOptions options = options_of<std::int64_t>();
  options.max_rows = 64 * session.servers();
  options.evict = true;
  const SparseTable table = session.create_sparse(8, options);
  session.barrier();
  std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
  for (int step = 0; step < repeats(3000); ++step) {
    const auto id = static_cast<RowId>(random() % 300);
    const auto other = static_cast<RowId>(random() % 300);
    table.add({&id, 1}, std::vector<std::int64_t>(8, id + 1000));
    std::vector<std::int64_t> out(16);
    table.get(std::vector<RowId>{id, other}, out);
    for (std::size_t i = 0; i < 16; ++i) {
      const RowId asked = i < 8 ? id : other;
      ASSERT_EQ(out[i], out[i < 8 ? 0 : 8]) << "a row in parts";
      ASSERT_EQ(out[i] % (asked + 1000), 0) << "another row's numbers";
    }
  }
  session.barrier();
  EXPECT_LE(table.rows(), options.max_rows);
  session.barrier();
}

CASE(KeyValue, CountsByKeys) {
  for_each_dtype([&]<class T>() {
    const KeyValueTable table = session.create_key_value(1, options_of<T>());
    EXPECT_EQ(table.width(), 1);
    table.add(std::numeric_limits<RowId>::max(), T{2});
    table.add(std::vector<RowId>{-4, 8, -4}, std::vector<T>{1, 2, 3});
    session.barrier();
    const auto n = static_cast<T>(session.size());
    EXPECT_EQ(table.template at<T>(std::numeric_limits<RowId>::max()), 2 * n);
    EXPECT_EQ(rows_at<T>(table, {8, -4, 77, 8}, 1),
              (std::vector<T>{static_cast<T>(2 * n), static_cast<T>(4 * n), 0, static_cast<T>(2 * n)}));
    EXPECT_EQ(table.size(), 3);
    session.barrier();
  });
  TableOptions options;
  options.clock = "sync";
  const KeyValueTable table = session.create_key_value(3, options);
  table.add(std::vector<RowId>{1LL << 62}, std::vector<float>{1, 2, 3});
  EXPECT_EQ(rows_at<float>(table, {1LL << 62}, 3)[2], 3.0F * static_cast<float>(session.size()));
}

CASE(Sparse, SetMakesItTheRowsOfOneRank) {
  TableOptions options;
  options.updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5};
  const SparseTable table = session.create_sparse(3, options);
  table.add(std::vector<RowId>{-1, 5}, std::vector<float>(6, 1));
  for (int root = 0; root < session.size(); ++root) {
    const auto ids = some_ids(400, 20);
    const auto values = whole_numbers<float>(1200, static_cast<std::uint64_t>(root));
    if (session.rank() == root) {
      table.set(ids, values, root);
    } else {
      table.set({}, {}, root);
    }
    EXPECT_EQ(rows_at<float>(table, ids, 3), values);
    EXPECT_EQ(rows_at<float>(table, {5}, 3), std::vector<float>(3)) << "others are gone";
    EXPECT_EQ(table.rows(), 400);
    session.barrier();
  }
  const RowId id = -1;
  if (session.rank() == 0) {
    const float before = rows_at<float>(table, {id}, 3)[0];
    table.add({&id, 1}, std::vector<float>(3, 1));
    EXPECT_EQ(rows_at<float>(table, {id}, 3)[0], before - 1) << "the velocity starts anew";
  }
  session.barrier();
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.set({}, {}, 99); }), {"root 99"}));
}

CASE(Sparse, WhatCannotBeIsRefusedWithTheFix) {
  const auto refused = [&](const TableOptions& options, const std::vector<std::string>& words) {
    EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { (void)session.create_sparse(3, options); }), words));
  };
  TableOptions options;
  options.init = "uniforn";
  refused(options, {"uniforn", "did you mean \"uniform\""});
  options = {};
  options.init = "gaussian";
  options.dtype = DType::int32;
  refused(options, {"gaussian", "int32"});
  options = {};
  options.init = "constant";
  options.init_value = 0.5;
  options.dtype = DType::int64;
  refused(options, {"init_value", "0.5", "int64"});
  options = {};
  options.init_spread = -1;
  refused(options, {"init_spread", "-1"});
  options = {};
  options.max_rows = -1;
  refused(options, {"max_rows", "-1"});
  options = {};
  options.max_age = -1;
  refused(options, {"max_age", "-1"});
  options = {};
  options.evict = true;
  refused(options, {"evict needs max_rows"});
  options.max_rows = 5;
  options.clock = "sync";
  refused(options, {"evict", "clock = async"});
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { (void)session.create_sparse(0); }), {"create_sparse", "0"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { (void)session.create_key_value(-1); }), {"key_value", "-1"}));
  options = {};
  options.max_rows = 5;
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { (void)session.create_matrix(3, 3, options); }),
                       {"max_rows", "sparse"}));
  options = {};
  options.track_changes = true;
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { (void)session.create_array(3, options); }), {"track_changes"}));

  const SparseTable table = session.create_sparse(3, {.name = "s"});
  std::vector<float> four(4);
  const std::vector<RowId> one = {1};
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add(one, four); }), {"SparseTable.add", "\"s\"", "3"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.get(one, four); }), {"SparseTable.get", "4"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add(one, std::vector<double>(3)); }), {"float64"}));
  EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)table.get_changed(); }), {"track_changes"}));
  EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)table.evict(); }), {"max_age"}));
  EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)table.shard(0); }), {"hash"}));
  EXPECT_TRUE(mentions(message_of<StateError>([&] { table.TableHandle::set(four); }), {"SparseTable.set"}));
  session.barrier();
}

}  // namespace pleiad
