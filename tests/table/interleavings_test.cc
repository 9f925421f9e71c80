// Runs correct and incorrect synchronous programs, and deaths of ranks, over thousands of interleavings of an inproc
// world. Only one rank runs at a time, and a seed decides which one continues at every point. A failure message
// contains the seed, so the run can be repeated.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/inproc.h"
#include "engine/schedule.h"
#include "pleiad/pleiad.hpp"
#include "session/core.h"

namespace pleiad {
namespace {

using Values = std::vector<std::int64_t>;

// PLEIAD_SEEDS=20 runs twenty times as many seeds.
std::uint64_t seeds(std::uint64_t usual) {
  const char* factor = std::getenv("PLEIAD_SEEDS");
  return factor == nullptr ? usual : usual * std::strtoull(factor, nullptr, 10);
}

enum class Kind { add, get, add_rows, get_rows, barrier };

struct Step {
  Kind kind = Kind::add;
  std::size_t table = 0;
  bool operator==(const Step&) const = default;
};

using Program = std::vector<Step>;

struct World {
  int ranks = 2;
  std::vector<TableOptions> tables;
  std::vector<std::int64_t> rows;  // rows of each table; all tables have two columns or are wider than a stripe
  std::vector<std::int64_t> cols;
  Program program;
  double switch_chance = 0.5;
};

// How a rank ended: with an error, or after its whole program.
struct Outcome {
  bool finished = false;
  std::optional<ErrorKind> error;
  std::string text;
};

World random_world(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  World world;
  world.ranks = 2 + static_cast<int>(random() % 3);
  world.switch_chance = std::vector{0.1, 0.5, 0.9}[random() % 3];
  for (std::size_t t = 0; t <= random() % 3; ++t) {
    TableOptions options{.name = "t" + std::to_string(t), .dtype = DType::int64, .clock = "sync"};
    const std::uint64_t how = random() % 3;
    options.apply = how == 0 ? "each" : "round";
    options.ordered = how == 2;
    world.tables.push_back(options);
    world.rows.push_back(3);
    world.cols.push_back(random() % 8 == 0 ? 9000 : 2);  // two rows of 9000 are larger than a stripe
  }
  const std::size_t steps = 4 + random() % 12;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::uint64_t what = random() % 17;
    const Kind kind = what == 16 ? Kind::barrier : static_cast<Kind>(what % 4);
    world.program.push_back({kind, kind == Kind::barrier ? 0 : random() % world.tables.size()});
  }
  // The final gets check that no add is missing, and the barrier holds every rank until all have finished.
  for (std::size_t t = 0; t < world.tables.size(); ++t) world.program.push_back({Kind::get, t});
  world.program.push_back({Kind::barrier, 0});
  return world;
}

// The delta of rank `rank` in step `step`: for all elements, or for row (rank + step) % 3 and for row 0, which all
// ranks share.
std::int64_t delta_of(int rank, std::size_t step) { return static_cast<std::int64_t>(step + 1) * 10 + rank; }
std::vector<RowId> rows_of(int rank, std::size_t step) {
  return {static_cast<RowId>((static_cast<std::size_t>(rank) + step) % 3), 0};
}

// Runs a program on one rank. `model` holds the values that the tables must have if all ranks run this program.
void run_program(const World& world, Session& session, const Program& program, bool check,
                 std::vector<std::string>* trace) {
  std::vector<MatrixTable> tables;
  for (std::size_t t = 0; t < world.tables.size(); ++t) {
    tables.push_back(session.create_matrix(world.rows[t], world.cols[t], world.tables[t]));
  }
  std::vector<Values> model(tables.size(), Values(3));  // all elements of a row are equal
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Step& step = program[i];
    if (step.kind == Kind::barrier) {
      session.barrier();
    } else {
      const MatrixTable& table = tables[step.table];
      const auto cols = static_cast<std::size_t>(table.cols());
      const auto expect = [&](const Values& got, const std::vector<RowId>& ids) {
        for (std::size_t k = 0; check && k < got.size(); ++k) {
          const std::int64_t wanted = model[step.table][static_cast<std::size_t>(ids[k / cols])];
          if (got[k] != wanted) {
            throw InternalError("rank " + std::to_string(session.rank()) + " got " + std::to_string(got[k]) + " for " +
                                std::to_string(wanted) + " in step " + std::to_string(i));
          }
        }
      };
      if (step.kind == Kind::add) {
        table.add(Values(3 * cols, delta_of(session.rank(), i)));
      } else if (step.kind == Kind::add_rows) {
        table.add_rows(rows_of(session.rank(), i), Values(2 * cols, delta_of(session.rank(), i)));
      } else if (step.kind == Kind::get) {
        Values got(3 * cols);
        table.get(got);
        expect(got, {0, 1, 2});
      } else {
        const std::vector<RowId> ids = {2, 0, 2, 1};
        Values got(4 * cols);
        table.get_rows(ids, got);
        expect(got, ids);
      }
      for (int r = 0; r < session.size(); ++r) {
        if (step.kind == Kind::add) {
          for (std::int64_t& value : model[step.table]) value += delta_of(r, i);
        } else if (step.kind == Kind::add_rows) {
          for (const RowId id : rows_of(r, i)) model[step.table][static_cast<std::size_t>(id)] += delta_of(r, i);
        }
      }
    }
    if (trace != nullptr)
      trace->push_back(std::to_string(session.rank()) + ":" + std::to_string(i));  // one rank runs at a time
  }
}

