// Ranks on several hosts that add to a table of integers until the file FOLDER/stop exists (test_hosts.py). Each counts
// acknowledged and failed adds, and at the end prints these and the values of the table as a line of JSON.
// The test creates FOLDER/broken when it breaks the network or a host. The rank reports the error of the first add that
// begins after that, not of an earlier one. While the network is down, files show the progress: FOLDER/failed-RANK
// after that error, and FOLDER/again-RANK once a later add was acknowledged. FOLDER/adds-RANK says that the first add
// was acknowledged, and FOLDER/goes-RANK that one was that began after the test created FOLDER/restored.
//   hosts FOLDER
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "pleiad/pleiad.hpp"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  Session session = Session::start();
  TableOptions options{.name = "counts"};
  options.dtype = DType::int64;
  constexpr std::int64_t kSize = 100'000;  // several chunks on every host
  const ArrayTable table = session.create_array(kSize, options);
  const std::vector<std::int64_t> ones(kSize, 1);
  std::vector<std::int64_t> out(kSize);
  session.barrier();
  print_line("{\"rank\": " + std::to_string(session.rank()) + ", \"ready\": true}");

  std::vector<std::int64_t> counts = {0, 0};  // acknowledged and failed adds
  std::string error;
  double error_after = 0;
  bool failed = false;
  bool again = false;
  const auto is_there = [&](const std::string& what) { return access((folder + "/" + what).c_str(), F_OK) == 0; };
  const auto tell = [&](const std::string& what) {
    const std::ofstream file(folder + "/" + what + "-" + std::to_string(session.rank()));
  };
  while (!is_there("stop") || counts[0] + counts[1] == 0) {
    const bool broken = is_there("broken");
    const bool restored = is_there("restored");
    const auto call = Clock::now();
    try {
      table.add(ones);
      if (++counts[0] == 1) tell("adds");
      if (restored) tell("goes");
      if (failed && !again) tell("again");
      again = failed;
    } catch (const TransportError& problem) {
      ++counts[1];
      if (error.empty() || (broken && !failed)) {
        error = problem.what();
        error_after = since(call);
      }
      if (broken && !failed) tell("failed");
      failed = failed || broken;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // A get must work again, too: the network has been back for long.
  bool got = false;
  for (int attempt = 0; attempt < 5 && !got; ++attempt) {
    try {
      table.get(out);
      got = true;
    } catch (const TransportError&) {
    }
  }
  const std::int64_t acknowledged = counts[0];
  std::string ending;
  try {
    session.all_reduce(counts);
    session.barrier();
    table.get(out);
    session.barrier();
  } catch (const Error& problem) {
    ending = problem.what();
  }
  const auto [least, most] = std::minmax_element(out.begin(), out.end());
  print_line("{\"rank\": " + std::to_string(session.rank()) + ", \"hosts\": " + std::to_string(session.hosts()) +
             ", \"acknowledged\": " + std::to_string(acknowledged) +
             ", \"all_acknowledged\": " + std::to_string(counts[0]) + ", \"all_failed\": " + std::to_string(counts[1]) +
             ", \"least\": " + std::to_string(*least) + ", \"most\": " + std::to_string(*most) +
             ", \"error\": " + json_string(error) + ", \"error_after\": " + std::to_string(error_after) +
             ", \"ending\": " + json_string(ending) + "}");
  if (!ending.empty()) return 3;
  session.shutdown();
}
