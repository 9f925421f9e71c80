// Guarantees of synchronous tables to workers that all make the same calls.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/table/tables.h"
#include "updater/updater.h"

namespace pleiad {

using namespace conformance;

namespace {

TableOptions sync_options(const std::string& apply = "each", bool ordered = false) {
  TableOptions options;
  options.clock = "sync";
  options.apply = apply;
  options.ordered = ordered;
  return options;
}

// Values whose sum depends on the order of the additions.
std::vector<float> awkward_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(static_cast<std::int64_t>(random() % 2001) - 1000),
                       static_cast<int>(random() % 40));
  }
  return values;
}

std::uint64_t fingerprint(std::uint64_t before, const std::vector<float>& values) {
  std::uint64_t hash = before;
  for (const float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3U;
  return hash;
}

// Fails unless all ranks have seen the same values.
void expect_equal_on_all_ranks(Session& session, std::uint64_t seen) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(session.size()));
  session.all_gather(std::vector<std::int64_t>{std::bit_cast<std::int64_t>(seen)}, all);
  for (const std::int64_t theirs : all) EXPECT_EQ(theirs, all[0]);
}

void pause_at_random(std::mt19937_64& random) {
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

// Returns the result of a rule that is applied to these deltas, one after another, on one unit of zeros.
std::vector<double> serial(const UpdaterOptions& options, const std::vector<std::vector<double>>& deltas) {
  const auto rule = make_updater(options, DType::float64);
  const std::size_t count = deltas[0].size();
  std::vector<double> value(count);
  std::vector<std::vector<double>> state(kMaxStates, std::vector<double>(count));
  std::vector<double> unit(4);
  for (const auto& delta : deltas) {
    Update<double> update;
    update.value = value.data();
    update.delta = delta.data();
    update.count = count;
    for (std::size_t s = 0; s < kMaxStates; ++s) update.state[s] = state[s].data();
    update.unit = unit.data();
    update.rates = merge(resolve_dialect(options), {});
    rule->apply(update);
  }
  return value;
}

}  // namespace

CASE(Clock, GetsOfAllWorkersAreBitEqualInRandomPrograms) {
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kCols = 80;  // two stripes
  for (std::uint64_t seed = 1; seed <= repeats(3); ++seed) {
    const std::vector<MatrixTable> tables = {session.create_matrix(kRows, kCols, sync_options()),
                                             session.create_matrix(kRows, kCols, sync_options("round")),
                                             session.create_matrix(kRows, kCols, sync_options("round", true))};
    std::mt19937_64 program(seed);  // the same on every rank
    std::mt19937_64 own(seed * 1000 + static_cast<std::uint64_t>(session.rank()));
    std::uint64_t seen = 0;
    for (int step = 0; step < repeats(80); ++step) {
      const MatrixTable& table = tables[program() % tables.size()];
      const std::uint64_t what = program() % 4;
      std::vector<RowId> ids(program() % 20);
      pause_at_random(own);
      if (what == 0) {
        table.add(awkward_numbers(kRows * kCols, own()));
      } else if (what == 1) {
        std::ranges::generate(ids, [&] { return static_cast<RowId>(own() % kRows); });  // different rows on every rank
        table.add_rows(ids, awkward_numbers(ids.size() * kCols, own()));
      } else if (what == 2) {
        seen = fingerprint(seen, all_of<float>(table));
      } else {
        std::ranges::generate(ids,
                              [&] { return static_cast<RowId>(program() % kRows); });  // the same rows on every rank
        seen = fingerprint(seen, rows_of<float>(table, ids));
      }
    }
    expect_equal_on_all_ranks(session, seen);
  }
}