// Pins the threads to one core, which makes each switch between ranks twice as fast.
void stay_on_this_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Runs body(session) on every rank under the schedule, and then shuts down. A killed rank has no outcome.
std::vector<Outcome> run(int ranks, Schedule& schedule, const std::function<void(Session&)>& body) {
  stay_on_this_core();
  SessionOptions options;
  options.log_level = "off";
  options.timeout = 300;  // virtual seconds: a rank that waits that long would wait forever
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run_inproc(ranks, options, &schedule, [&](const std::shared_ptr<InprocEngine>& engine) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(engine->world().rank())];
    const auto attempt = [&](auto&& what) {
      try {
        what();
        return true;
      } catch (const Error& error) {
        if (!outcome.error) {
          outcome.error = error.kind();
          outcome.text = error.what();
        }
        return false;
      }
    };
    std::optional<Session> session;
    if (!attempt([&] { session.emplace(std::make_shared<SessionCore>(engine)); })) return;
    const bool finished = attempt([&] { body(*session); });
    attempt([&] { session->shutdown(); });
    outcome.finished = finished;
  });
  return outcomes;
}

Program altered(const World& world, std::mt19937_64& random) {
  Program program = world.program;
  const std::size_t at = random() % (program.size() - 1);
  const Step other{static_cast<Kind>(random() % 5), random() % world.tables.size()};
  switch (random() % 4) {
    case 0: program.erase(program.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: program.insert(program.begin() + static_cast<std::ptrdiff_t>(at), other); break;
    case 2: program[at] = other; break;
    default: std::swap(program[at], program[random() % (program.size() - 1)]);
  }
  return program;
}

// The calls that the ledger compares: add or get, and the table.
Program clocked(const Program& program) {
  Program calls;
  for (const Step& step : program) {
    if (step.kind == Kind::barrier) continue;
    const bool adds = step.kind == Kind::add || step.kind == Kind::add_rows;
    calls.push_back({adds ? Kind::add : Kind::get, step.table});
  }
  return calls;
}

bool differ_in_a_call(const Program& a, const Program& b) {
  const Program left = clocked(a);
  const Program right = clocked(b);
  for (std::size_t k = 0; k < std::min(left.size(), right.size()); ++k) {
    if (left[k] != right[k]) return true;
  }
  return false;
}

std::ptrdiff_t barriers(const Program& program) { return std::ranges::count(program, Kind::barrier, &Step::kind); }

std::string words(const Program& program) {
  static const char* const kNames[] = {"add", "get", "add_rows", "get_rows", "barrier"};
  std::string text = " ";
  for (const Step& step : program) text += kNames[static_cast<int>(step.kind)] + std::to_string(step.table) + " ";
  return text;
}

TEST(Interleavings, RightProgramsNeverFailAndEveryGetIsExact) {
  const std::uint64_t count = seeds(1500);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const World world = random_world(seed);
    Schedule schedule(world.ranks, seed, world.switch_chance);
    const auto outcomes =
        run(world.ranks, schedule, [&](Session& s) { run_program(world, s, world.program, true, nullptr); });
    for (const Outcome& outcome : outcomes) ASSERT_TRUE(outcome.finished) << "seed " << seed << ": " << outcome.text;
  }
}

