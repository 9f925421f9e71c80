// Workers that make different calls: every rank receives an error at once, and its message names the difference.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/eventually.h"
#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

TableOptions sync_table(const std::string& name, const std::string& apply = "each") {
  TableOptions options{.name = name};
  options.clock = "sync";
  options.apply = apply;
  return options;
}

const std::vector<float> kDelta = {1, 2, 3};

// Runs `body` and returns the message of the OrderError that it must throw within seconds. A busy machine may take a
// minute, but far less than the timeout.
std::string told(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  std::string text = message_of<OrderError>(body);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120)) << "that is no prompt answer";
  return text;
}

}  // namespace

CASE_FOR(Ledger, AMissingGetIsAnErrorOnEveryRank, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  const int odd = session.size() - 1;
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      table.add(kDelta);
      if (session.rank() != odd || step != 3) table.get(out);
    }
  });
  EXPECT_TRUE(mentions(text, {"add(\"weights\")", "get(\"weights\")", rank_words(odd), "call 8"}));
}

CASE_FOR(Ledger, AMissingAddIsAnErrorOnEveryRank, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights", "round"));
  std::vector<float> out(3);
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      if (session.rank() != 0 || step != 2) table.add(kDelta);
      table.get(out);
    }
  });
  EXPECT_TRUE(mentions(text, {"add(\"weights\")", "get(\"weights\")", rank_words(0), "call 5"}));
}

CASE_FOR(Ledger, AnotherTableIsAnErrorOnEveryRank, 2) {
  const ArrayTable first = session.create_array(3, sync_table("first"));
  const ArrayTable second = session.create_array(3, sync_table("second"));
  std::vector<float> out(3);
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      const bool swapped = session.rank() == 1 && step == 5;
      (swapped ? second : first).add(kDelta);
      (swapped ? first : second).add(kDelta);
      first.get(out);
      second.get(out);
    }
  });
  EXPECT_TRUE(mentions(text, {"add(\"first\")", "add(\"second\")", rank_words(1)}));
}

CASE_FOR(Ledger, StartedOperationsAreComparedToo, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      std::vector<float> out(3);
      (void)table.add_async(kDelta);
      if (session.rank() == 1 && step == 3) (void)table.add_async(kDelta);
      Pending got = table.get_async(out);
      got.wait();
    }
  });
  EXPECT_TRUE(mentions(text, {"add(\"weights\")", "get(\"weights\")", rank_words(1)}));
}

CASE_FOR(Ledger, AWorkerWithAMissingAddGetsAnErrorAtTheBarrier, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  const int odd = session.size() - 1;
  const std::string text = told([&] {
    for (int step = 0; step < 3; ++step) {
      if (session.rank() != odd || step != 2) table.add(kDelta);
      session.barrier();
    }
  });
  EXPECT_TRUE(mentions(text, {"barrier", "has made 3", "call 3, add(\"weights\")", rank_words(0), rank_words(odd)}));
}

CASE_FOR(Ledger, AWorkerWithAnExtraAddGetsAnErrorAtTheBarrier, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  const std::string text = told([&] {
    (void)table.add_async(kDelta);
    if (session.rank() == 0) (void)table.add_async(kDelta);
    session.barrier();
  });
  EXPECT_TRUE(mentions(text, {"barrier", "has made 2", "call 2, add(\"weights\")", rank_words(0), rank_words(1)}));
}

CASE_FOR(Ledger, ABarrierOfAnotherThreadDoesNotCountCalls, 2) {
  // While one thread is at a barrier, another thread may be anywhere between its calls.
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  for (int step = 0; step <= session.rank(); ++step) table.add(kDelta);
  std::string problem;
  std::thread other([&] {
    try {
      session.barrier();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  other.join();
  EXPECT_EQ(problem, "");
  for (int step = session.rank() + 1; step < session.size(); ++step) table.add(kDelta);
  EXPECT_NO_THROW(table.get(out));
}

CASE_FOR(Ledger, ABarrierIsNoMistakeWhileAnotherThreadHasStillToCall, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::string problem;
  std::thread other([&] {
    try {
      if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(150));
      std::vector<float> out(3);
      table.add(kDelta);
      table.get(out);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  EXPECT_NO_THROW(session.barrier());
  other.join();
  EXPECT_EQ(problem, "");
}

CASE_FOR(Ledger, AThreadThatHasEndedDoesNotHideADeadlock, 2, true) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::thread([&] { session.barrier(); }).join();
  std::vector<float> out(3);
  const std::string text = told([&] {
    table.add(kDelta);
    if (session.rank() == 0) session.barrier();
    table.add(kDelta);
    table.get(out);
  });
  EXPECT_TRUE(mentions(text, {"every rank waits"}));
}

CASE_FOR(Ledger, ABarrierInsteadOfAGetIsDetectedWhenAllWait, 2, true) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  const int odd = session.size() - 1;
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      table.add(kDelta);
      if (session.rank() == odd && step == 3) {
        session.barrier();
      } else {
        table.get(out);
      }
    }
  });
  EXPECT_TRUE(mentions(text, {"every rank waits", "barrier, waiting", "weights", rank_words(0), rank_words(odd)}));
}

CASE_FOR(Ledger, AWorkerThatWaitsForAStartedOperationCountsAsWaiting, 2, true) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  const std::string text = told([&] {
    for (int step = 0; step < 10; ++step) {
      (void)table.add_async(kDelta);
      if (session.rank() == 0 && step == 3) session.barrier();
      Pending got = table.get_async(out);
      got.wait();
    }
  });
  EXPECT_TRUE(mentions(text, {"every rank waits", "barrier, waiting"}));
}

