// The error of a call whose handle was dropped is never lost, and a get never returns before this worker's earlier adds
// have been applied or have thrown. Tested for each kind of table, clock and path (docs/consistency.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/inproc.h"
#include "pleiad/pleiad.hpp"
#include "session/core.h"
#include "tests/eventually.h"
#include "tests/file/folder.h"

namespace pleiad {
namespace {

using Numbers = std::vector<std::int64_t>;

SessionOptions on_hosts(int hosts) {
  SessionOptions options;
  options.split_hosts = hosts;
  options.log_level = "off";
  options.timeout = 600;
  options.host_timeout = 5;
  return options;
}

/// Values that all workers add to, in a table of some kind. They are stored on the last host, so with several hosts the
/// first rank reaches them by messages.
class Counter {
 public:
  static constexpr std::int64_t kSize = 40'000;  // three stripes

  Counter(Session& session, const std::string& kind, TableOptions options) : kind_(kind) {
    options.dtype = DType::int64;
    options.name = "counter";
    if (kind == "array") array_ = session.create_array(kSize, options);
    if (kind == "matrix") matrix_ = session.create_matrix(kSize / 4, 4, options);
    if (kind == "sparse") sparse_ = session.create_sparse(4, options);
    if (kind == "key_value") key_value_ = session.create_key_value(1, options);
  }

  /// Starts an add of one to every value, and drops its handle.
  void add() const { (void)start(); }
  [[nodiscard]] Pending start() const {
    if (array_) return array_->add_async(Numbers(kSize, 1));
    if (matrix_) return matrix_->add_async(Numbers(kSize, 1));
    if (sparse_) return sparse_->add_async(ids(), Numbers(4 * kIds, 1));
    return key_value_->add_async(ids(), Numbers(kIds, 1));
  }
  /// Returns the value that all elements have. Returns -1 if they differ: then an add was applied in part.
  [[nodiscard]] std::int64_t get() const {
    Numbers out;
    if (array_ || matrix_) {
      out.resize(kSize);
      array_ ? array_->get(out) : matrix_->get(out);
    } else {
      out.resize(static_cast<std::size_t>(sparse_ ? 4 : 1) * kIds);
      sparse_ ? sparse_->get(ids(), out) : key_value_->get(ids(), out);
    }
    return std::ranges::all_of(out, [&](std::int64_t x) { return x == out[0]; }) ? out[0] : -1;
  }
  void tick() const {
    if (array_) array_->tick();
    if (matrix_) matrix_->tick();
    if (sparse_) sparse_->tick();
    if (key_value_) key_value_->tick();
  }
  [[nodiscard]] std::uint64_t dropped() const {
    return (array_    ? array_->stats()
            : matrix_ ? matrix_->stats()
            : sparse_ ? sparse_->stats()
                      : key_value_->stats())
        .dropped_adds;
  }

 private:
  static constexpr std::size_t kIds = 64;
  static std::vector<RowId> ids() {
    std::vector<RowId> all;
    for (std::size_t i = 0; i < kIds; ++i) all.push_back(static_cast<RowId>(i) * 1'000'003);
    return all;
  }

