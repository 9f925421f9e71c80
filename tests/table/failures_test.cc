// The failure matrix of docs/consistency.md, column "threads", and the messages of failed waits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <regex>

#include "core/process.h"
#include "engine/inproc.h"
#include "session/core.h"
#include "tests/eventually.h"
#include "tests/failure_program.h"
#include "tests/file/folder.h"

namespace pleiad {
namespace {

using failures::Observation;
using failures::Plan;

SessionOptions quiet() {
  SessionOptions options;
  options.log_level = "off";
  options.timeout = 600;
  return options;
}

/// Runs the program on `ranks` threads. The observation of the dead rank is empty.
std::vector<std::optional<Observation>> observe_all(int ranks, const std::string& fault, Plan plan = {}) {
  std::optional<FaultHooks> hooks;
  if (!fault.empty()) hooks.emplace(Fault::parse(fault), true);
  std::vector<std::optional<Observation>> seen(static_cast<std::size_t>(ranks));
  plan.end_now = [] { throw RankKilled{}; };
  std::atomic<bool> ended{false};
  plan.await_end = [&](Session&) { EXPECT_TRUE(eventually([&] { return ended.load(); })); };
  run_inproc(ranks, quiet(), hooks ? &*hooks : nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    const int rank = engine->world().rank();
    Plan own = plan;
    own.end_later = [&](Session&) {
      engine->waiter().set_interrupt([&ended, self = engine.get()] {
        if (self->members().liveness(self->world().rank()) != Liveness::left) return false;
        ended = true;
        throw RankKilled{};
      });
    };
    try {
      Session session(std::make_shared<SessionCore>(engine));
      seen[static_cast<std::size_t>(rank)] = observe(session, own);
    } catch (const Error& error) {
      seen[static_cast<std::size_t>(rank)] = Observation{};
      seen[static_cast<std::size_t>(rank)]->error = error.kind();
      seen[static_cast<std::size_t>(rank)]->text = error.what();
    }
  });
  return seen;
}

bool names(const std::string& text, int rank) {
  return text.find("rank " + std::to_string(rank) + " ") != std::string::npos;
}

// Rank 1 dies. Every survivor soon gets an error that names it, and can still use the asynchronous table.
void expect_all_told(const std::vector<std::optional<Observation>>& seen, bool tables = true) {
  EXPECT_FALSE(seen[1]) << "rank 1 did not die";
  for (std::size_t r = 0; r < seen.size(); ++r) {
    if (r == 1) continue;
    ASSERT_TRUE(seen[r]);
    EXPECT_EQ(seen[r]->error, ErrorKind::transport) << seen[r]->text;
    EXPECT_TRUE(names(seen[r]->text, 1)) << seen[r]->text;
    EXPECT_LT(seen[r]->seconds, 60) << "that is not soon on any machine";
    if (!tables) continue;
    EXPECT_EQ(seen[r]->table_problem, "");
    EXPECT_TRUE(names(seen[r]->shutdown_text, 1)) << seen[r]->shutdown_text;
  }
}

void await_death(const InprocEngine& engine) {
  EXPECT_TRUE(eventually([&] { return engine.members().liveness(1) == Liveness::dead; }));
}

TEST(InprocFailure, InTheMiddleOfAnAdd) {
  const auto seen = observe_all(4, "1:add:8");  // the second stripe of the second add to the asynchronous table
  expect_all_told(seen);
  EXPECT_EQ(seen[0]->torn, 1U);
}

TEST(InprocFailure, InTheMiddleOfAGet) {
  const auto seen = observe_all(4, "1:get:8");
  expect_all_told(seen);
  EXPECT_EQ(seen[0]->torn, 1U) << "a reader's lock cannot be told from a writer's";
}

TEST(InprocFailure, InASynchronousCall) { expect_all_told(observe_all(4, "1:clock:5")); }
TEST(InprocFailure, InABarrier) { expect_all_told(observe_all(4, "1:barrier:6")); }
TEST(InprocFailure, InAnAllReduce) { expect_all_told(observe_all(4, "1:all_reduce:6")); }
TEST(InprocFailure, InTheCreationOfATable) { expect_all_told(observe_all(4, "1:collective:3"), false); }
TEST(InprocFailure, BeforeTheFirstCall) { expect_all_told(observe_all(4, "1:collective:1"), false); }

// The rule of a round runs in the first get after the round. If the rank dies during that, some units of a stripe
// contain the round and others do not.
TEST(InprocFailure, InTheMiddleOfARound) {
  FaultHooks hooks(Fault::parse("1:settle:2"), true);
  std::atomic<int> told{0};
  run_inproc(3, quiet(), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const MatrixTable table = session.create_matrix(8, 4, {.name = "sync", .clock = "sync", .apply = "round"});
    std::vector<float> values(32, 1);
    table.add(values);
    if (engine->world().rank() != 1) await_death(*engine);
    try {
      table.get(values);
      ADD_FAILURE() << "rank " << engine->world().rank() << " got values of a half-finished round";
    } catch (const TransportError& error) {
      EXPECT_TRUE(names(error.what(), 1)) << error.what();
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
}

// A rank dies while it creates a row: no rank sees that row, and the next add creates it.
TEST(InprocFailure, InTheMakingOfARow) {
  for (const char* fault : {"1:make:1", "1:make:40"}) {
    FaultHooks hooks(Fault::parse(fault), true);
    std::atomic<int> whole{0};
    run_inproc(3, quiet(), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
      Session session(std::make_shared<SessionCore>(engine));
      const SparseTable table =
          session.create_sparse(4, {.name = "rows", .dtype = DType::int64, .init = "constant", .init_value = 5});
      std::vector<RowId> ids(100);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<RowId>(i) * 1'000'003;
      if (engine->world().rank() != 1) await_death(*engine);
      table.add(ids, std::vector<std::int64_t>(400, 1));
      ASSERT_NE(engine->world().rank(), 1) << "it did not die";
      EXPECT_THROW(session.barrier(), TransportError);
      for (int step = 0; step < 50; ++step) table.add(ids, std::vector<std::int64_t>(400, 1));
      std::vector<std::int64_t> out(400);
      table.get(ids, out);
      for (const std::int64_t value : out) EXPECT_GE(value, 5 + 51) << "adds were lost";
      EXPECT_EQ(table.get_all().ids.size(), 100U) << "a row that is half made, or made twice";
      EXPECT_EQ(table.stats().torn_stripes, 0U);
      ++whole;
    });
    EXPECT_EQ(whole, 2);
  }
}

// A rank dies while it holds the lock of a stripe of rows, as in any other table.
TEST(InprocFailure, InTheMiddleOfAnAddToRows) {
  for (const char* clock : {"async", "sync"}) {
    FaultHooks hooks(Fault::parse("1:add:4"), true);
    std::atomic<int> told{0};
    run_inproc(3, quiet(), &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
      Session session(std::make_shared<SessionCore>(engine));
      const SparseTable table =
          session.create_sparse(4, {.name = "rows", .dtype = DType::int64, .clock = clock, .track_changes = true});
      const std::vector<RowId> ids = {1, -2, 3, -4, 5, -6};
      std::vector<std::int64_t> numbers(24, 1);
      if (engine->world().rank() != 1) await_death(*engine);
      try {
        table.add(ids, numbers);
        if (clock == std::string("sync")) table.get(ids, numbers);
        ASSERT_EQ(clock, std::string("async")) << "got values of a torn stripe";
        EXPECT_EQ(table.stats().torn_stripes, 1U);
        EXPECT_EQ(table.get_changed().ids.size(), 6U);
        ++told;
      } catch (const TransportError& error) {
        EXPECT_TRUE(names(error.what(), 1)) << error.what();
        EXPECT_EQ(clock, std::string("sync"));
        ++told;
      }
    });
    EXPECT_EQ(told, 2) << clock;
  }
}

// There is no memory for the n-th new row: the add changes nothing, and the table still works.
TEST(Sparse, WithoutMemoryForARowTheTableContinues) {
  class Full final : public Hooks {
   public:
    void at(int, Point point) override {
      if (point == Point::make && ++made == 5) throw MemoryError("no memory, says the test");
    }
    int made = 0;
  } full;
  run_inproc(1, quiet(), &full, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const SparseTable table = session.create_sparse(1, {.dtype = DType::int32});
    const std::vector<RowId> four = {10, 20, 30, 40};
    const std::vector<std::int32_t> ones(6, 1);
    table.add(four, std::span(ones).first(4));
    const std::vector<RowId> six = {10, 20, 30, 40, 50, 60};
    EXPECT_THROW(table.add(six, ones), MemoryError);
    std::vector<std::int32_t> out(6);
    table.get(six, out);
    EXPECT_EQ(out, (std::vector<std::int32_t>{1, 1, 1, 1, 0, 0}));
    table.add(six, ones);
    table.get(six, out);
    EXPECT_EQ(out, (std::vector<std::int32_t>{2, 2, 2, 2, 1, 1}));
    session.shutdown();
  });
}

