// Conformance cases: what every engine, table, clock and updater must do. A case is what one rank runs; all ranks of a
// world run it at once. The same cases run on threads (inproc, with 1 to 4 ranks) and, under mpirun, on processes.
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
  int at_least = 1;       ///< ranks it needs to mean anything
  bool one_host = false;  ///< what it asks for cannot be seen from another host
  double warn_after = 2;  ///< seconds; ranks that all wait, one for a message, are told so after as many
};

/// warn_after of cases in which a thread is late for its call, so long that no machine makes it as late.
inline constexpr double kPatient = 300;

std::vector<Case>& cases();

struct Register {
  Register(const char* suite, const char* name, std::function<void(Session&)> run, int at_least = 1,
           bool one_host = false, double warn_after = 2) {
    cases().push_back({suite, name, std::move(run), at_least, one_host, warn_after});
  }
};

/// The error of type E that `body` throws; fails the test and returns "" where it throws none.
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

/// Whether this rank is reported to wait in `call`.
inline bool waits_in(const Session& session, const std::string& call) {
  std::istringstream report(session.report());
  const std::string own = "rank " + std::to_string(session.rank()) + " ";
  for (std::string line; std::getline(report, line);) {
    if (line.starts_with(own)) return line.find(": " + call + ", waiting") != std::string::npos;
  }
  return false;
}

}  // namespace pleiad::conformance

/// CASE(Suite, Name) { ... session ... }; CASE_FOR adds the ranks it needs, whether they must share a host, and
/// warn_after.
#define CASE_FOR(SUITE, NAME, ...)                                                                                    \
  static void SUITE##_##NAME(::pleiad::Session& session);                                                             \
  static const ::pleiad::conformance::Register register_##SUITE##_##NAME(#SUITE, #NAME, SUITE##_##NAME, __VA_ARGS__); \
  static void SUITE##_##NAME([[maybe_unused]] ::pleiad::Session& session)
#define CASE(SUITE, NAME) CASE_FOR(SUITE, NAME, 1)