CASE_FOR(Ledger, AWaitingWorkerGetsAnErrorEvenIfTheWrongOneShutsDown, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  if (session.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    told([&] { table.get(out); });  // and shuts down
    return;
  }
  const std::string text = told([&] {
    table.add(kDelta);
    table.get(out);
  });
  EXPECT_TRUE(mentions(text, {"add(\"weights\")", "get(\"weights\")", rank_words(0)}));
}

CASE_FOR(Ledger, AnErrorInTheOrderDoesNotTouchAsynchronousTables, 2) {
  const ArrayTable sync = session.create_array(3, sync_table("sync"));
  const ArrayTable async = session.create_array(3, options_of<std::int32_t>());
  std::vector<float> out(3);
  told([&] {
    if (session.rank() == 0) sync.add(kDelta);
    for (;;) sync.get(out);
  });
  told([&] { sync.get(out); });  // every later call fails, too
  told([&] { session.barrier(); });
  async.add(std::vector<std::int32_t>{1, 1, 1});
  EXPECT_GE(all_of<std::int32_t>(async)[0], 1);
}

CASE_FOR(Ledger, ASlowWorkerIsNoError, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  for (int step = 1; step <= 2; ++step) {
    if (session.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    table.add(kDelta);
    EXPECT_EQ(all_of<float>(table)[0], static_cast<float>(step * session.size()));
  }
}

CASE_FOR(Ledger, ASlowThreadOfAnEngagedRankIsNoError, 2) {
  // Rank 0's main thread waits for its second thread, which acts in time. The other ranks wait for rank 0.
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  if (session.rank() == 0) {
    (void)table.add_async(kDelta);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    session.barrier();
  } else {
    table.add(kDelta);
    session.barrier();
  }
  EXPECT_EQ(all_of<float>(table)[0], static_cast<float>(session.size()));
}

CASE_FOR(Ledger, ASecondThreadOnSynchronousTablesIsRefused, 2) {
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  const ArrayTable other = session.create_array(3, sync_table("other"));
  std::vector<float> out(3);
  table.add(kDelta);
  std::vector<float> word(1);
  if (session.rank() == 0) {
    for (int r = 1; r < session.size(); ++r) session.receive(r, 1, word);
    table.add(kDelta);
  } else {
    // The first thread waits in get for rank 0's second add. Once it waits, the second thread calls.
    table.add(kDelta);
    std::thread first([&] { table.get(out); });
    EXPECT_TRUE(eventually([&] { return waits_in(session, "get(\"weights\")"); }));
    const std::string text = message_of<StateError>([&] { other.add(kDelta); });
    EXPECT_TRUE(mentions(text, {"other", "another thread"}));
    message_of<StateError>([&] { (void)other.add_async(kDelta); });
    session.send(0, 1, word);
    first.join();
  }
  if (session.rank() == 0) table.get(out);
  EXPECT_EQ(out[0], static_cast<float>(2 * session.size()));
  other.add(kDelta);  // the refused call left no trace
  EXPECT_EQ(all_of<float>(other)[0], static_cast<float>(session.size()));
}

CASE_FOR(Ledger, AThreadThatComputesBeforeItSendsIsNoDeadlock, 2, false, kPatient) {
  // Every rank has a waiting thread, but rank 0 has another thread, which is about to send. The engine knows that
  // thread because it has waited before.
  std::vector<float> one(1);
  if (session.rank() != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    session.send(0, 2, one);
    session.receive(0, 1, one);
    session.barrier();
    return;
  }
  std::string problem;
  std::thread computing([&] {
    try {
      std::vector<float> asked(1);
      for (int r = 1; r < session.size(); ++r) session.receive(r, 2, asked);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      for (int r = 1; r < session.size(); ++r) session.send(r, 1, std::vector<float>{1});
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  EXPECT_NO_THROW(session.barrier());
  computing.join();
  EXPECT_EQ(problem, "");
}

CASE_FOR(Ledger, AThreadThatSendsForTheFirstTimeIsNoDeadlock, 2, false, kPatient) {
  // Every rank waits, but rank 0 has a thread that has not called the engine yet.
  std::vector<float> one(1);
  if (session.rank() != 0) {
    EXPECT_NO_THROW(session.receive(0, 1, one));
    session.barrier();
    return;
  }
  std::string problem;
  std::thread sleeping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    try {
      for (int r = 1; r < session.size(); ++r) session.send(r, 1, std::vector<float>{1});
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  EXPECT_NO_THROW(session.barrier());
  sleeping.join();
  EXPECT_EQ(problem, "");
}

CASE_FOR(Ledger, AThreadThatComputesBeforeItsFirstCollectiveIsNoDeadlock, 2, false, kPatient) {
  // Rank 0 waits for the others' adds, and they wait for it at a barrier. A thread of rank 0 that has not called the
  // engine yet computes before it reaches the barrier.
  const ArrayTable table = session.create_array(3, sync_table("weights"));
  std::vector<float> out(3);
  std::string problem;
  std::thread computing;
  if (session.rank() == 0) {
    computing = std::thread([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
      while (std::chrono::steady_clock::now() < end) continue;
      try {
        session.barrier();
      } catch (const std::exception& error) {
        problem = error.what();
      }
    });
  } else {
    EXPECT_NO_THROW(session.barrier());
  }
  EXPECT_NO_THROW(table.add(kDelta));
  EXPECT_NO_THROW(table.get(out));
  if (computing.joinable()) computing.join();
  EXPECT_EQ(problem, "");
  EXPECT_EQ(out[0], static_cast<float>(session.size()));
}

}  // namespace pleiad