TEST(Sparse, ARowThatIsLargerThanTheMemoryIsRefusedByName) {
  // The memory is reserved and never touched: the add is refused before the first value of the row is read.
  const std::size_t bytes = total_memory() / 4096 * 4096 * 2;
  void* nothing = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  run_cluster(
      1,
      [&](Session& session) {
        const auto cols = static_cast<std::int64_t>(bytes / sizeof(double));
        const SparseTable table = session.create_sparse(cols, {.name = "vast", .dtype = DType::float64});
        const RowId id = 3;
        try {
          table.add({&id, 1}, ConstView(nothing, cols, DType::float64));
          ADD_FAILURE() << "it was not refused";
        } catch (const MemoryError& error) {
          const std::string text = error.what();
          for (const char* word : {"vast", "no room for another row", "more than this process can get"}) {
            EXPECT_NE(text.find(word), text.npos) << text;
          }
        }
        EXPECT_EQ(table.rows(), 0);
        session.shutdown();
      },
      quiet());
  munmap(nothing, bytes);
}

TEST(InprocFailure, BetweenTwoCalls) {
  Plan plan;
  plan.idle_victim = 1;
  const auto seen = observe_all(4, "", plan);
  expect_all_told(seen);
  EXPECT_EQ(seen[0]->torn, 0U);
}

