// Tables with valid arguments.
#include <algorithm>
#include <numeric>
#include <thread>

#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

// Sizes around the 128 KB of a stripe: some tables have one stripe, some have several.
const std::int64_t kSizes[] = {1, 3, 1000, 16384, 32769, 70001};

template <class T>
void check_array(Session& session) {
  for (const std::int64_t size : kSizes) {
    const auto count = static_cast<std::size_t>(size);
    const ArrayTable table = session.create_array(size, options_of<T>());
    EXPECT_EQ(table.size(), size);
    EXPECT_EQ(table.dtype(), dtype_of<T>);
    ASSERT_EQ(all_of<T>(table), std::vector<T>(count));
    session.barrier();
    table.add(whole_numbers<T>(count, static_cast<std::uint64_t>(session.rank())));
    session.barrier();
    std::vector<T> expected(count);
    for (int r = 0; r < session.size(); ++r) add_into(expected, whole_numbers<T>(count, static_cast<std::uint64_t>(r)));
    ASSERT_EQ(all_of<T>(table), expected) << size;
    session.barrier();
  }
}

template <class T>
void check_matrix(Session& session, std::int64_t rows, std::int64_t cols) {
  const auto width = static_cast<std::size_t>(cols);
  const auto count = static_cast<std::size_t>(rows) * width;
  const MatrixTable table = session.create_matrix(rows, cols, options_of<T>());
  EXPECT_EQ(table.rows(), rows);
  EXPECT_EQ(table.cols(), cols);
  std::vector<T> expected(count);
  const auto seed = [](int rank, int step) { return static_cast<std::uint64_t>(rank * 10 + step); };
  // Every rank changes the whole table, one row and several rows, each with other values.
  const std::vector<RowId> ids = {rows - 1, 0, rows / 2};
  table.add(whole_numbers<T>(count, seed(session.rank(), 0)));
  table.add_row(rows / 3, whole_numbers<T>(width, seed(session.rank(), 1)));
  table.add_rows(ids, whole_numbers<T>(ids.size() * width, seed(session.rank(), 2)));
  for (int r = 0; r < session.size(); ++r) {
    add_into(expected, whole_numbers<T>(count, seed(r, 0)));
    const auto row = whole_numbers<T>(width, seed(r, 1));
    for (std::size_t j = 0; j < width; ++j) expected[static_cast<std::size_t>(rows / 3) * width + j] += row[j];
    const auto many = whole_numbers<T>(ids.size() * width, seed(r, 2));
    for (std::size_t i = 0; i < many.size(); ++i) {
      expected[static_cast<std::size_t>(ids[i / width]) * width + i % width] += many[i];
    }
  }
  session.barrier();
  ASSERT_EQ(all_of<T>(table), expected);
  const auto part = [&](RowId id) {
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(id * cols);
    return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(cols));
  };
  std::vector<T> row(width);
  table.get_row(rows / 3, row);
  ASSERT_EQ(row, part(rows / 3));
  const std::vector<T> many = rows_of<T>(table, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(std::ranges::equal(part(ids[i]), std::span(many).subspan(i * width, width))) << ids[i];
  }
  session.barrier();
}

}  // namespace

CASE(Table, AnArrayHoldsWhatAllWorkersAdded) {
  for_each_dtype([&]<class T>() { check_array<T>(session); });
}

CASE(Table, AMatrixSupportsTheWholeOneRowAndManyRows) {
  for_each_dtype([&]<class T>() {
    check_matrix<T>(session, 1, 1);
    check_matrix<T>(session, 7, 5);
    check_matrix<T>(session, 2000, 50);  // several stripes of many rows
    check_matrix<T>(session, 3, 40000);  // a row larger than a stripe
  });
}

CASE(Table, ARowNamedTwiceIsSummedOnAddAndRepeatedOnGet) {
  for_each_dtype([&]<class T>() {
    const MatrixTable table = session.create_matrix(10, 2, options_of<T>());
    const std::vector<RowId> ids = {4, 9, 4, 4};
    table.add_rows(ids, std::vector<T>{1, 2, 10, 20, 100, 200, 1000, 2000});
    session.barrier();
    const auto n = static_cast<T>(session.size());
    const std::vector<RowId> asked = {4, 4, 0, 9, 4};
    const std::vector<T> four = {static_cast<T>(1101 * n), static_cast<T>(2202 * n)};
    const std::vector<T> expected = {
        four[0], four[1], four[0], four[1], 0, 0, static_cast<T>(10 * n), static_cast<T>(20 * n), four[0], four[1]};
    EXPECT_EQ(rows_of<T>(table, asked), expected);
    session.barrier();
  });
}