TEST(Interleavings, WrongProgramsEndWithAnOrderErrorOnEveryRank) {
  const std::uint64_t count = seeds(1500);
  std::uint64_t differed = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const World world = random_world(seed);
    std::mt19937_64 random(seed + 1'000'000);
    const Program wrong = altered(world, random);
    const int odd = static_cast<int>(random() % static_cast<std::uint64_t>(world.ranks));
    Schedule schedule(world.ranks, seed, world.switch_chance);
    const auto outcomes = run(world.ranks, schedule, [&](Session& s) {
      run_program(world, s, s.rank() == odd ? wrong : world.program, false, nullptr);
    });
    const bool must_fail = differ_in_a_call(world.program, wrong);
    differed += must_fail ? 1 : 0;
    // If the program has as many barriers as the others, no rank passes the last one before all have received the
    // error.
    const bool everywhere = barriers(world.program) == barriers(wrong);
    int told = 0;
    for (const Outcome& outcome : outcomes) {
      ASSERT_FALSE(must_fail && everywhere && outcome.finished)
          << "seed " << seed << ", rank " << odd << " differs: " << words(wrong) << "from" << words(world.program);
      ASSERT_TRUE(!outcome.error || *outcome.error == ErrorKind::order) << "seed " << seed << ": " << outcome.text;
      told += outcome.error ? 1 : 0;
    }
    ASSERT_TRUE(told > 0 || !must_fail) << "seed " << seed;
  }
  EXPECT_GT(differed, count / 2) << "these programs show little";
}

TEST(Interleavings, ADeathEndsSynchronousProgramsWithAnErrorThatNamesIt) {
  const std::uint64_t count = seeds(1500);
  std::uint64_t died = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const World world = random_world(seed);
    std::mt19937_64 random(seed + 2'000'000);
    const Point points[] = {Point::add, Point::get, Point::lock, Point::clock, Point::collective, Point::barrier};
    const Fault fault{.rank = static_cast<int>(random() % static_cast<std::uint64_t>(world.ranks)),
                      .point = points[random() % std::size(points)],
                      .count = 1 + random() % 40};
    Schedule schedule(world.ranks, seed, world.switch_chance, fault);
    const auto outcomes =
        run(world.ranks, schedule, [&](Session& s) { run_program(world, s, world.program, true, nullptr); });
    const Outcome& victim = outcomes[static_cast<std::size_t>(fault.rank)];
    const bool killed = !victim.finished && !victim.error;
    died += killed ? 1 : 0;
    const std::string name = "rank " + std::to_string(fault.rank) + " ";
    for (int r = 0; r < world.ranks; ++r) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(r)];
      if (killed && r == fault.rank) continue;
      ASSERT_EQ(outcome.error.has_value(), killed) << "seed " << seed << " rank " << r << ": " << outcome.text;
      if (!killed) continue;
      ASSERT_EQ(*outcome.error, ErrorKind::transport) << "seed " << seed << " rank " << r << ": " << outcome.text;
      ASSERT_NE(outcome.text.find(name), std::string::npos) << "seed " << seed << " rank " << r << ": " << outcome.text;
    }
  }
  EXPECT_GT(died, count / 3) << "too few ranks died to show much";
}