TEST(InprocFailure, ADeathAfterTheShutdownDisturbsNoRank) {
  Plan plan;
  plan.late_victim = 1;
  const auto seen = observe_all(3, "", plan);
  EXPECT_FALSE(seen[1]) << "rank 1 did not die";
  for (const std::size_t r : {0, 2}) {
    ASSERT_TRUE(seen[r]);
    EXPECT_FALSE(seen[r]->error) << seen[r]->text;
    EXPECT_EQ(seen[r]->table_problem, "");
    EXPECT_EQ(seen[r]->shutdown_text, "");
  }
}

TEST(InprocFailure, WithoutADeathThereIsNothingToSee) {
  for (const auto& seen : observe_all(3, "")) {
    ASSERT_TRUE(seen);
    EXPECT_FALSE(seen->error) << seen->text;
    EXPECT_EQ(seen->table_problem, "");
    EXPECT_EQ(seen->torn, 0U);
    EXPECT_EQ(seen->shutdown_text, "");
  }
}

TEST(InprocFailure, AnUncaughtErrorOfOneRankIsADeathToTheOthers) {
  std::atomic<int> told{0};
  EXPECT_THROW(run_cluster(
                   3,
                   [&](Session& session) {
                     if (session.rank() == 1) throw std::runtime_error("a mistake in the user's code");
                     try {
                       session.barrier();
                     } catch (const TransportError& error) {
                       told += names(error.what(), 1) ? 1 : 0;
                     }
                   },
                   quiet()),
               std::runtime_error);
  EXPECT_EQ(told, 2);
}