  std::string kind_;
  std::optional<ArrayTable> array_;
  std::optional<MatrixTable> matrix_;
  std::optional<SparseTable> sparse_;
  std::optional<KeyValueTable> key_value_;
};

constexpr int kRanks = 4;
constexpr int kVictim = 3;
constexpr int kDeath = 7;  ///< the victim's last step

struct Seen {
  Numbers values;  ///< the results of the gets, one per step
  std::string error;
  std::string later;  ///< the error of a get after the first error
  std::uint64_t dropped = 0;
};

/// Every rank adds one and gets, step by step, with dropped handles. The victim dies in step kDeath: before its add, or
/// between its add and its get. Stops after `steps` steps or at the first error.
std::vector<Seen> run_with_a_death(const std::string& kind, const TableOptions& table, int hosts, bool after_add,
                                   int steps) {
  std::vector<Seen> seen(kRanks);
  run_inproc(kRanks, on_hosts(hosts), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const Counter counter(session, kind, table);
    Seen& mine = seen[static_cast<std::size_t>(engine->world().rank())];
    const bool victim = engine->world().rank() == kVictim;
    try {
      for (int step = 1; step <= steps; ++step) {
        if (victim && step == kDeath && !after_add) throw RankKilled{};
        counter.add();
        if (victim && step == kDeath) {
          throw RankKilled{};
        }
        mine.values.push_back(counter.get());
        if (table.clock == "ssp") counter.tick();
      }
    } catch (const Error& error) {
      mine.error = error.what();
      try {
        (void)counter.get();
      } catch (const Error& again) {
        mine.later = again.what();
      }
    }
    mine.dropped = counter.dropped();
    EXPECT_THROW(session.shutdown(), TransportError);  // without a shutdown this rank would be dead to the others, too
  });
  return seen;
}

struct Way {
  std::string name;
  TableOptions options;
};

std::vector<Way> ways() {
  TableOptions each, round, ordered, backup, ssp, async;
  each.clock = round.clock = ordered.clock = backup.clock = "sync";
  round.apply = ordered.apply = backup.apply = "round";
  ordered.ordered = true;
  backup.backup = 0.25;
  ssp.clock = "ssp";
  ssp.staleness = 2;
  return {{"sync", each}, {"round", round}, {"ordered", ordered}, {"backup", backup}, {"ssp", ssp}, {"async", async}};
}

class DroppedCalls : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(DroppedCalls, EveryGetSeesTheAddsBeforeItOrThrows) {
  const auto [kind, hosts] = GetParam();
  for (const Way& way : ways()) {
    for (const bool after_add : {false, true}) {
      SCOPED_TRACE(way.name + (after_add ? ", the victim dies after its add" : ", the victim dies before its add"));
      const auto seen = run_with_a_death(kind, way.options, hosts, after_add, 40);
      for (int rank = 0; rank < kRanks - 1; ++rank) {
        const Seen& mine = seen[static_cast<std::size_t>(rank)];
        SCOPED_TRACE("rank " + std::to_string(rank) + ": " + mine.error);
        for (std::size_t k = 0; k < mine.values.size(); ++k) {
          const auto step = static_cast<std::int64_t>(k) + 1;
          if (way.options.clock == "sync" && way.name != "backup") {
            // The k-th get returns exactly k whole steps of all ranks.
            ASSERT_EQ(mine.values[k], kRanks * step);
          } else if (way.name == "backup") {
            // A late worker may read while the others close the next round, so some stripes already contain that round.
            ASSERT_TRUE(mine.values[k] == -1 || mine.values[k] + static_cast<std::int64_t>(mine.dropped) >= step)
                << mine.values[k] << " in step " << step;
          } else {
            ASSERT_TRUE(mine.values[k] == -1 || mine.values[k] >= step) << mine.values[k] << " in step " << step;
          }
        }
        if (way.name == "async" && hosts == 1) {
          ASSERT_EQ(mine.error, "") << "the death is no reason to stop";
          ASSERT_EQ(mine.values.size(), 40U);
        }
        // Between hosts an asynchronous call may fail because of the death. A round with a backup worker may close
        // without the dead rank.
        if (mine.error.empty() && (way.name == "async" || way.name == "backup")) continue;
        // Between hosts a rank may learn of the end of the victim's session, or of another survivor's shutdown, before
        // it learns of the death.
        const bool names_the_dead =
            hosts > 1 ? mine.error.find("rank 3") !=
                            std::string::npos  // or "[rank 3] add: the session was shut down during the call"
                      : mine.error.find("rank 3 ") != std::string::npos && mine.error.find("died") != std::string::npos;
        const bool names_the_host = mine.error.find("check that the host") != std::string::npos;
        const bool names_the_failed = mine.error.find("after an add that failed") != std::string::npos;
        ASSERT_TRUE(names_the_dead || (hosts > 1 && (names_the_host || names_the_failed)));
        if (way.name == "async" || way.name == "backup") continue;
        const std::size_t most = way.name == "ssp" ? kDeath + 3 : kDeath;
        ASSERT_LE(mine.values.size(), most);
        if (way.options.clock == "sync") {
          ASSERT_NE(mine.later, "") << "a get after the error returned old values";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTable, DroppedCalls,
                         testing::Combine(testing::Values("array", "matrix", "sparse", "key_value"),
                                          testing::Values(1, 2)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param)) + "_on_" +
                                  std::to_string(std::get<1>(each.param)) + "_hosts";
                         });

/// Makes the n-th add that rank 0 carries out on this host fail.
class FailAnAdd final : public Hooks {
 public:
  void at(int rank, Point point) override {
    if (rank == 0 && point == Point::add && armed.exchange(false)) throw MemoryError("the test has no memory");
  }
  std::atomic<bool> armed{false};
};

/// A world of two hosts. Rank 0 drops the handle of an add that fails, and then runs `then`. The other ranks run
/// `others`.
void after_a_failed_add(const std::function<void(Session&, const ArrayTable&)>& then,
                        const std::function<void(Session&, const ArrayTable&)>& others, const char* clock = "async") {
  FailAnAdd hooks;
  run_inproc(2, on_hosts(2), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const ArrayTable table = session.create_array(100'000, {.name = "w", .dtype = DType::int64, .clock = clock});
    if (engine->world().rank() != 0) return others(session, table);
    hooks.armed = true;
    Pending started = table.add_async(Numbers(100'000, 1));
    EXPECT_TRUE(eventually([&] { return started.done(); }));
    EXPECT_TRUE(started.failed());
    started = {};
    then(session, table);
  });
}

template <class F>
void expect_the_error(F&& call) {
  try {
    call();
    ADD_FAILURE() << "the error of the dropped add was lost";
  } catch (const MemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("an earlier add on table \"w\" failed: the test has no memory"),
              std::string::npos)
        << error.what();
  }
}

const auto kShutDown = [](Session& session, const ArrayTable&) { session.shutdown(); };

TEST(DroppedError, IsThrownOnceByTheNextCallOnTheTable) {
  Numbers out(100'000);
  const std::vector<std::function<void(const ArrayTable&)>> calls = {
      [&](const ArrayTable& table) { table.get(out); },
      [&](const ArrayTable& table) { table.add(out); },
      [&](const ArrayTable& table) { (void)table.get_async(out); },
      [&](const ArrayTable& table) { (void)table.add_async(out); },
      [&](const ArrayTable& table) { table.add_get(out, out); },
  };
  for (const auto& call : calls) {
    after_a_failed_add(
        [&](Session& session, const ArrayTable& table) {
          expect_the_error([&] { call(table); });
          table.get(out);  // an asynchronous table still works
          session.shutdown();
        },
        kShutDown);
  }
}

TEST(DroppedError, OfAnotherTableDisturbsNoCall) {
  after_a_failed_add(
      [&](Session& session, const ArrayTable&) {
        const ArrayTable other = session.create_array(3, {.name = "other"});
        std::vector<float> out(3);
        other.get(out);
        expect_the_error([&] { session.shutdown(); });
      },
      [](Session& session, const ArrayTable&) {
        const ArrayTable other = session.create_array(3, {.name = "other"});
        session.shutdown();
      });
}

TEST(DroppedError, IsThrownByABarrierThatTheOthersPass) {
  after_a_failed_add(
      [&](Session& session, const ArrayTable&) {
        expect_the_error([&] { session.barrier(); });
        session.barrier();
        session.shutdown();
      },
      [](Session& session, const ArrayTable&) {
        session.barrier();
        session.barrier();
        session.shutdown();
      });
}

TEST(DroppedError, IsThrownByASaveOnEveryRank) {
  const test::Folder folder;
  std::atomic<int> told{0};
  const auto save = [&](Session& session, const ArrayTable&) {
    try {
      save_tables(session, folder / "saved");
    } catch (const MemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("an earlier add on table \"w\""), std::string::npos) << error.what();
      ++told;
    }
    save_tables(session, folder / "saved");
    session.shutdown();
  };
  after_a_failed_add(save, save);
  EXPECT_EQ(told, 2);
}

TEST(DroppedError, IsThrownByTheShutdown) {
  after_a_failed_add([&](Session& session, const ArrayTable&) { expect_the_error([&] { session.shutdown(); }); },
                     kShutDown);
}

TEST(DroppedError, IsThrownByAStartedGetThatComesAfterTheAdd) {
  FailAnAdd hooks;
  run_inproc(2, on_hosts(2), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const ArrayTable table = session.create_array(100'000, {.name = "w", .dtype = DType::int64});
    if (engine->world().rank() == 0) {
      hooks.armed = true;
      Numbers out(100'000);
      (void)table.add_async(out);
      // Either the start of the get throws, or its wait.
      expect_the_error([&] {
        Pending got = table.get_async(out);
        got.wait();
      });
    }
    session.shutdown();
  });
}

TEST(DroppedError, ThatItsHandleHasThrownIsNotThrownAgain) {
  FailAnAdd hooks;
  run_inproc(2, on_hosts(2), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const ArrayTable table = session.create_array(100'000, {.name = "w", .dtype = DType::int64});
    if (engine->world().rank() == 0) {
      hooks.armed = true;
      Numbers out(100'000);
      Pending started = table.add_async(out);
      EXPECT_THROW(started.wait(), MemoryError);
      table.get(out);
    }
    session.barrier();
    session.shutdown();
  });
}

TEST(DroppedError, AWorkerThatFailsInAnAddAndShutsDownStopsTheOthers) {
  for (const int hosts : {1, 2}) {
    for (const char* apply : {"each", "round"}) {
      FailAnAdd hooks;
      std::atomic<bool> failed{false};
      run_inproc(2, on_hosts(hosts), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
        Session session(std::make_shared<SessionCore>(engine));
        const ArrayTable table =
            session.create_array(100'000, {.name = "w", .dtype = DType::int64, .clock = "sync", .apply = apply});
        Numbers values(100'000, 1);
        if (engine->world().rank() == 0) {
          hooks.armed = true;
          EXPECT_THROW(table.add(values), MemoryError);
          EXPECT_THROW(table.get(values), MemoryError);  // this worker can no longer use the table
          failed = true;
        } else {
          EXPECT_TRUE(eventually([&] { return failed.load(); }));
          table.add(values);
          // Without rank 0's add there is no first round, whether or not rank 0 is still in the world.
          EXPECT_THROW(table.get(values), OrderError);
        }
        session.shutdown();
      });
    }
  }
}

TEST(TableRelease, DroppedByAllRanksGivesItsMemoryBack) {
  for (const int hosts : {1, 2}) {
    run_inproc(4, on_hosts(hosts), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
      auto core = std::make_shared<SessionCore>(engine);
      Session session(core);
      const ArrayTable kept = session.create_array(1000, {.name = "kept"});
      std::vector<float> ones(1000, 1);
      for (int i = 0; i < 20; ++i) {
        const ArrayTable brief = session.create_array(1000, {.name = "brief"});
        brief.add(ones);
      }
      EXPECT_LE(core->tables().size(), 3U);
      session.barrier();
      EXPECT_EQ(core->tables().size(), 1U);
      {
        // One rank keeps a handle, so the table stays.
        std::optional<ArrayTable> held = session.create_array(1000, {.name = "held"});
        if (engine->world().rank() != 2) held.reset();
        session.barrier();
        EXPECT_EQ(core->tables().size(), 2U);
        if (held) {
          std::vector<float> out(1000);
          held->add(ones);
          held->get(out);
          EXPECT_EQ(out[999], 1);
        }
      }
      session.barrier();
      EXPECT_EQ(core->tables().size(), 1U);
      kept.add(ones);
      session.barrier();
      std::vector<float> out(1000);
      kept.get(out);
      EXPECT_EQ(out[0], 4);
      session.shutdown();
    });
  }
}

TEST(TableRelease, AClosedTableRefusesCallsAndTheOthersGoOn) {
  for (const int hosts : {1, 2}) {
    for (const char* clock : {"async", "sync", "ssp"}) {
      run_inproc(4, on_hosts(hosts), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
        auto core = std::make_shared<SessionCore>(engine);
        Session session(core);
        const ArrayTable first = session.create_array(50'000, {.name = "first", .clock = clock});
        const ArrayTable second = session.create_array(3, {.name = "second", .clock = clock});
        const std::vector<float> ones(50'000, 1);
        std::vector<float> out(50'000);
        (void)first.add_async(ones);
        first.get(out);
        first.close();
        first.close();  // has no effect
        EXPECT_TRUE(first.closed());
        EXPECT_THROW(first.get(out), StateError);
        EXPECT_THROW((void)first.add_async(ones), StateError);
        EXPECT_THROW((void)first.stats(), StateError);
        EXPECT_EQ(first.name(), "first");
        EXPECT_EQ(core->tables().size(), 1U);
        second.add(std::vector<float>(3, 1));
        std::vector<float> three(3);
        session.barrier();
        second.get(three);
        EXPECT_EQ(three[0], 4);
        session.shutdown();
      });
    }
  }
}

TEST(TableRelease, RanksThatCloseDifferentTablesAllGetAnOrderError) {
  run_inproc(2, on_hosts(1), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const ArrayTable a = session.create_array(3, {.name = "a"});
    const ArrayTable b = session.create_array(3, {.name = "b"});
    EXPECT_THROW((engine->world().rank() == 0 ? a : b).close(), OrderError);
    EXPECT_FALSE(a.closed() || b.closed());
    session.shutdown();
  });
}

TEST(TableRelease, ADroppedTableFinishesItsStartedAdds) {
  FailAnAdd hooks;
  run_inproc(2, on_hosts(2), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    {
      const ArrayTable table = session.create_array(100'000, {.name = "w", .dtype = DType::int64});
      if (engine->world().rank() == 0) {
        hooks.armed = true;
        (void)table.add_async(Numbers(100'000, 1));
      }
    }
    if (engine->world().rank() == 0) {
      expect_the_error([&] { session.barrier(); });
    } else {
      session.barrier();
    }
    session.shutdown();
  });
}

}  // namespace
}  // namespace pleiad
