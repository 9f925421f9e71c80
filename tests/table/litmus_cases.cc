// The litmus tests of docs/consistency.md. Each guarantee on that page names its test.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

TableOptions litmus_table(const std::string& apply, bool ordered = false) {
  TableOptions options;
  options.clock = "sync";
  options.apply = apply;
  options.ordered = ordered;
  return options;
}

}  // namespace

CASE(Litmus, OwnAddsComeBeforeOwnGets) {
  const MatrixTable table = session.create_matrix(session.size(), 3, options_of<std::int64_t>());
  const RowId mine = session.rank();
  std::int64_t added = 0;
  for (int step = 0; step < repeats(300); ++step) {
    (void)table.add_rows_async(std::vector<RowId>{mine}, std::vector<std::int64_t>{1, 1, 1});
    ++added;
    std::vector<std::int64_t> seen(3);
    Pending got = table.get_rows_async(std::vector<RowId>{mine}, seen);
    got.wait();
    ASSERT_EQ(seen, std::vector<std::int64_t>(3, added));
  }
}

CASE(Litmus, ALargeGetThatIsPutOffSeesTheAddsBeforeIt) {
  const ArrayTable table = session.create_array(400'000, options_of<std::int32_t>());
  const std::vector<std::int32_t> ones(400'000, 1);
  for (int step = 1; step <= repeats(10); ++step) {
    (void)table.add_async(ones);
    std::vector<std::int32_t> seen(400'000);
    Pending got = table.get_async(seen);
    got.wait();
    for (const std::int32_t value : seen) ASSERT_GE(value, step);
  }
}

CASE_FOR(Litmus, AnAddThatWasWaitedForIsSeenAfterAMessage, 2) {
  const ArrayTable data = session.create_array(40'000, options_of<std::int32_t>());
  const std::vector<std::int32_t> ones(40'000, 1);
  const int last = session.size() - 1;
  for (std::int32_t step = 1; step <= repeats(50); ++step) {
    if (session.rank() == 0) {
      data.add(ones);
      session.send(last, 1, std::vector<std::int32_t>{step});
    } else if (session.rank() == last) {
      std::vector<std::int32_t> told(1);
      session.receive(0, 1, told);
      for (const std::int32_t value : all_of<std::int32_t>(data)) ASSERT_GE(value, told[0]);
    }
  }
}

CASE_FOR(Litmus, AnAddIsSeenThroughAnotherTableToo, 2) {
  // Rank 0 adds to the data and then to the flag. A rank that sees the flag also sees the data.
  const ArrayTable data = session.create_array(40'000, options_of<std::int32_t>());
  const ArrayTable flag = session.create_array(1, options_of<std::int32_t>());
  const std::vector<std::int32_t> ones(40'000, 1);
  constexpr std::int32_t kSteps = repeats(50);
  if (session.rank() == 0) {
    for (std::int32_t step = 1; step <= kSteps; ++step) {
      data.add(ones);
      flag.add(std::vector<std::int32_t>{1});
    }
    return;
  }
  for (std::int32_t seen = 0; seen < kSteps;) {
    seen = all_of<std::int32_t>(flag)[0];
    for (const std::int32_t value : all_of<std::int32_t>(data)) ASSERT_GE(value, seen);
  }
}

CASE_FOR(Litmus, GetsOfOneWorkerNeverGoBack, 2) {
  const MatrixTable table = session.create_matrix(4, 100, options_of<std::int64_t>());
  const std::vector<std::int64_t> ones(400, 1);
  constexpr int kSteps = repeats(2000);
  if (session.rank() == 0) {
    for (int step = 0; step < kSteps; ++step) table.add(ones);
    return;
  }
  std::vector<std::int64_t> before(400);
  while (before[399] < kSteps) {
    const auto now = all_of<std::int64_t>(table);
    for (std::size_t i = 0; i < 400; ++i) ASSERT_GE(now[i], before[i]);
    before = now;
    std::this_thread::yield();
  }
}

CASE(Litmus, AStripeIsReadAndWrittenAsAWhole) {
  // A stripe (128 KB of an array, or the whole rows that fit) changes atomically. Two stripes may not.
  constexpr std::int64_t kStripe = 32768;
  const ArrayTable array = session.create_array(2 * kStripe, options_of<std::int32_t>());
  const MatrixTable matrix = session.create_matrix(3, 20'000, options_of<std::int32_t>());
  const std::vector<std::int32_t> ones(2 * kStripe, 1);
  const std::vector<std::int32_t> rows(60'000, 1);
  const auto one_value = [](std::span<const std::int32_t> part) {
    return std::ranges::all_of(part, [&](std::int32_t value) { return value == part[0]; });
  };
  constexpr int kSteps = repeats(300);
  for (int step = 0; step < kSteps; ++step) {
    array.add(ones);
    const auto values = all_of<std::int32_t>(array);
    ASSERT_TRUE(one_value(std::span(values).first(kStripe)));
    ASSERT_TRUE(one_value(std::span(values).last(kStripe)));
    if (step % 4 != 0) continue;
    matrix.add(rows);
    const auto all = all_of<std::int32_t>(matrix);
    for (std::size_t row = 0; row < 3; ++row) ASSERT_TRUE(one_value(std::span(all).subspan(row * 20'000, 20'000)));
  }
  session.barrier();
  EXPECT_EQ(all_of<std::int32_t>(array)[0], kSteps * session.size()) << "an add was lost";
}

CASE(Litmus, ARowIsReadAndWrittenAsAWhole) {
  constexpr std::int64_t kCols = 10'000;  // three rows per stripe
  const MatrixTable table = session.create_matrix(10, kCols, options_of<std::int32_t>());
  const std::vector<RowId> ids = {3, 4, 3};
  const std::vector<std::int32_t> ones(3 * kCols, 1);
  const std::vector<std::int32_t> all(10 * kCols, 1);
  std::int32_t added = 0;
  for (int step = 0; step < repeats(200); ++step) {
    if (step % 7 == 0) table.add(all);
    added += step % 7 == 0 ? 3 : 2;
    table.add_rows(ids, ones);
    const auto rows = rows_of<std::int32_t>(table, ids);
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], rows[i / kCols * kCols]) << "row " << i / kCols;
  }
  session.barrier();
  EXPECT_EQ(all_of<std::int32_t>(table)[3 * kCols], added * session.size()) << "an add was lost";
}

CASE(Litmus, ABarrierFlushesStartedAdds) {
  for (const char* clock : {"async", "sync"}) {
    TableOptions options = options_of<std::int32_t>();
    options.clock = clock;
    const ArrayTable table = session.create_array(300'000, options);
    const std::vector<std::int32_t> ones(300'000, 1);
    for (int step = 1; step <= 6; ++step) {
      // One worker calls get late, so the others' adds to a synchronous table are delayed.
      Pending added = table.add_async(ones);
      if (step % 2 == 0) {
        session.barrier();
      } else {
        (void)session.create_array(1);
      }
      ASSERT_TRUE(added.done()) << clock;
      if (session.rank() == step % session.size()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      ASSERT_EQ(all_of<std::int32_t>(table), std::vector<std::int32_t>(300'000, step * session.size())) << clock;
      if (std::string(clock) == "async") session.barrier();
    }
  }
}

CASE(Litmus, CreationShowsTheInitialValuesToAllRanks) {
  for (int step = 0; step < 20; ++step) {
    TableOptions options = options_of<std::int32_t>();
    options.init_rank = step % session.size();
    const std::vector<std::int32_t> initial(50'000, step);
    const ArrayTable table =
        session.create_array(50'000, options, session.rank() == options.init_rank ? ConstView(initial) : ConstView());
    ASSERT_EQ(all_of<std::int32_t>(table), initial);
    session.barrier();
  }
}

CASE(Litmus, SynchronousWorkersSeeTheSameNumbersStepByStep) {
  // k adds each and then a get give n * k: no late add is missing and no early one is included.
  for (const char* apply : {"each", "round"}) {
    const MatrixTable table = session.create_matrix(3, 20'000, options_of<std::int32_t>(litmus_table(apply)));
    const std::vector<std::int32_t> ones(60'000, 1);
    for (int step = 1; step <= repeats(15); ++step) {
      if (session.rank() == step % session.size()) std::this_thread::sleep_for(std::chrono::microseconds(500));
      table.add(ones);
      ASSERT_EQ(all_of<std::int32_t>(table), std::vector<std::int32_t>(60'000, step * session.size())) << apply;
    }
  }
}

CASE(Litmus, SynchronousGetsNeedNoAddsBetweenThem) {
  const ArrayTable table = session.create_array(100, options_of<std::int32_t>(litmus_table("each")));
  const std::vector<std::int32_t> ones(100, 1);
  for (int step = 1; step <= 5; ++step) {
    table.add(ones);
    for (int i = 0; i < step; ++i) ASSERT_EQ(all_of<std::int32_t>(table)[0], step * session.size());
  }
}

CASE_FOR(Litmus, SynchronousTablesDoNotWaitForEachOther, 2) {
  // Each table has its own clock: a get of one table does not wait for adds to another.
  const ArrayTable first = session.create_array(10, options_of<std::int32_t>(litmus_table("each")));
  const ArrayTable second = session.create_array(10, options_of<std::int32_t>(litmus_table("each")));
  const std::vector<std::int32_t> ones(10, 1);
  first.add(ones);
  ASSERT_EQ(all_of<std::int32_t>(first)[0], session.size());
  if (session.rank() == 1) {
    std::vector<float> go(1);
    session.receive(0, 1, go);  // runs after rank 0 has completed its add to `second`
  }
  second.add(ones);
  if (session.rank() == 0) session.send(1, 1, std::vector<float>{1});
  ASSERT_EQ(all_of<std::int32_t>(second)[0], session.size());
}

CASE(Litmus, OrderedRoundsAreBitIdenticalInEveryRun) {
  // 2^24 + 1 + 1 is 2^24 in one order of additions and 2^24 + 2 in the other.
  const auto bits = [&] {
    const ArrayTable table = session.create_array(1, litmus_table("round", true));
    for (int step = 0; step < 10; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds((step * 7 + session.rank() * 13) % 5 * 200));
      table.add(std::vector<float>{session.rank() == 0 ? 16777216.0F : 1.0F});
    }
    return all_of<float>(table)[0];
  };
  float expected = 0;
  for (int step = 0; step < 10; ++step) {
    float sum = 16777216.0F;
    for (int r = 1; r < session.size(); ++r) sum += 1.0F;
    expected = step == 0 ? sum : expected + sum;
  }
  for (int run = 0; run < 3; ++run) ASSERT_EQ(bits(), expected);
}

}  // namespace pleiad