CASE(Clock, AGetSeesEveryWorkersAddsSoFarAndNoneThatFollow) {
  for (const char* apply : {"each", "round"}) {
    const ArrayTable table = session.create_array(50'000, options_of<std::int64_t>(sync_options(apply)));
    std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
    const std::vector<std::int64_t> ones(50'000, 1);
    std::int64_t adds = 0;
    for (int step = 0; step < repeats(40); ++step) {
      for (int i = 0; i <= step % 3; ++i) {
        pause_at_random(random);
        table.add(ones);
        ++adds;
      }
      pause_at_random(random);
      ASSERT_EQ(all_of<std::int64_t>(table), std::vector<std::int64_t>(50'000, adds * session.size())) << apply;
    }
  }
}

CASE(Clock, EachRunsTheRuleOnceAnAdd) {
  TableOptions options = options_of<double>(sync_options("each"));
  options.updater = {.rule = "momentum", .learning_rate = 0.5, .momentum = 0.5};
  const MatrixTable table = session.create_matrix(3, 2, options);
  const std::vector<double> delta = {1, 2, 3,
                                     4, 5, 6};  // the same delta for every worker, so that the order does not matter
  for (int step = 1; step <= 4; ++step) {
    table.add(delta);
    const std::vector<std::vector<double>> deltas(static_cast<std::size_t>(step * session.size()), delta);
    ASSERT_EQ(all_of<double>(table), serial(options.updater, deltas));
  }
}

CASE(Clock, RoundRunsTheRuleOnceOnTheSumOfAllWorkersAdds) {
  for (const bool ordered : {false, true}) {
    for (const char* rule : {"momentum", "nesterov", "adagrad", "adam", "sgd", "sum", "singa/adam", "neon/momentum"}) {
      TableOptions options = options_of<double>(sync_options("round", ordered));
      options.updater = {.rule = rule, .learning_rate = 0.125};
      if (options.updater.rule.find("momentum") != std::string::npos) options.updater.momentum = 0.75;
      const MatrixTable table = session.create_matrix(1, 40, options);
      std::vector<std::vector<double>> sums;
      std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
      for (std::uint64_t step = 0; step < 6; ++step) {
        const auto delta = [&](int r) { return whole_numbers<double>(40, step * 10 + static_cast<std::uint64_t>(r)); };
        pause_at_random(random);
        table.add(delta(session.rank()));
        sums.emplace_back(40);
        for (int r = 0; r < session.size(); ++r) add_into(sums.back(), delta(r));
        // Some rounds follow each other without a get between them.
        if (step % 3 == 1) continue;
        ASSERT_EQ(all_of<double>(table), serial(options.updater, sums)) << rule;
      }
    }
  }
}

CASE(Clock, OrderedRoundsSumInRankOrder) {
  const ArrayTable table = session.create_array(40'000, sync_options("round", true));
  std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
  std::vector<float> expected(40'000);
  std::vector<float> backwards(40'000);
  for (std::uint64_t step = 0; step < repeats(10); ++step) {
    const auto delta = [&](int r) { return awkward_numbers(40'000, step * 10 + static_cast<std::uint64_t>(r)); };
    std::vector<float> sum = delta(0);
    for (int r = 1; r < session.size(); ++r) add_into(sum, delta(r));
    add_into(expected, sum);
    std::vector<float> reverse = delta(session.size() - 1);
    for (int r = session.size() - 2; r >= 0; --r) add_into(reverse, delta(r));
    add_into(backwards, reverse);
    // The last rank usually adds first.
    std::this_thread::sleep_for(std::chrono::milliseconds(session.size() - session.rank()));
    table.add(delta(session.rank()));
    pause_at_random(random);
    ASSERT_EQ(all_of<float>(table), expected);
  }
  EXPECT_TRUE(session.size() < 3 || expected != backwards) << "these numbers show nothing";
}

CASE(Clock, RoundsByRowsTouchOnlyTheRowsThatWereAdded) {
  for (const bool ordered : {false, true}) {
    TableOptions options = options_of<double>(sync_options("round", ordered));
    options.updater = {.rule = "adam", .learning_rate = 0.5};
    const auto rows = static_cast<std::int64_t>(session.size()) + 2;
    const MatrixTable table = session.create_matrix(rows, 2, options);
    const RowId all = session.size();  // a row that every worker adds to
    const RowId none = all + 1;        // a row that no worker adds to
    const std::vector<RowId> ids = {session.rank(), all, session.rank()};
    std::vector<std::vector<double>> own;
    std::vector<std::vector<double>> shared;
    for (int step = 1; step <= 5; ++step) {
      const double x = step;
      table.add_rows(ids, std::vector<double>{x, 2 * x, 1, 1, x, x});
      own.push_back({2 * x, 3 * x});
      shared.push_back({static_cast<double>(session.size()), static_cast<double>(session.size())});
      if (step == 3) continue;  // two rounds in a row
      for (int r = 0; r < session.size(); ++r) ASSERT_EQ(rows_of<double>(table, {r}), serial(options.updater, own));
      ASSERT_EQ(rows_of<double>(table, {all}), serial(options.updater, shared));
      ASSERT_EQ(rows_of<double>(table, {none}), std::vector<double>(2));
    }
  }
}

CASE(Clock, ARoundMayLeaveSomeWorkersWithNothingToAdd) {
  const MatrixTable table = session.create_matrix(4, 1, options_of<std::int32_t>(sync_options("round")));
  std::int32_t expected = 0;
  for (int step = 0; step < 12; ++step) {
    // In each step, one worker adds to a row. The others also call, with no rows.
    const bool mine = step % session.size() == session.rank();
    const std::vector<RowId> ids(mine ? 1 : 0, RowId{2});
    table.add_rows(ids, std::vector<std::int32_t>(ids.size(), step));
    expected += step;
    ASSERT_EQ(all_of<std::int32_t>(table), (std::vector<std::int32_t>{0, 0, expected, 0}));
  }
}

CASE(Clock, TheLowestWorkersOptionsHoldForTheRound) {
  TableOptions options = options_of<double>(sync_options("round"));
  options.updater = {.rule = "sgd", .learning_rate = 1};
  const ArrayTable table = session.create_array(3, options);
  for (int step = 0; step < 5; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(session.size() - session.rank()));
    table.add(std::vector<double>{1, 1, 1}, {.learning_rate = 0.5 * (session.rank() + 1)});
    ASSERT_EQ(all_of<double>(table), std::vector<double>(3, -0.5 * session.size() * (step + 1)));
  }
}

CASE(Clock, SynchronousAndAsynchronousTablesGoTogether) {
  const ArrayTable sync = session.create_array(100, options_of<std::int32_t>(sync_options()));
  const ArrayTable round = session.create_array(100, options_of<std::int32_t>(sync_options("round")));
  const ArrayTable async = session.create_array(100, options_of<std::int32_t>());
  const std::vector<std::int32_t> ones(100, 1);
  std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
  std::int32_t own = 0;
  for (int step = 1; step <= 20; ++step) {
    sync.add(ones);
    // Calls to the asynchronous table need no order: every rank makes different ones.
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      async.add(ones);
      ++own;
    }
    round.add(ones);
    ASSERT_GE(all_of<std::int32_t>(async)[99], own);
    ASSERT_EQ(all_of<std::int32_t>(round)[99], step * session.size());
    if (step % 2 == 1) continue;
    ASSERT_EQ(all_of<std::int32_t>(sync)[0], step * session.size());
  }
  std::vector<std::int32_t> total = {own};
  session.all_reduce(total);
  EXPECT_EQ(all_of<std::int32_t>(async)[0], total[0]);
}

CASE(Clock, StartedOperationsKeepTheirOrder) {
  for (const char* apply : {"each", "round"}) {
    const ArrayTable first = session.create_array(60'000, options_of<std::int32_t>(sync_options(apply)));
    const ArrayTable second = session.create_array(60'000, options_of<std::int32_t>(sync_options(apply)));
    std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()));
    constexpr std::size_t kSteps = repeats(12);
    std::vector<std::vector<std::int32_t>> got(2 * kSteps, std::vector<std::int32_t>(60'000));
    std::vector<Pending> pending;
    for (std::size_t step = 0; step < kSteps; ++step) {
      pause_at_random(random);
      pending.push_back(first.add_async(std::vector<std::int32_t>(60'000, 1)));
      (void)second.add_async(std::vector<std::int32_t>(60'000, 2));
      pending.push_back(first.get_async(got[2 * step]));
      pending.push_back(second.get_async(got[2 * step + 1]));
      // A blocking call completes after all calls that were started before it.
      if (step % 5 == 4) {
        ASSERT_EQ(all_of<std::int32_t>(first)[1], static_cast<std::int32_t>(step + 1) * session.size());
        EXPECT_TRUE(pending.back().done());
      }
    }
    for (Pending& p : pending) p.wait();
    for (std::size_t step = 0; step < kSteps; ++step) {
      const auto adds = static_cast<std::int32_t>(step + 1) * session.size();
      ASSERT_EQ(got[2 * step], std::vector<std::int32_t>(60'000, adds));
      ASSERT_EQ(got[2 * step + 1], std::vector<std::int32_t>(60'000, 2 * adds));
    }
    session.barrier();
  }
}

CASE(Clock, ADroppedGetOfASynchronousTableStillCounts) {
  const ArrayTable table = session.create_array(50'000, options_of<std::int32_t>(sync_options()));
  const std::vector<std::int32_t> ones(50'000, 1);
  for (int step = 1; step <= 10; ++step) {
    (void)table.add_async(ones);
    {
      std::vector<std::int32_t> gone(50'000);
      const Pending dropped = table.get_async(gone);
    }
    ASSERT_EQ(all_of<std::int32_t>(table), std::vector<std::int32_t>(50'000, step * session.size()));
  }
}

CASE_FOR(Clock, AWorkerThatFinishesEarlyLetsTheOthersGoOn, 2) {
  for (const char* apply : {"each", "round"}) {
    const ArrayTable table = session.create_array(100, options_of<std::int32_t>(sync_options(apply)));
    const std::vector<std::int32_t> ones(100, 1);
    table.add(ones);
    ASSERT_EQ(all_of<std::int32_t>(table)[0], session.size());
  }
  const ArrayTable table = session.create_array(100, options_of<std::int32_t>(sync_options("round")));
  const std::vector<std::int32_t> ones(100, 1);
  std::int32_t expected = 0;
  // Rank 0 makes 2 steps, rank 1 makes 4, and so on. A rank that has finished shuts down.
  for (int step = 0; step < 2 * (session.rank() + 1); ++step) {
    table.add(ones);
    for (int r = 0; r < session.size(); ++r) expected += step < 2 * (r + 1) ? 1 : 0;
    ASSERT_EQ(all_of<std::int32_t>(table)[99], expected) << "step " << step;
  }
}

CASE(Clock, MoreCallsThanTheLedgerHolds) {
  const ArrayTable table = session.create_array(1, options_of<std::int32_t>(sync_options()));
  const std::vector<std::int32_t> one = {1};
  // Adds alone do not make ranks wait for each other, so the fastest rank runs ahead as far as the clock allows.
  if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (int i = 0; i < 2500; ++i) table.add(one);
  EXPECT_EQ(all_of<std::int32_t>(table)[0], 2500 * session.size());
}

}  // namespace pleiad
