// add_get, exchange, add_parts, step and map: an add and a get in one call, and access to the table's own memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

// One stripe, several stripes, and a last stripe that is not full.
const std::int64_t kStepSizes[] = {1, 1000, 32768, 70001};

template <class T>
std::vector<T> sum_of_all(Session& session, std::size_t count, std::uint64_t step) {
  std::vector<T> sum(count);
  for (int r = 0; r < session.size(); ++r) {
    add_into(sum, whole_numbers<T>(count, static_cast<std::uint64_t>(r) + 10 * step));
  }
  return sum;
}

template <class T>
std::vector<T> own(Session& session, std::size_t count, std::uint64_t step) {
  return whole_numbers<T>(count, static_cast<std::uint64_t>(session.rank()) + 10 * step);
}

}  // namespace

CASE(Exchange, AddGetOfAnAsynchronousTableIsAnAddAndAGet) {
  for_each_dtype([&]<class T>() {
    for (const std::int64_t size : kStepSizes) {
      const auto count = static_cast<std::size_t>(size);
      const ArrayTable table = session.create_array(size, options_of<T>());
      std::vector<T> out(count);
      table.add_get(own<T>(session, count, 1), out);
      if (session.size() == 1) {
        ASSERT_EQ(out, sum_of_all<T>(session, count, 1)) << size;
      }
      session.barrier();
      ASSERT_EQ(all_of<T>(table), sum_of_all<T>(session, count, 1)) << size;
      const TableStats stats = table.stats();
      EXPECT_EQ(stats.adds, 1U);
      EXPECT_EQ(stats.gets, 2U);
      session.barrier();
    }
  });
}

CASE(Exchange, AddGetOfASynchronousTableSeesTheAddsOfAll) {
  for (const char* apply : {"each", "round"}) {
    for_each_dtype([&]<class T>() {
      for (const std::int64_t size : kStepSizes) {
        const auto count = static_cast<std::size_t>(size);
        const ArrayTable table = session.create_array(size, options_of<T>({.clock = "sync", .apply = apply}));
        std::vector<T> expected(count);
        for (std::uint64_t step = 0; step < 3; ++step) {
          std::vector<T> numbers = own<T>(session, count, step);
          table.add_get(numbers, numbers);  // the result overwrites the delta
          add_into(expected, sum_of_all<T>(session, count, step));
          ASSERT_EQ(numbers, expected) << size << " " << apply;
        }
        session.barrier();
      }
    });
  }
}

CASE(Exchange, TheRuleSeesTheDelta) {
  const std::vector<float> start(70000, 8.0F);
  const ArrayTable table =
      session.create_array(70000, {.clock = "sync", .updater = {.rule = "sgd", .learning_rate = 0.5}}, start);
  std::vector<float> out(start.size());
  table.add_get(std::vector<float>(start.size(), 1.0F), out);
  EXPECT_EQ(out, std::vector<float>(start.size(), 8.0F - 0.5F * static_cast<float>(session.size())));
  table.add_get(std::vector<float>(start.size(), 1.0F), out, {.learning_rate = 0.25});
  EXPECT_EQ(out, std::vector<float>(start.size(), 8.0F - 0.75F * static_cast<float>(session.size())));
  session.barrier();
}

CASE(Exchange, ASynchronousExchangeAddsWhatEveryWorkerChanged) {
  for (const char* apply : {"each", "round"}) {
    for_each_dtype([&]<class T>() {
      for (const std::int64_t size : kStepSizes) {
        const auto count = static_cast<std::size_t>(size);
        const std::vector<T> start = whole_numbers<T>(count, 99);
        const ArrayTable table = session.create_array(size, options_of<T>({.clock = "sync", .apply = apply}), start);
        std::vector<T> values(count);
        table.get(values);
        std::vector<T> last = values;
        std::vector<T> expected = start;
        for (std::uint64_t step = 0; step < 3; ++step) {
          add_into(values, own<T>(session, count, step));
          add_into(expected, sum_of_all<T>(session, count, step));
          table.exchange(values, last);
          ASSERT_EQ(values, expected) << size << " " << apply;
          ASSERT_EQ(last, expected);
        }
        session.barrier();
      }
    });
  }
}

