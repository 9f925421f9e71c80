#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "tests/table/suite.h"

namespace pleiad {

namespace {

using conformance::message_of;

template <class T>
std::vector<T> numbers(std::size_t count, int seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(
        static_cast<std::int64_t>((i * 2654435761U + static_cast<std::size_t>(seed) * 40503U) % 2001) - 1000);
  }
  return values;
}

// Sizes around those at which the reduction algorithm changes.
const std::size_t kSizes[] = {0, 1, 7, 1000, 8191, 8192, 65537, 300001};

template <class T>
void check_reductions(Session& session) {
  for (const std::size_t count : kSizes) {
    std::vector<std::vector<T>> all;
    for (int r = 0; r < session.size(); ++r) all.push_back(numbers<T>(count, r));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      std::vector<T> expected = all[0];
      for (int r = 1; r < session.size(); ++r) {
        for (std::size_t i = 0; i < count; ++i) {
          const T x = all[static_cast<std::size_t>(r)][i];
          expected[i] = op == ReduceOp::sum   ? static_cast<T>(expected[i] + x)
                        : op == ReduceOp::min ? std::min(expected[i], x)
                                              : std::max(expected[i], x);
        }
      }
      std::vector<T> mine = all[static_cast<std::size_t>(session.rank())];
      session.all_reduce(mine, op);
      ASSERT_EQ(mine, expected) << "count " << count;
    }
  }
}

}  // namespace

CASE(Engine, KnowsItsRanksAndHosts) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(session.size()));
  const std::vector<std::int32_t> mine = {session.rank()};
  session.all_gather(mine, ranks);
  for (int r = 0; r < session.size(); ++r) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(r)], r);
    EXPECT_TRUE(session.ranks().alive(r));
    EXPECT_FALSE(session.ranks().host_name(r).empty());
    EXPECT_LT(session.ranks().host_of(r), session.hosts());
  }
  EXPECT_EQ(session.workers(), session.size());
  EXPECT_EQ(session.worker_id(), session.rank());
  EXPECT_EQ(session.ranks().server_rank(session.server_id()), session.rank());
}

CASE(Engine, AllReducesFloat32) { check_reductions<float>(session); }
CASE(Engine, AllReducesFloat64) { check_reductions<double>(session); }
CASE(Engine, AllReducesInt32) { check_reductions<std::int32_t>(session); }
CASE(Engine, AllReducesInt64) { check_reductions<std::int64_t>(session); }

CASE(Engine, AllReduceIsBitIdenticalOnAllRanks) {
  std::vector<float> values(100003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(i * 7 + 3 + static_cast<std::size_t>(session.rank()) * 13);
  session.all_reduce(values);
  std::vector<float> first = values;
  session.broadcast(first, 0);
  EXPECT_EQ(values, first);
}

CASE(Engine, MeansAreSumsDividedByTheRanks) {
  for (const std::size_t count : kSizes) {
    auto values = numbers<double>(count, session.rank());
    std::vector<double> expected = values;
    session.all_reduce(expected);
    for (double& x : expected) x *= 1.0 / session.size();
    session.all_reduce(values, ReduceOp::mean);
    ASSERT_EQ(values, expected) << count;
  }
  const std::vector<float> blocks(static_cast<std::size_t>(session.size()) * 3, 4.0F);
  std::vector<float> block(3);
  session.reduce_scatter(blocks, block, ReduceOp::mean);
  EXPECT_EQ(block, std::vector<float>(3, 4.0F));
  std::vector<std::int32_t> whole(3);
  EXPECT_NE(message_of<InvalidArgument>([&] { session.all_reduce(whole, ReduceOp::mean); }).find("floating-point"),
            std::string::npos);
}

CASE(Engine, BroadcastsFromEveryRoot) {
  for (int root = 0; root < session.size(); ++root) {
    for (const std::size_t count : kSizes) {
      auto values = numbers<double>(count, session.rank() + 100);
      session.broadcast(values, root);
      ASSERT_EQ(values, numbers<double>(count, root + 100));
    }
  }
}

CASE(Engine, AllGathersByRank) {
  for (const std::size_t count : kSizes) {
    const auto mine = numbers<std::int64_t>(count, session.rank());
    std::vector<std::int64_t> all(count * static_cast<std::size_t>(session.size()));
    session.all_gather(mine, all);
    for (int r = 0; r < session.size(); ++r) {
      const auto theirs = numbers<std::int64_t>(count, r);
      ASSERT_TRUE(std::equal(theirs.begin(), theirs.end(), all.begin() + static_cast<std::ptrdiff_t>(count) * r));
    }
  }
}

CASE(Engine, ReduceScattersBlocks) {
  const auto n = static_cast<std::size_t>(session.size());
  for (const std::size_t count : kSizes) {
    const auto mine = numbers<std::int32_t>(count * n, session.rank());
    std::vector<std::int32_t> block(count);
    session.reduce_scatter(mine, block);
    std::vector<std::int32_t> expected(count, 0);
    for (std::size_t r = 0; r < n; ++r) {
      const auto theirs = numbers<std::int32_t>(count * n, static_cast<int>(r));
      for (std::size_t i = 0; i < count; ++i)
        expected[i] += theirs[static_cast<std::size_t>(session.rank()) * count + i];
    }
    ASSERT_EQ(block, expected);
  }
}

CASE(Engine, CollectivesOfAllKindsFollowEachOther) {
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> one = {session.rank() + round};
    session.all_reduce(one);
    const int n = session.size();
    ASSERT_EQ(one[0], n * (n - 1) / 2 + n * round);
    std::vector<std::int32_t> many(static_cast<std::size_t>(n));
    session.all_gather(std::vector<std::int32_t>{round}, many);
    ASSERT_EQ(std::ranges::count(many, round), n);
    std::vector<float> large(20000, static_cast<float>(round));
    session.all_reduce(large);
    ASSERT_EQ(large[19999], static_cast<float>(round * n));
    session.barrier();
  }
}

