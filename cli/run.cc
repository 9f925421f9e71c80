// The command `pleiad run`: runs a training job to its end, on this process or on the ranks that a launcher started.
#include <fmt/format.h>

#include <algorithm>

#include "command_line.h"
#include "job/terminal.h"
#include "pleiad/job.h"
#include "pleiad/session.h"
#include "tools.h"

using namespace pleiad;
using cli::Words;

namespace {

constexpr int kStopped = 130;

/// Adds a dash to SINGA's own options, which have only one: -resume. Those without a meaning here are accepted and
/// ignored.
Words with_two_dashes(Words words) {
  static const Words known = {"-conf", "-resume", "-test", "-singa_conf", "-singa_job"};
  for (std::string& word : words) {
    if (std::ranges::find(known, word) != known.end()) word.insert(0, "-");
  }
  return words;
}

}  // namespace

int pleiad::cli::run_run(const Words& words) {
  std::string file;
  std::string ignored;
  JobOptions options;
  options.display = on_terminal() ? "live" : "lines";
  CLI::App app("Run a training job. Alone, or under mpirun or `pleiad launch -n 4`, whose ranks are then its workers.",
               "pleiad run");
  app.add_option("JOB,--conf", file, "The job.conf")->required();
  app.add_flag("--resume", options.resume, "Go on from the last checkpoint of the workspace");
  app.add_flag("--test", options.test, "Do not train: test the parameters of checkpoint_path");
  app.add_option("--display", options.display, "lines, live or off")->capture_default_str();
  app.add_option("--singa_conf", ignored, "Taken for SINGA's sake, and passed over");
  app.add_option("--singa_job", ignored, "Taken for SINGA's sake, and passed over");
  bool done = false;
  if (const int code = cli::parse(app, with_two_dashes(words), done); done) return code;
  const Job job = Job::from_file(file);
  Session session = Session::start(session_of_job(job));
  const JobResult result = run_job(job, options, session.size() > 1 ? &session : nullptr);
  session.shutdown();
  return result.ended ? 0 : kStopped;
}