CASE(Exchange, AsynchronousExchangesLoseNothing) {
  constexpr int kRounds = 20;
  const std::size_t count = 70001;
  const ArrayTable table = session.create_array(static_cast<std::int64_t>(count));
  std::vector<float> values(count);
  std::vector<float> last(count);
  const std::vector<float> one(count, 1.0F);
  for (int i = 0; i < repeats(kRounds); ++i) {
    add_into(values, one);
    table.exchange(values, last);
    ASSERT_EQ(values, last);
    // Every element contains this worker's own adds, and at most the adds of all workers.
    for (const float value : values) {
      ASSERT_GE(value, static_cast<float>(i + 1));
      ASSERT_LE(value, static_cast<float>(repeats(kRounds) * session.size()));
    }
  }
  session.barrier();
  EXPECT_EQ(all_of<float>(table), std::vector<float>(count, static_cast<float>(repeats(kRounds) * session.size())));
  session.barrier();
}

CASE(Exchange, BadArgumentsAreRefusedAndChangeNothing) {
  const ArrayTable table = session.create_array(10, {.name = "w", .check_finite = true});
  std::vector<float> ten(10, 1.0F);
  std::vector<float> nine(9);
  std::vector<double> doubles(10);
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.exchange(nine, ten); }), {"exchange", "w", "10", "9"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.exchange(ten, nine); }), {"exchange", "10", "9"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.exchange(ten, ten); }), {"overlap"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.exchange(ten, doubles); }), {"float32", "float64"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add_get(ten, nine); }), {"add_get", "10", "9"}));
  std::vector<float> last(10);
  ten[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.exchange(ten, last); }), {"exchange", "nan", "3"}));
  EXPECT_EQ(all_of<float>(table), std::vector<float>(10));
  session.barrier();
}

CASE_FOR(Exchange, MapIsTheTableItself, 1, true) {
  const ArrayTable table = session.create_array(70001, {.name = "w"}, std::vector<float>(70001, 2.0F));
  const ArrayTable rounds = session.create_array(10, {.clock = "sync", .apply = "round"});
  const ArrayTable clocked = session.create_array(10, {.name = "c", .clock = "sync"});
  if (session.workers() > 1) {
    EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)clocked.map(); }), {"map", "c", "synchronous", "get"}));
    const auto* numbers = static_cast<const float*>(table.map().data);
    table.add(std::vector<float>(70001, 1.0F));
    session.barrier();
    EXPECT_EQ(numbers[70000], 2.0F + static_cast<float>(session.workers()));
  } else {
    const View mapped = table.map();
    EXPECT_EQ(mapped.count, 70001);
    EXPECT_EQ(mapped.dtype, DType::float32);
    auto* numbers = static_cast<float*>(mapped.data);
    EXPECT_EQ(numbers[70000], 2.0F);
    numbers[70000] = 5.0F;
    EXPECT_EQ(all_of<float>(table)[70000], 5.0F);
    table.add(std::vector<float>(70001, 1.0F));
    EXPECT_EQ(numbers[70000], 6.0F);
    EXPECT_EQ(numbers[0], 3.0F);
    EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)rounds.map(); }), {"round", "each"}));
  }
  session.barrier();
}

CASE(Exchange, AddPartsEqualsOneAddOfAllParts) {
  for (const char* clock : {"async", "sync"}) {
    const ArrayTable table = session.create_array(100'000, options_of<double>({.clock = clock}));
    const std::vector<double> first = own<double>(session, 40'000, 1);
    const std::vector<double> second = own<double>(session, 1, 2);
    const std::vector<double> none;
    const ArrayPart parts[] = {
        {.at = 7, .delta = first}, {.at = 40'007, .delta = none}, {.at = 99'999, .delta = second}};
    std::vector<double> expected(100'000);
    std::ranges::copy(sum_of_all<double>(session, 40'000, 1), expected.begin() + 7);
    expected.back() = sum_of_all<double>(session, 1, 2)[0];
    if (std::string_view(clock) == "sync") {
      std::vector<double> out(100'000);
      table.add_parts(parts, out);
      EXPECT_EQ(out, expected);
    } else {
      table.add_parts(parts);
      session.barrier();
      EXPECT_EQ(all_of<double>(table), expected);
    }
    session.barrier();
  }
}

CASE_FOR(Exchange, StepRunsTheRuleOnceOnTheSumOfAll, 1, true) {
  for (const char* rule : {"sum", "sgd", "momentum", "adam"}) {
    for_each_dtype([&]<class T>() {
      if (std::is_integral_v<T> && std::string_view(rule) != "sum") return;
      for (const std::int64_t size : kStepSizes) {
        const auto count = static_cast<std::size_t>(size);
        const ArrayTable table = session.create_array(size, options_of<T>({.updater = {.rule = rule}}));
        const ArrayTable wanted =
            session.create_array(size, options_of<T>({.clock = "sync", .apply = "round", .updater = {.rule = rule}}));
        for (std::uint64_t step = 0; step < 3; ++step) {
          const std::vector<T> delta = own<T>(session, count, step);
          const ArrayPart whole{.at = 0, .delta = delta};
          table.step({&whole, 1});
          wanted.add(delta);
          ASSERT_EQ(all_of<T>(table), all_of<T>(wanted))
              << rule << size;  // whole numbers, so that every order gives the same sum
        }
        session.barrier();
      }
    });
  }
}

CASE(Exchange, StepAndPartsRefuseWhatCannotBe) {
  const ArrayTable table = session.create_array(10, {.name = "w"});
  const ArrayTable clocked = session.create_array(10, {.clock = "sync"});
  const std::vector<float> six(6);
  const std::vector<double> doubles(6);
  const auto refused = [&](std::vector<ArrayPart> parts, const std::vector<std::string>& words) {
    EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add_parts(parts); }), words));
    EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.step(parts); }), words));
  };
  refused({{.at = 5, .delta = six}}, {"w", "10", "6 at 5"});
  refused({{.at = -1, .delta = six}}, {"-1"});
  refused({{.at = 0, .delta = six}, {.at = 4, .delta = six}}, {"6 at 4", "ends at 6"});
  refused({{.at = 0, .delta = doubles}}, {"float32", "float64"});
  EXPECT_TRUE(mentions(message_of<StateError>([&] { clocked.step({}); }), {"step", "asynchronous"}));
  session.barrier();
}