CASE_FOR(Engine, SendsAroundTheRing, 2) {
  const int next = (session.rank() + 1) % session.size();
  const int before = (session.rank() + session.size() - 1) % session.size();
  for (const std::size_t count : kSizes) {
    // Larger than any mailbox: one half of the ranks sends first, the other half receives first.
    const auto mine = numbers<double>(count, session.rank());
    std::vector<double> theirs(count);
    if (session.rank() % 2 == 0) session.send(next, 7, mine);
    session.receive(before, 7, theirs);
    if (session.rank() % 2 == 1) session.send(next, 7, mine);
    ASSERT_EQ(theirs, numbers<double>(count, before));
  }
}

CASE_FOR(Engine, ReceivesByTagInAnyOrder, 2) {
  const std::vector<std::int32_t> a = {1};
  const std::vector<std::int32_t> b = {2, 3};
  if (session.rank() == 0) {
    session.send(1, 10, a);
    session.send(1, 11, b);
    session.send(1, 10, std::vector<std::int32_t>{4});
  } else if (session.rank() == 1) {
    std::vector<std::int32_t> one(1);
    std::vector<std::int32_t> two(2);
    session.receive(0, 11, two);
    EXPECT_EQ(two, b);
    session.receive(0, 10, one);
    EXPECT_EQ(one, a);
    session.receive(0, 10, one);
    EXPECT_EQ(one[0], 4);
  }
}

CASE(Engine, SendsToItself) {
  const std::vector<float> values = {1, 2, 3};
  std::vector<float> back(3);
  session.send(session.rank(), 1, values);
  session.receive(session.rank(), 1, back);
  EXPECT_EQ(back, values);
}

CASE_FOR(Engine, RefusesAMessageOfAnotherSizeAndKeepsIt, 2) {
  if (session.rank() == 0) session.send(1, 5, std::vector<float>{1, 2, 3});
  if (session.rank() == 1) {
    std::vector<float> two(2);
    const std::string text = message_of<InvalidArgument>([&] { session.receive(0, 5, two); });
    EXPECT_NE(text.find("12 bytes; expected 8"), std::string::npos) << text;
    std::vector<float> three(3);
    session.receive(0, 5, three);
    EXPECT_EQ(three[2], 3);
  }
}

