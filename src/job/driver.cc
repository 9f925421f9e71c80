#include "pleiad/driver.h"

#include <fmt/format.h>

#include "job/terminal.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

JobResult run(const Job& job, bool resume, bool test) {
  JobOptions options;
  options.resume = resume;
  options.test = test;
  options.display = on_terminal() ? "live" : "lines";
  Session session = Session::start(session_of_job(job));
  JobResult result = run_job(job, options, session.size() > 1 ? &session : nullptr);
  session.shutdown();
  return result;
}

}  // namespace

void Driver::Init(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-resume") {
      resume_ = true;
    } else if (word == "-test") {
      test_ = true;
    } else if (word == "-conf" || word == "-singa_conf" || word == "-singa_job") {
      if (i + 1 == words.size()) throw InvalidArgument(fmt::format("{}: expected a value after it", word));
      ++i;
      if (word == "-conf") job_ = Job::from_file(words[i]);
    } else {
      rest_.push_back(word);
    }
  }
}

const Job& Driver::job_conf() const {
  if (!job_) throw InvalidArgument("Driver: expected -conf FILE on the command line; received none");
  return *job_;
}

JobResult Driver::Train(bool resume, const Job& job) { return run(job, resume, false); }
JobResult Driver::Test(const Job& job) { return run(job, false, true); }

}  // namespace pleiad