TEST(Interleavings, ADeathLeavesAsynchronousTablesUsableAndCountsTheTornStripe) {
  const std::uint64_t count = seeds(1000);
  std::uint64_t torn_in_all = 0;
  std::uint64_t died = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    std::mt19937_64 random(seed + 3'000'000);
    const int ranks = 2 + static_cast<int>(random() % 3);
    const Fault fault{.rank = static_cast<int>(random() % static_cast<std::uint64_t>(ranks)),
                      .point = random() % 3 == 0 ? Point::get : Point::add,
                      .count = 1 + random() % 20};
    Schedule schedule(ranks, seed, 0.5, fault);
    std::uint64_t torn = 0;
    constexpr std::size_t kSize = 40'000;  // three stripes
    constexpr std::size_t kStripe = 16384;
    const auto outcomes = run(ranks, schedule, [&](Session& session) {
      const ArrayTable table = session.create_array(kSize, {.name = "shared", .dtype = DType::int64});
      Values got(kSize);
      // Every add adds one to all elements, so each stripe holds a number of whole adds, at least those that this rank
      // knows of and at most those of all ranks.
      const auto check = [&](std::int64_t least) {
        table.get(got);
        for (std::size_t i = 0; i < kSize; ++i) {
          if (got[i] != got[i / kStripe * kStripe] || got[i] < least || got[i] > 5 * session.size()) {
            throw InternalError("element " + std::to_string(i) + " is " + std::to_string(got[i]));
          }
        }
      };
      for (int step = 1; step <= 5; ++step) {
        table.add(Values(kSize, 1));
        check(step);
      }
      // By now at the latest, survivors have taken over the dead rank's lock, and no lock is held any more.
      check(5);
      torn = table.stats().torn_stripes;
      // After a death, a collective raises an error on every survivor; otherwise it raises none.
      session.barrier();
    });
    const Outcome& victim = outcomes[static_cast<std::size_t>(fault.rank)];
    const bool killed = !victim.finished && !victim.error;
    died += killed ? 1 : 0;
    torn_in_all += torn;
    ASSERT_LE(torn, killed ? 1U : 0U) << "seed " << seed;
    for (int r = 0; r < ranks; ++r) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(r)];
      if (killed && r == fault.rank) continue;
      if (killed) {
        ASSERT_EQ(outcome.error, ErrorKind::transport) << "seed " << seed << " rank " << r << ": " << outcome.text;
      } else {
        ASSERT_TRUE(outcome.finished && !outcome.error) << "seed " << seed << " rank " << r << ": " << outcome.text;
      }
    }
  }
  EXPECT_GT(died, count / 2);
  EXPECT_GT(torn_in_all, count / 10) << "hardly a rank died with a lock held";
}

TEST(Interleavings, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const World world = random_world(seed);
    const auto once = [&] {
      Schedule schedule(world.ranks, seed, world.switch_chance);
      std::vector<std::string> trace;
      run(world.ranks, schedule, [&](Session& s) { run_program(world, s, world.program, true, &trace); });
      return std::pair{schedule.points(), trace};
    };
    const auto first = once();
    ASSERT_EQ(first, once()) << "seed " << seed;
    ASSERT_GT(first.first, 20U);
  }
  const World world = random_world(1);
  const auto points = [&](std::uint64_t seed) {
    Schedule schedule(world.ranks, seed, 0.5);
    std::vector<std::string> trace;
    run(world.ranks, schedule, [&](Session& s) { run_program(world, s, world.program, true, &trace); });
    return trace;
  };
  EXPECT_NE(points(1), points(2)) << "another seed is another run";
}

TEST(Interleavings, AsynchronousSumsAreExactInEveryOrder) {
  const std::uint64_t count = seeds(500);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    Schedule schedule(ranks, seed, 0.7);
    const auto outcomes = run(ranks, schedule, [&](Session& session) {
      const MatrixTable table = session.create_matrix(4, 2, {.dtype = DType::int64});
      std::mt19937_64 random(seed * 10 + static_cast<std::uint64_t>(session.rank()));
      std::int64_t own = 0;
      Values got(8);
      for (int step = 0; step < 12; ++step) {
        const auto amount = static_cast<std::int64_t>(random() % 100);
        if (random() % 2 == 0) {
          table.add_rows(std::vector<RowId>{1, 3, 1}, Values(6, amount));
          own += 2 * amount;
        } else {
          table.add(Values(8, amount));
          own += amount;
        }
        table.get(got);
        if (got[2] < own || got[2] != got[3]) throw InternalError("a row is torn, or an own add is missing");
      }
      Values sum = {own};
      session.all_reduce(sum);
      table.get(got);
      if (got[2] != sum[0]) throw InternalError("the sum is not exact");
    });
    for (const Outcome& outcome : outcomes) ASSERT_TRUE(outcome.finished) << "seed " << seed << ": " << outcome.text;
  }
}

}  // namespace
}  // namespace pleiad
