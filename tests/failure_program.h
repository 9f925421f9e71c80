// The program of each rank while one rank dies, and what the rank observes. The same program runs on threads
// (failures_test.cc) and on processes (programs/victim.cc under mpirun).
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pleiad/pleiad.hpp"

namespace pleiad::failures {

struct Plan {
  int steps = 4;
  int idle_victim = -1;  ///< this rank ends between two calls, in the middle of the program
  int late_victim = -1;  ///< this rank ends in its shutdown, after all its other calls
  int slow_rank = -1;    ///< this rank is late at every barrier
  int torn_at_most = 1;  ///< maximum number of torn stripes; a victim has one thread
  bool synchronous = true;
  bool rows = false;                        ///< also uses a sparse table, to which every step adds rows
  std::function<void()> end_now;            ///< ends this rank as SIGKILL would
  std::function<void(Session&)> end_later;  ///< ends this rank as SIGKILL would, after it has announced its shutdown
  std::function<void(Session&)> await_end;  ///< called by the other ranks: waits until the victim has ended
};

struct Observation {
  std::optional<ErrorKind> error;  ///< the first error
  std::string text;
  double seconds = 0;         ///< duration of the call that failed
  std::int64_t at = 0;        ///< time of the error by the steady clock, in nanoseconds
  std::string table_problem;  ///< the problem of the asynchronous table afterwards; empty if there is none
  std::uint64_t torn = 0;
  std::string shutdown_text;  ///< the error of the shutdown
};

inline constexpr std::int64_t kSize = 40'000;
inline constexpr std::int64_t kStripe = 16'384;

inline std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Every add adds one to every element, so all elements of a stripe hold the number of whole adds. If a writer died
/// during an add, one stripe may hold two different values.
inline std::string check_stripes(const ArrayTable& table, std::int64_t least, int torn_at_most) {
  std::vector<std::int64_t> values(kSize);
  table.get(values);
  int torn = 0;
  for (std::int64_t first = 0; first < kSize; first += kStripe) {
    bool whole = true;
    for (std::int64_t i = first; i < std::min(kSize, first + kStripe); ++i) {
      const std::int64_t value = values[static_cast<std::size_t>(i)];
      whole &= value == values[static_cast<std::size_t>(first)];
      if (value < least) return "element " + std::to_string(i) + " is " + std::to_string(value) + ": adds were lost";
    }
    torn += whole ? 0 : 1;
  }
  return torn <= torn_at_most ? "" : std::to_string(torn) + " stripes hold parts of adds";
}

/// The rows that a rank adds to, more in every step: rows common to all ranks, and as many rows of its own.
inline std::vector<RowId> rows_until(int step, int rank) {
  std::vector<RowId> ids;
  for (int i = 0; i < 100 * (step + 1); ++i) {
    ids.push_back(i * RowId{1'000'003});
    ids.push_back(-1 - i - 1'000'000 * RowId{rank});
  }
  return ids;
}

/// Every add added one to each value of the rows of its step. This one adds one to each value of all rows.
inline std::string check_rows(const SparseTable& table, int steps, int rank) {
  const std::vector<RowId> ids = rows_until(steps, rank);
  const std::vector<std::int64_t> ones(4 * ids.size(), 1);
  std::vector<std::int64_t> out(ones.size());
  table.add(ids, ones);
  table.get(ids, out);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t own = 1 + std::max<std::int64_t>(0, steps - static_cast<std::int64_t>(i) / 200);
    for (std::size_t c = 0; c < 4; ++c) {
      if (out[4 * i + c] < own) return "row " + std::to_string(ids[i]) + " has lost adds";
    }
  }
  std::vector<RowId> found = table.get_all().ids;
  std::ranges::sort(found);
  if (std::ranges::adjacent_find(found) != found.end()) return "a row is there twice";
  return found.size() >= ids.size() ? "" : "rows are missing";
}

inline Observation observe(Session& session, const Plan& plan) {
  Observation seen;
  std::optional<ArrayTable> async;
  std::int64_t added = 0;
  const std::vector<std::int64_t> ones(kSize, 1);
  std::int64_t start = now();
  // Runs one call. Returns false if it ended with an error.
  const auto attempt = [&](const std::function<void()>& call) {
    start = now();
    try {
      call();
      return true;
    } catch (const Error& error) {
      seen.error = error.kind();
      seen.text = error.what();
      seen.at = now();
      seen.seconds = static_cast<double>(seen.at - start) * 1e-9;
      return false;
    }
  };
  std::optional<ArrayTable> sync;
  bool ok =
      attempt([&] { async = session.create_array(kSize, {.name = "async", .dtype = DType::int64}); }) &&
      attempt([&] { sync = session.create_array(kSize, {.name = "sync", .dtype = DType::int64, .clock = "sync"}); });
  std::optional<SparseTable> rows;
  if (plan.rows) {
    ok = ok && attempt([&] { rows = session.create_sparse(4, {.name = "rows", .dtype = DType::int64}); });
  }
  int row_steps = 0;
  std::vector<std::int64_t> out(kSize);
  std::vector<double> sums(100'000, 1);
  for (int step = 0; ok && step < plan.steps; ++step) {
    if (step == plan.steps / 2 && session.rank() == plan.idle_victim) plan.end_now();
    if (session.rank() == plan.slow_rank) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ok = attempt([&] { async->add(ones); });
    added += ok ? 1 : 0;
    ok = ok && attempt([&] { async->get(out); });
    if (ok && rows) {
      const std::vector<RowId> ids = rows_until(step, session.rank());
      ok = attempt([&] { rows->add(ids, std::vector<std::int64_t>(4 * ids.size(), 1)); });
      row_steps += ok ? 1 : 0;
    }
    if (plan.synchronous) ok = ok && attempt([&] { sync->add(ones); }) && attempt([&] { sync->get(out); });
    ok = ok && attempt([&] { session.barrier(); }) && attempt([&] { session.all_reduce(sums); });
  }
  if (ok && plan.late_victim >= 0) {
    (session.rank() == plan.late_victim ? plan.end_later : plan.await_end)(session);
  }
  // Whatever happened, the asynchronous table still works for the survivors, and no lock is held.
  if (async) {
    for (int i = 0; i < 20 && seen.table_problem.empty(); ++i) {
      try {
        async->add(ones);
        ++added;
        seen.table_problem = check_stripes(*async, added, plan.torn_at_most);
      } catch (const Error& error) {
        seen.table_problem = error.what();
      }
    }
    seen.torn = async->stats().torn_stripes;
  }
  if (rows && seen.table_problem.empty()) {
    try {
      seen.table_problem = check_rows(*rows, row_steps, session.rank());
      seen.torn += rows->stats().torn_stripes;
    } catch (const Error& error) {
      seen.table_problem = error.what();
    }
  }
  try {
    session.shutdown();
  } catch (const Error& error) {
    seen.shutdown_text = error.what();
  }
  return seen;
}

}  // namespace pleiad::failures
