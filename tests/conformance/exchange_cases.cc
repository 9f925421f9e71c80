// What add_get, exchange and map do: an add and a get in one call, and the table's own memory.
#include <cmath>
#include <limits>

#include "tests/conformance/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

// One stripe, several, and a last one that is not full.
const std::int64_t kSizes[] = {1, 1000, 32768, 70001};

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
    for (const std::int64_t size : kSizes) {
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
      for (const std::int64_t size : kSizes) {
        const auto count = static_cast<std::size_t>(size);
        const ArrayTable table = session.create_array(size, options_of<T>({.clock = "sync", .apply = apply}));
        std::vector<T> expected(count);
        for (std::uint64_t step = 0; step < 3; ++step) {
          std::vector<T> numbers = own<T>(session, count, step);
          table.add_get(numbers, numbers);  // the delta's buffer takes the result
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
      for (const std::int64_t size : kSizes) {
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
    // Every element has this worker's own changes, and no more than all could have made.
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

CASE(Exchange, MapIsTheTableItselfWhereThereIsOneWorker) {
  const ArrayTable table = session.create_array(70001, {.name = "w"}, std::vector<float>(70001, 2.0F));
  const ArrayTable rounds = session.create_array(10, {.clock = "sync", .apply = "round"});
  if (session.workers() > 1) {
    EXPECT_TRUE(mentions(message_of<StateError>([&] { (void)table.map(); }), {"map", "w", "one worker"}));
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

}  // namespace pleiad
