// Options by name: invalid ones and their messages.
#include <gtest/gtest.h>

#include "core/option_list.h"
#include "pleiad/error.h"
#include "pleiad/session.h"

namespace pleiad {
namespace {

template <class F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(std::string_view list) {
  SessionOptions options;
  return refusal([&] {
    set_options(options, list);
    check(options);
  });
}

TEST(Options, AListSetsEachOnce) {
  SessionOptions options;
  set_options(options, " timeout = 5, warn_after=0.5,split_hosts=2");
  EXPECT_EQ(options.timeout, 5);
  EXPECT_EQ(options.warn_after, 0.5);
  EXPECT_EQ(options.split_hosts, 2);
  EXPECT_EQ(refusal_of("timeout=5, warn_after=1, timeout=6"), "options: \"timeout\" is given twice");
  EXPECT_EQ(refusal_of("timeout"), "options: expected name=value, received \"timeout\"");
}

TEST(Options, NumbersThatNoSessionCanHaveAreRefused) {
  EXPECT_EQ(refusal_of("timeout=0"), "option timeout: expected more than 0 seconds, received 0");
  EXPECT_EQ(refusal_of("timeout=nan"), "option timeout: expected more than 0 seconds, received nan");
  EXPECT_EQ(refusal_of("warn_after=-3"), "option warn_after: expected more than 0 seconds, received -3");
  EXPECT_EQ(refusal_of("split_hosts=-3"), "option split_hosts: expected 0 or a number of hosts, received -3");
  EXPECT_EQ(refusal_of("timeout=soon"), "option timeout: expected a number, received \"soon\"");
}

TEST(Options, AnUnknownNameListsTheKnown) {
  const std::string text = refusal_of("time_out=1");
  EXPECT_NE(text.find("\"time_out\""), text.npos) << text;
  EXPECT_NE(text.find("split_hosts"), text.npos) << text;
}

TEST(Options, AnUnknownVariableOfTheEnvironmentIsReportedWithTheNearestName) {
  ASSERT_EQ(setenv("PLEIAD_TIMEOT", "5", 1), 0);
  ASSERT_EQ(setenv("PLEIAD_TIMEOUT", "5", 1), 0);
  const std::vector<std::string> problems = unknown_variables();
  unsetenv("PLEIAD_TIMEOT");
  unsetenv("PLEIAD_TIMEOUT");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0],
            "environment variable PLEIAD_TIMEOT is unknown and has no effect; did you mean PLEIAD_TIMEOUT?");
}

TEST(Options, ASessionLogsUnknownVariablesOfTheEnvironment) {
  ASSERT_EQ(setenv("PLEIAD_TIMEOT", "5", 1), 0);
  testing::internal::CaptureStderr();
  SessionOptions options;
  options.log_level = "warn";
  Session::start(options).shutdown();
  const std::string printed = testing::internal::GetCapturedStderr();
  unsetenv("PLEIAD_TIMEOT");
  EXPECT_NE(printed.find("environment variable PLEIAD_TIMEOT is unknown"), printed.npos) << printed;
}

}  // namespace
}  // namespace pleiad
