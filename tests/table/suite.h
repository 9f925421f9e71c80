// Conformance cases: the required behaviour of every engine, table, clock and updater. All ranks of a world run a case
// at the same time. The same cases run on threads (inproc, 1 to 4 ranks) and, under mpirun, on processes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "pleiad/pleiad.hpp"

namespace pleiad::conformance {

struct Case {
  std::string suite;
  std::string name;
  std::function<void(Session&)> run;
  int at_least = 1;       ///< the least number of ranks for which the case is meaningful
  bool one_host = false;  ///< the case needs all ranks on one host
  double warn_after = 2;  ///< seconds after which ranks that all wait are reported as deadlocked
};

/// A warn_after for cases in which a thread calls late. It is long enough for any machine.
inline constexpr double kPatient = 300;

std::vector<Case>& cases();

struct Register {
  Register(const char* suite, const char* name, std::function<void(Session&)> run, int at_least = 1,
           bool one_host = false, double warn_after = 2) {
    cases().push_back({suite, name, std::move(run), at_least, one_host, warn_after});
  }
};

/// Returns the message of the E that `body` throws. If it throws none, the test fails and the result is empty.
template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

/// Returns whether the report lists this rank as waiting in `call`.
inline bool waits_in(const Session& session, const std::string& call) {
  std::istringstream report(session.report());
  const std::string own = "rank " + std::to_string(session.rank()) + " ";
  for (std::string line; std::getline(report, line);) {
    if (line.starts_with(own)) return line.find(": " + call + ", waiting") != std::string::npos;
  }
  return false;
}

}  // namespace pleiad::conformance

/// CASE(Suite, Name) { ... session ... } defines a case. CASE_FOR also takes the least number of ranks, whether they
/// must share a host, and warn_after.
#define CASE_FOR(SUITE, NAME, ...)                                                                                    \
  static void SUITE##_##NAME(::pleiad::Session& session);                                                             \
  static const ::pleiad::conformance::Register register_##SUITE##_##NAME(#SUITE, #NAME, SUITE##_##NAME, __VA_ARGS__); \
  static void SUITE##_##NAME([[maybe_unused]] ::pleiad::Session& session)
#define CASE(SUITE, NAME) CASE_FOR(SUITE, NAME, 1)