TEST(InprocFailure, ASessionThatEndsWithoutShutdownEndsItsPendingOperations) {
  // Rank 1's adds wait for rank 0's gets in another thread when the session ends.
  std::string text;
  std::atomic<bool> leaves{false};
  EXPECT_THROW(run_cluster(
                   2,
                   [&](Session& session) {
                     const ArrayTable table = session.create_array(50'000, {.name = "sync", .clock = "sync"});
                     const std::vector<float> ones(50'000, 1);
                     std::vector<float> out(50'000);
                     table.add(ones);
                     if (session.rank() == 1) {
                       table.get(out);
                       for (int i = 0; i < 5; ++i) (void)table.add_async(ones);
                       leaves = true;
                       throw std::logic_error("leaves");
                     }
                     try {
                       EXPECT_TRUE(eventually([&] { return leaves.load(); }));
                       for (;;) {
                         table.get(out);
                         table.add(ones);
                       }
                     } catch (const Error& error) {
                       text = error.what();
                     }
                   },
                   quiet()),
               std::logic_error);
  EXPECT_TRUE(names(text, 1)) << text;
}

TEST(Wait, ADeathIsNamedEvenIfAnotherRankHasShutDownBecauseOfIt) {
  std::atomic<bool> left{false};
  std::string text;
  run_inproc(3, quiet(), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    std::vector<float> one(1);
    if (session.rank() == 2) throw RankKilled{};
    if (session.rank() == 0) {
      EXPECT_THROW(session.receive(2, 1, one), TransportError);
      left = true;
      EXPECT_THROW(session.shutdown(), TransportError);
      return;
    }
    while (!left || session.report().find("has shut down") == std::string::npos) std::this_thread::yield();
    try {
      session.barrier();  // without rank 0, which has shut down, and rank 2, which is dead
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::transport) << error.what();
      text = error.what();
    }
  });
  EXPECT_TRUE(names(text, 2)) << text;
}

TEST(Wait, ARankThatShutsDownAfterItsPartIsNoError) {
  // A waiting rank must not raise an error in this order of events: it finds that rank 1 has not arrived, is paused,
  // and then finds that rank 1 has left.
  std::atomic<bool> looked{false};
  std::atomic<bool> done{false};
  std::atomic<bool> gone{false};
  run_inproc(2, quiet(), nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    if (engine->world().rank() == 1) {
      while (!looked) std::this_thread::yield();
      done = true;
      engine->members().abandon(Liveness::left);
      gone = true;
      return;
    }
    Event event;
    EXPECT_NO_THROW(engine->waiter().wait(event, {.call = Call::barrier,
                                                  .ready = [&] { return done.load(); },
                                                  .missing =
                                                      [&] {
                                                        looked = true;
                                                        while (!gone) std::this_thread::yield();
                                                        return std::vector<int>{1};
                                                      }}));
  });
}

TEST(Wait, ATimeoutNamesTheMissingRankAndItsState) {
  for (const bool clocked : {true, false}) {
    SessionOptions options = quiet();
    options.timeout = 5;  // much longer than all ranks need to reach their calls
    std::mutex mutex;
    std::string text;  // guarded by mutex
    std::atomic<bool> told{false};
    run_cluster(
        3,
        [&](Session& session) {
          const ArrayTable table = session.create_array(3, {.name = "weights", .clock = "sync"});
          const auto call = [&] {
            if (clocked) {
              table.add(std::vector<float>{1, 2, 3});
              std::vector<float> out(3);
              table.get(out);
            } else {
              session.barrier();
            }
          };
          if (session.rank() == 2) {
            while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            // The ranks are out of step after a rank has given up, so the next call of this one raises an error.
            EXPECT_THROW(call(), OrderError);
            return;
          }
          try {
            call();
            ADD_FAILURE() << "went on without rank 2";
          } catch (const Error& error) {
            // The first rank to give up reports a timeout, and the other one receives its error.
            if (error.kind() == ErrorKind::timeout) {
              const std::lock_guard lock(mutex);
              text = error.what();
            }
            EXPECT_TRUE(error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::order);
            told = true;
          }
        },
        options);
    const std::regex words(std::string(clocked ? "get" : "barrier") + R"( waited (\d+\.\d) s for rank 2)");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, words)) << text;
    EXPECT_GE(std::stod(found[1]), 5);
    EXPECT_NE(text.find("idle"), std::string::npos) << text;
  }
}

/// While an object of this class exists, stderr goes to a file.
class StderrInto {
 public:
  explicit StderrInto(const std::string& path) : before_(dup(STDERR_FILENO)) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    EXPECT_NE(dup2(file, STDERR_FILENO), -1);
    close(file);
  }
  ~StderrInto() {
    (void)dup2(before_, STDERR_FILENO);
    close(before_);
  }
  StderrInto(const StderrInto&) = delete;
  StderrInto& operator=(const StderrInto&) = delete;

 private:
  int before_;
};

TEST(Wait, ASlowRankOnlyCausesAWarningWithTheStateOfEveryRank) {
  SessionOptions options = quiet();
  options.log_level = "warn";
  options.warn_after = 0.2;
  const test::Folder folder;
  const StderrInto captured(folder / "stderr");
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(3, {.name = "weights", .clock = "sync"});
        const std::vector<float> delta = {1, 2, 3};
        std::vector<float> out(3);
        table.add(delta);
        table.get(out);
        if (session.rank() == 1) {  // until the other rank has been warned
          EXPECT_TRUE(eventually([&] { return test::slurp(folder / "stderr").find("idle") != std::string::npos; }));
        }
        table.add(delta);
        table.get(out);
        EXPECT_EQ(out[2], 12);
        session.shutdown();
      },
      options);
  const std::string log = test::slurp(folder / "stderr");
  EXPECT_NE(log.find("warn"), std::string::npos) << log;
  EXPECT_NE(log.find("rank 0 "), std::string::npos) << log;
  EXPECT_NE(log.find("(\"weights\"), waiting"), std::string::npos) << log;
  EXPECT_NE(log.find("rank 1 "), std::string::npos) << log;
  EXPECT_NE(log.find("idle"), std::string::npos) << log;
}

