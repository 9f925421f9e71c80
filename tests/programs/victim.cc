// A rank of a job in which one rank dies (test_failures.py). Prints what it saw as one line of JSON.
//   victim [--steps N] [--idle RANK] [--late RANK] [--slow RANK] [--async] [--rows]
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/failure_program.h"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;

void end_now() { kill(getpid(), SIGKILL); }

void end_later() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    end_now();
  }).detach();
}

failures::Plan plan_of(int argc, char** argv) {
  failures::Plan plan;
  plan.end_now = end_now;
  plan.end_later = end_later;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::atoi(argv[++i]); };
    if (word == "--steps") plan.steps = number();
    if (word == "--idle") plan.idle_victim = number();
    if (word == "--late") plan.late_victim = number();
    if (word == "--slow") plan.slow_rank = number();
    if (word == "--async") plan.synchronous = false;
    if (word == "--rows") plan.rows = true;
  }
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  const failures::Plan plan = plan_of(argc, argv);
  const std::int64_t start = failures::now();
  failures::Observation seen;
  int rank = -1;
  try {
    Session session = Session::start();
    rank = session.rank();
    print_line("{\"rank\": " + std::to_string(rank) + ", \"pid\": " + std::to_string(getpid()) + "}");
    seen = observe(session, plan);
  } catch (const Error& error) {  // in start
    seen.error = error.kind();
    seen.text = error.what();
    seen.at = failures::now();
    seen.seconds = static_cast<double>(seen.at - start) * 1e-9;
  }
  print_line("{\"rank\": " + std::to_string(rank) +
             ", \"error\": " + (seen.error ? std::to_string(static_cast<int>(*seen.error)) : "null") +
             ", \"text\": " + json_string(seen.text) + ", \"seconds\": " + std::to_string(seen.seconds) +
             ", \"at\": " + std::to_string(seen.at) + ", \"table_problem\": " + json_string(seen.table_problem) +
             ", \"torn\": " + std::to_string(seen.torn) + ", \"shutdown\": " + json_string(seen.shutdown_text) + "}");
  return seen.error || !seen.shutdown_text.empty() ? 1 : 0;
}
