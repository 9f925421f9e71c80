// A rank of a job in which one rank dies (test_failures.py). Prints its observation as one line of JSON.
//   victim [--steps N] [--idle RANK] [--late RANK] [--slow RANK] [--async] [--rows]
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/eventually.h"
#include "tests/failure_program.h"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;

void end_now() { kill(getpid(), SIGKILL); }

/// Returns the text after "rank N " in that rank's line of the report.
std::string line_of(const Session& session, int rank) {
  std::istringstream report(session.report());
  const std::string own = "rank " + std::to_string(rank) + " ";
  for (std::string line; std::getline(report, line);) {
    if (line.starts_with(own)) return line.substr(own.size());
  }
  return "";
}

void end_later(Session& session) {
  std::thread([&session, rank = session.rank()] {
    if (eventually([&] { return line_of(session, rank).find("has shut down") != std::string::npos; })) end_now();
  }).detach();
}

/// Waits until the process of a rank has ended.
void await_end(const Session& session, int rank) {
  const std::string line = line_of(session, rank);
  const std::string pid = line.substr(line.find("pid ") + 4);
  const std::string path = "/proc/" + std::to_string(std::stoi(pid)) + "/stat";
  (void)eventually([&] {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    const std::size_t name_ends = text.rfind(')');
    return name_ends == std::string::npos || text[name_ends + 2] == 'Z';
  });
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
    if (word == "--late") {
      plan.late_victim = number();
      plan.await_end = [rank = plan.late_victim](Session& session) { await_end(session, rank); };
    }
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
  } catch (const Error& error) {  // dies in start
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