CASE(Exchange, TheRuleDoesNotSeeKeptElements) {
  if (session.hosts() > 1) return;
  constexpr std::size_t kSize = 70'001;
  const std::vector<ElementRange> kept = {{100, 200}, {300, 40'000}, {65'536, 65'536 + 16}};
  const auto is_kept = [&](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return std::ranges::any_of(kept, [&](const ElementRange& range) { return range.begin <= at && at < range.end; });
  };
  for (const char* rule : {"momentum", "adam"}) {
    const auto make = [&] { return session.create_array(kSize, {.updater = {.rule = rule, .weight_decay = 0.25}}); };
    const ArrayTable table = make();
    const ArrayTable always = make();   // receives every step
    const ArrayTable without = make();  // does not receive the second step
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> delta = own<float>(session, kSize, step);
      const ArrayPart whole{.at = 0, .delta = delta};
      const std::vector<float> before = all_of<float>(table);
      session.barrier();
      const auto kept_now = step == 1 ? std::span<const ElementRange>(kept) : std::span<const ElementRange>();
      if (session.size() == 1) {
        table.add_parts({&whole, 1}, {}, {}, kept_now);
      } else {
        table.step({&whole, 1}, {}, kept_now);
      }
      always.step({&whole, 1});
      if (step != 1) without.step({&whole, 1});
      const std::vector<float> now = all_of<float>(table);
      const std::vector<float> every = all_of<float>(always);
      const std::vector<float> few = all_of<float>(without);
      for (std::size_t i = 0; i < kSize; ++i) {
        if (!is_kept(i)) {
          ASSERT_EQ(now[i], every[i]) << rule << i;  // adam has counted each step once
        } else if (step == 1) {
          ASSERT_EQ(now[i], before[i]) << rule << i;
        } else if (std::string_view(rule) == "momentum") {
          ASSERT_EQ(now[i], few[i]) << i;
        }
      }
      session.barrier();
    }
  }
  const ArrayTable table = session.create_array(10, {.name = "w"});
  const ArrayTable rounds = session.create_array(10, {.name = "r", .clock = "sync", .apply = "round"});
  const auto refused = [&](std::vector<ElementRange> ranges) {
    const std::string text = message_of<InvalidArgument>([&] { table.step({}, {}, ranges); });
    EXPECT_TRUE(mentions(text, {"w", "10 values", "kept range"})) << text;
  };
  refused({{0, 11}});
  refused({{-1, 2}});
  refused({{3, 5}, {4, 6}});
  const ElementRange some{0, 2};
  EXPECT_TRUE(
      mentions(message_of<StateError>([&] { rounds.add_parts({}, {}, {}, {&some, 1}); }), {"kept", "apply = each"}));
  session.barrier();
}

CASE(Exchange, WhatOneRankGetsWrongInAStepAllHearOfAndTheNextOneIsRight) {
  if (session.hosts() > 1) return;
  const ArrayTable table = session.create_array(200'000, {.name = "w"});
  const std::vector<float> ones(200'000, 1);
  const std::vector<double> doubles(6);
  const int last = session.size() - 1;
  for (int k = 1; k <= 3; ++k) {
    const ArrayPart good{.at = 0, .delta = ones};
    const ArrayPart bad{.at = 0, .delta = doubles};
    const bool mine = session.rank() == last;
    const std::string text = message_of<InvalidArgument>([&] { table.step({mine ? &bad : &good, 1}); });
    EXPECT_TRUE(mentions(text, {"w", "float32", "float64"})) << text;
    EXPECT_EQ(mentions(text, {"rank " + std::to_string(last)}), !mine) << text;
    table.step({&good, 1});
    std::vector<float> out(ones.size());
    table.get(out);
    EXPECT_EQ(std::ranges::count(out, static_cast<float>(k * session.size())), 200'000);
    session.barrier();
  }
}

CASE(Exchange, SetReplacesAllValuesByThoseOfOneRank) {
  const int root = session.size() - 1;
  for (const char* clock : {"async", "sync"}) {
    const ArrayTable table = session.create_array(70001, {.clock = clock, .updater = {.rule = "momentum"}});
    table.add(own<float>(session, 70001, 1));
    table.set(std::vector<float>(session.rank() == root ? 70001 : 0, 5.0F), root);
    EXPECT_EQ(all_of<float>(table), std::vector<float>(70001, 5.0F));
    session.barrier();
  }
  const MatrixTable rows = session.create_matrix(7, 3, {.name = "m"});
  rows.set(std::vector<float>(21, static_cast<float>(session.rank())), root);
  std::vector<float> row(3);
  rows.get_row(6, row);
  EXPECT_EQ(row, std::vector<float>(3, static_cast<float>(root)));
  session.barrier();
}

CASE(Exchange, WhatIsWrongWithASetAtOneRankAllRanksThrow) {
  const MatrixTable rows = session.create_matrix(7, 3, {.name = "m", .check_finite = true});
  const ArrayTable clocked = session.create_array(3, {.name = "c", .clock = "sync"});
  const int last = session.size() - 1;
  const auto refused = [&](const auto& table, const std::vector<float>& values, int root,
                           const std::vector<std::string>& words) {
    EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.set(values, root); }), words));
  };
  const std::vector<float> short_one(3);
  refused(rows, short_one, 99, {"set", "m", "99"});
  refused(rows, short_one, last, {"set", "m", "21", "3"});
  refused(clocked, std::vector<float>(session.rank() == last ? 4 : 3), last, {"set", "c", "3", "4"});
  refused(rows, std::vector<float>(21, session.rank() == last ? NAN : 1), last, {"check_finite", "nan"});
  if (session.size() > 1) {
    const std::vector<float> fitting(21);
    refused(rows, fitting, session.rank() == 0 ? 99 : 0, {"root 99", "rank"});
    refused(rows, fitting, session.rank() == 0 ? 0 : 1, {"root", "rank", "0", "1", "nothing was set"});
  }
  const SparseTable sparse = session.create_sparse(3);
  const RowId id = -1;
  sparse.set({&id, 1}, std::vector<float>(3, 1), last);
  const std::vector<float> four(session.rank() == last ? 4 : 3);
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { sparse.set({&id, 1}, four, last); }), {"set", "3", "4"}));
  EXPECT_EQ(sparse.rows(), 1) << "the row that was there is there";
  std::vector<float> row(3, 5);
  rows.get_row(6, row);
  EXPECT_EQ(row, std::vector<float>(3)) << "no value was changed, and the ranks are still in step";
  session.barrier();
}

CASE(Exchange, MapAndStepRequireOneHost) {
  if (session.hosts() == 1) return;
  const ArrayTable table = session.create_array(200'000, {.name = "w"});
  EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)table.map(); }), {"map", "w", "hosts"}));
  EXPECT_TRUE(mentions(message_of<StateError>([&] { table.step({}); }), {"step", "w", "hosts"}));
}

CASE_FOR(Exchange, StepsThatDifferAreRefused, 1, true) {
  if (session.size() < 2) return;
  const ArrayTable table = session.create_array(10, {.updater = {.rule = "sgd"}});
  const AddOptions options{.learning_rate = session.rank() == 0 ? 0.1 : 0.2};
  EXPECT_TRUE(mentions(message_of<OrderError>([&] { table.step({}, options); }), {"step", "different"}));
}

}  // namespace pleiad