// Stops rank 1 while it holds the lock of a stripe, as a debugger would.
class StopInAnAdd final : public Hooks {
 public:
  void at(int rank, Point point) override {
    if (rank != 1 || point != Point::add || stopped.exchange(true)) return;
    EXPECT_TRUE(eventually([&] { return released.load(); }));
  }
  std::atomic<bool> stopped{false};
  std::atomic<bool> released{false};
};

TEST(Wait, ALockThatAStoppedRankHoldsEndsInATimeoutThatNamesIt) {
  StopInAnAdd hooks;
  std::atomic<bool> added{false};
  SessionOptions options = quiet();
  options.timeout = 5;  // much longer than both need to reach their calls
  run_inproc(2, options, &hooks, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    const ArrayTable table = session.create_array(3, {.name = "async", .dtype = DType::int64});
    std::vector<std::int64_t> values = {1, 2, 3};
    if (session.rank() == 1) {
      table.add(values);
      added = true;
      return;
    }
    EXPECT_TRUE(eventually([&] { return hooks.stopped.load(); }));
    try {
      table.get(values);
      ADD_FAILURE() << "got what rank 1 is changing";
    } catch (const TimeoutError& error) {
      EXPECT_NE(std::string(error.what()).find("lock that rank 1 "), std::string::npos) << error.what();
    }
    hooks.released = true;
    EXPECT_TRUE(eventually([&] { return added.load(); }));
    table.get(values);
    EXPECT_EQ(values[2], 3);
  });
}

TEST(Wait, AnAbortedMessageEndsTheFollowingOnes) {
  std::atomic<bool> given_up{false};
  std::atomic<bool> told{false};
  SessionOptions options = quiet();
  options.timeout = 5;  // much longer than both need to reach their calls
  run_inproc(2, options, nullptr, [&](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    std::vector<float> large(4'000'000, 1);
    std::vector<float> small(1, 2);
    if (session.rank() == 0) {
      EXPECT_THROW(session.send(1, 1, large), TimeoutError);
      EXPECT_THROW(session.send(1, 1, small), TransportError);
      given_up = true;
      EXPECT_TRUE(eventually([&] { return told.load(); }));
    } else {
      EXPECT_TRUE(eventually([&] { return given_up.load(); }));
      try {
        session.receive(0, 1, large);
        ADD_FAILURE() << "half of it never came";
      } catch (const TransportError& error) {
        EXPECT_NE(std::string(error.what()).find("aborted midway"), std::string::npos) << error.what();
      }
      told = true;
    }
  });
}

TEST(Wait, AnInterruptEndsIt) {
  std::atomic<int> interrupted{0};
  run_cluster(
      2,
      [&](Session& session) {
        if (session.rank() == 1) {
          while (interrupted == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          EXPECT_THROW(session.barrier(), OrderError);
          return;
        }
        session.set_interrupt([] { return true; });
        EXPECT_THROW(session.barrier(), Interrupted);
        session.set_interrupt({});
        interrupted = 1;
      },
      quiet());
}

TEST(EveryRankWaits, IsNotConcludedWhileARankWritesInTheBackground) {
  run_inproc(2, quiet(), nullptr, [](const std::shared_ptr<InprocEngine>& engine) {
    Session session(std::make_shared<SessionCore>(engine));
    if (engine->world().rank() == 0) {
      std::atomic<bool> written{false};
      engine->activity().background_work_started();
      // A disk that takes much longer than idle processes may wait for each other (0.5 s, more on a busy machine).
      std::jthread slow_disk([&] {
        std::this_thread::sleep_for(std::chrono::seconds(3));
        written = true;
        engine->activity().background_work_ended();
      });
      engine->waiter().wait_by(
          [](std::int64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); },
          {.call = Call::wait, .ready = [&] { return written.load(); }, .missing = [] { return std::vector<int>(); }});
    }
    session.barrier();
    session.shutdown();
  });
}

}  // namespace
}  // namespace pleiad