CASE(Table, ARowNamedTwiceIsSummedBeforeARuleWithStateSeesIt) {
  TableOptions options;
  for (const char* rule : {"momentum", "adagrad", "adam", "nesterov"}) {
    options.updater = {.rule = rule, .learning_rate = 0.5, .momentum = 0.5};
    const MatrixTable twice = session.create_matrix(6, 3, options);
    const MatrixTable once = session.create_matrix(6, 3, options);
    const MatrixTable one_by_one = session.create_matrix(6, 3, options);
    if (session.rank() == 0) {
      for (int step = 0; step < 3; ++step) {
        twice.add_rows(std::vector<RowId>{5, 2, 5}, std::vector<float>{1, 2, 3, 7, 7, 7, 10, 20, 30});
        once.add_rows(std::vector<RowId>{2, 5}, std::vector<float>{7, 7, 7, 11, 22, 33});
        one_by_one.add_row(5, std::vector<float>{1, 2, 3});
        one_by_one.add_row(5, std::vector<float>{10, 20, 30});
      }
      EXPECT_EQ(all_of<float>(twice), all_of<float>(once)) << rule;
      EXPECT_NE(rows_of<float>(twice, {5}), rows_of<float>(one_by_one, {5}))
          << rule << ": this test would show nothing";
    }
  }
}

CASE(Table, NoRowsAreAllowed) {
  for (const char* clock : {"async", "sync"}) {
    TableOptions options;
    options.clock = clock;
    const MatrixTable table = session.create_matrix(4, 3, options);
    std::vector<float> none;
    table.add_rows({}, none);
    table.get_rows({}, none);
    table.add_rows_async({}, none).wait();
    table.get_rows_async({}, none).wait();
    EXPECT_EQ(all_of<float>(table), std::vector<float>(12));
  }
}

CASE(Table, OnlyTheInitialValuesOfTheInitRankCount) {
  for_each_dtype([&]<class T>() {
    for (int owner = 0; owner < session.size(); ++owner) {
      TableOptions options = options_of<T>();
      options.init_rank = owner;
      const auto right = whole_numbers<T>(40000, static_cast<std::uint64_t>(owner) + 50);
      std::vector<T> mine;
      if (session.rank() == owner) mine = right;
      // Some of the other ranks pass different values, and some pass none.
      if (session.rank() != owner && session.rank() % 2 == 0) mine = whole_numbers<T>(40000, 7);
      const ArrayTable table = session.create_array(40000, options, mine);
      ASSERT_EQ(all_of<T>(table), right) << "init_rank " << owner;
      session.barrier();
    }
    // The init rank passes no values, so the table starts at zero whatever the others pass.
    std::vector<T> mine;
    if (session.rank() != 0) mine = whole_numbers<T>(12, 1);
    const MatrixTable table = session.create_matrix(3, 4, options_of<T>(), mine);
    ASSERT_EQ(all_of<T>(table), std::vector<T>(12));
    session.barrier();
  });
}

CASE(Table, ShardsTileTheTableEvenIfThereAreMoreServersThanRows) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{5}, std::int64_t{1001}}) {
    const ArrayTable array = session.create_array(count, options_of<std::int32_t>());
    const MatrixTable matrix = session.create_matrix(count, 3, options_of<std::int32_t>());
    std::int64_t next = 0;
    for (int s = 0; s < session.servers(); ++s) {
      const auto [begin, end] = array.shard(s);
      EXPECT_EQ(begin, next);
      EXPECT_LE(begin, end);
      EXPECT_EQ(matrix.shard(s), array.shard(s));
      next = end;
    }
    EXPECT_EQ(next, count);
    array.add(std::vector<std::int32_t>(static_cast<std::size_t>(count), 1));
    matrix.add(std::vector<std::int32_t>(static_cast<std::size_t>(count) * 3, 2));
    session.barrier();
    EXPECT_EQ(all_of<std::int32_t>(array), std::vector<std::int32_t>(static_cast<std::size_t>(count), session.size()));
    EXPECT_EQ(all_of<std::int32_t>(matrix),
              std::vector<std::int32_t>(static_cast<std::size_t>(count) * 3, 2 * session.size()));
    message_of<InvalidArgument>([&] { (void)array.shard(session.servers()); });
    message_of<InvalidArgument>([&] { (void)array.shard(-1); });
    session.barrier();
  }
}

CASE(Table, LargeNumbersAreNotNarrowed) {
  const auto check = [&]<class T>(std::vector<T> values) {
    const ArrayTable array = session.create_array(static_cast<std::int64_t>(values.size()), options_of<T>(), values);
    EXPECT_EQ(all_of<T>(array), values);
    const MatrixTable matrix = session.create_matrix(1, static_cast<std::int64_t>(values.size()), options_of<T>());
    if (session.rank() == session.size() - 1) matrix.add_row(0, values);
    session.barrier();
    EXPECT_EQ(rows_of<T>(matrix, {0}), values);
    session.all_reduce(values, ReduceOp::max);
    EXPECT_EQ(rows_of<T>(matrix, {0}), values);
    session.barrier();
  };
  // 2^24 + 1 is not a float, and 2^53 + 1 is not a double.
  check(std::vector<double>{16777217, 9007199254740991, 1e300, -1e-300});
  check(std::vector<std::int32_t>{16777217, 2147483647, -2147483647 - 1});
  check(std::vector<std::int64_t>{16777217, 9007199254740993, 9223372036854775807, -9223372036854775807 - 1});
}