CASE_FOR(Engine, DifferentCollectivesAreAnErrorOnAllRanks, 2) {
  std::vector<float> values(10);
  const std::string text = message_of<OrderError>([&] {
    if (session.rank() == 1) {
      session.all_reduce(values);
    } else {
      session.barrier();
    }
  });
  EXPECT_NE(text.find("barrier"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce of 40 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
}

CASE_FOR(Engine, DifferentSizesInACollectiveAreAnErrorOnAllRanks, 2) {
  std::vector<float> values(session.rank() == 0 ? 10 : 12);
  message_of<OrderError>([&] { session.all_reduce(values); });
}

CASE_FOR(Engine, MinAndMaxAreBitIdenticalOnAllRanksAndKeepNaN, 2) {
  const float nan = std::nanf("");
  const bool first = session.rank() == 0;
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    std::vector<float> values = {first ? nan : 1, first ? 1 : nan, first ? 0.0F : -0.0F};
    session.all_reduce(values, op);
    if (session.hosts() == 1) {
      EXPECT_TRUE(std::isnan(values[0]));
      EXPECT_TRUE(std::isnan(values[1]));
      EXPECT_FALSE(std::signbit(values[2])) << "rank 0's comes first";
    }
  }
}

CASE_FOR(Engine, ThreadsMayWaitForDifferentTagsOfOneRank, 2, true) {
  if (session.rank() > 1) return;
  std::vector<float> one(1, 7);
  if (session.rank() == 0) {
    session.send(1, 2, one);
    session.receive(1, 3, one);  // the message with tag 2 has been delivered
    session.send(1, 1, one);
    return;
  }
  std::thread first([&] {
    std::vector<float> got(1);
    session.receive(0, 1, got);
    EXPECT_EQ(got[0], 7);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::vector<float> got(1);
  session.receive(0, 2, got);
  EXPECT_EQ(got[0], 7);
  session.send(0, 3, got);
  first.join();
}

CASE_FOR(Engine, ThreadsMaySendToOneRankAtOnce, 2, true) {
  constexpr std::size_t kMany = 300'000;  // more bytes than the ring holds
  if (session.rank() > 1) return;
  if (session.rank() == 1) {
    std::vector<float> got(kMany);
    for (const std::uint32_t tag : {3U, 1U, 2U}) {
      session.receive(0, tag, got);
      EXPECT_EQ(got[0], static_cast<float>(tag));
      EXPECT_EQ(got[kMany - 1], static_cast<float>(tag));
    }
    return;
  }
  std::vector<std::thread> threads;
  for (const std::uint32_t tag : {1U, 2U, 3U}) {
    threads.emplace_back([&, tag] { session.send(1, tag, std::vector<float>(kMany, static_cast<float>(tag))); });
  }
  for (std::thread& thread : threads) thread.join();
}

CASE_FOR(Engine, RanksThatAllWaitGetADeadlockError, 2, true) {
  std::vector<float> one(1);
  const std::string text = message_of<OrderError>([&] {
    if (session.rank() == 0) {
      session.receive(1, 1, one);
    } else {
      session.barrier();
    }
  });
  EXPECT_NE(text.find("receive, waiting"), std::string::npos) << text;
  EXPECT_NE(text.find("barrier, waiting"), std::string::npos) << text;
}

CASE_FOR(Engine, ASlowRankIsNoDeadlock, 2) {
  if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  session.barrier();
}

// Rank 0's second thread waits in a synchronous get while its main thread is busy; that thread will end rank 1's wait.
CASE_FOR(Engine, ABusyThreadNextToAWaitingOneIsNoDeadlock, 2, true, conformance::kPatient) {
  const ArrayTable table = session.create_array(4, {.clock = "sync"});
  const std::vector<float> ones(4, 1);
  std::vector<float> out(4);
  std::vector<std::int32_t> word(1);
  if (session.rank() == 0) {
    table.add(ones);
    std::thread getter([&] { table.get(out); });
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    for (int r = 1; r < session.size(); ++r) session.send(r, 3, word);
    getter.join();
  } else {
    session.receive(0, 3, word);
    table.add(ones);
    table.get(out);
  }
  EXPECT_EQ(out[0], static_cast<float>(session.size()));
}

CASE(Engine, RefusesWrongArguments) {
  std::vector<float> values(3);
  message_of<InvalidArgument>([&] { session.broadcast(values, session.size()); });
  message_of<InvalidArgument>([&] { session.send(-1, 0, values); });
  message_of<InvalidArgument>([&] { session.receive(session.size(), 0, values); });
  std::vector<float> wrong(static_cast<std::size_t>(session.size()) * 3 + 1);
  const std::string text = message_of<InvalidArgument>([&] { session.all_gather(values, wrong); });
  EXPECT_NE(text.find("blocks of 3 float32"), std::string::npos) << text;
}

CASE_FOR(Engine, ARankThatHasShutDownIsNotWaitedFor, 2, true) {
  if (session.rank() == 0) return;
  message_of<OrderError>([&] { session.barrier(); });
}

}  // namespace pleiad