CASE(Table, RandomAddsOfAllWorkersEqualTheSerialSum) {
  const auto check = [&]<class T>(std::uint64_t seed) {
    constexpr std::int64_t kRows = 300;
    constexpr std::int64_t kCols = 130;  // a stripe holds 252 rows of four bytes
    const MatrixTable table = session.create_matrix(kRows, kCols, options_of<T>());
    std::vector<T> expected(kRows * kCols);
    for (int r = 0; r < session.size(); ++r) {
      std::mt19937_64 random(seed * 100 + static_cast<std::uint64_t>(r));
      for (int step = 0; step < repeats(60); ++step) {
        const std::uint64_t what = random() % 8;
        std::vector<RowId> ids(what == 0 ? kRows : what == 1 ? 1 : random() % 40);
        std::iota(ids.begin(), ids.end(), RowId{0});
        if (what != 0) std::ranges::generate(ids, [&] { return static_cast<RowId>(random() % kRows); });
        const auto delta = whole_numbers<T>(ids.size() * kCols, random());
        for (std::size_t i = 0; i < delta.size(); ++i) {
          expected[static_cast<std::size_t>(ids[i / kCols]) * kCols + i % kCols] += delta[i];
        }
        if (r != session.rank()) continue;
        if (what == 0) {
          table.add(delta);
        } else if (what < 5) {
          table.add_rows(ids, delta);
        } else {
          (void)table.add_rows_async(ids, delta);
        }
        if (what == 2) (void)rows_of<T>(table, ids);
      }
    }
    session.barrier();
    ASSERT_EQ(all_of<T>(table), expected);
    session.barrier();
  };
  for (std::uint64_t seed = 1; seed <= repeats(2); ++seed) {
    check.template operator()<std::int32_t>(seed);
    check.template operator()<std::int64_t>(seed);
    check.template operator()<double>(seed);
  }
}

CASE(Table, ThreadsOfOneRankMayAllCallAnAsynchronousTable) {
  constexpr int kThreads = 3;
  constexpr int kAdds = repeats(40);
  const ArrayTable array = session.create_array(40000, options_of<std::int64_t>());
  const MatrixTable matrix = session.create_matrix(50, 10, options_of<std::int64_t>());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::int64_t> ones(40000, 1);
      const std::vector<RowId> ids = {t, 49, t + 10};
      const std::vector<std::int64_t> rows(30, 1);
      for (int i = 0; i < kAdds; ++i) {
        if (i % 4 == t) (void)array.add_async(ones);
        if (i % 4 != t) array.add(ones);
        matrix.add_rows(ids, rows);
        (void)rows_of<std::int64_t>(matrix, ids);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  session.barrier();
  EXPECT_EQ(all_of<std::int64_t>(array),
            std::vector<std::int64_t>(40000, std::int64_t{kThreads} * kAdds * session.size()));
  const auto rows = all_of<std::int64_t>(matrix);
  EXPECT_EQ(rows[490], kThreads * kAdds * session.size());
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
            std::int64_t{30} * kThreads * kAdds * session.size());
}

CASE(Table, CountsElementsBeyondTwoToThe31) {
  if (session.size() > 2) return;  // two world sizes per engine are enough
  constexpr std::int64_t kRows = 3'000'000;
  constexpr std::int64_t kCols = 1000;
  static_assert(kRows * kCols > std::int64_t{1} << 31U);
  TableOptions options = options_of<std::int32_t>();
  options.reserve_only = true;
  const MatrixTable table = session.create_matrix(kRows, kCols, options);
  // The row in the middle contains the first element with an index above 2^31.
  const std::vector<RowId> ids = {0, kRows - 1, (std::int64_t{1} << 31U) / kCols + 1, kRows / 2};
  std::vector<std::int32_t> delta(ids.size() * kCols);
  std::iota(delta.begin(), delta.end(), 1);
  table.add_rows(ids, delta);
  session.barrier();
  for (std::int32_t& value : delta) value *= session.size();
  EXPECT_EQ(rows_of<std::int32_t>(table, ids), delta);
  const std::vector<RowId> beside = {1, kRows - 2, ids[2] - 1, ids[2] + 1};
  EXPECT_EQ(rows_of<std::int32_t>(table, beside), std::vector<std::int32_t>(beside.size() * kCols));
  const ArrayTable array = session.create_array(kRows * kCols, options);
  EXPECT_EQ(array.size(), kRows * kCols);
  EXPECT_EQ(array.shard(session.servers() - 1).second, kRows * kCols);
}

CASE(Table, CountsWhatItHasDone) {
  const ArrayTable table = session.create_array(100, {.name = "counted"});
  std::vector<float> values(100, 1);
  table.add(values);
  table.add(values);
  table.get(values);
  const TableStats stats = table.stats();
  EXPECT_EQ(stats.adds, 2U);
  EXPECT_EQ(stats.gets, 1U);
  EXPECT_EQ(stats.bytes_added, 800U);
  EXPECT_EQ(stats.bytes_got, 400U);
  EXPECT_EQ(stats.torn_stripes, 0U);
  EXPECT_TRUE(mentions(session.stats(), {"counted", "engine " + session.engine()}));
}

}  // namespace pleiad
