// The output of a run when the reader of stderr stops reading, as mpirun does while it ends a job.
#include "job/results.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace pleiad::job {
namespace {

namespace fs = std::filesystem;

/// Replaces stderr by a pipe that nobody reads until taken() is called.
class UnreadStderr {
 public:
  UnreadStderr() : before_(dup(STDERR_FILENO)) {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0 || dup2(ends_[1], STDERR_FILENO) < 0) ADD_FAILURE() << "no pipe";
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~UnreadStderr() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) close(fd);
  }
  UnreadStderr(const UnreadStderr&) = delete;
  UnreadStderr& operator=(const UnreadStderr&) = delete;

  std::string taken() {
    std::string text;
    std::array<char, 4096> some{};
    for (ssize_t got = 0; (got = read(ends_[0], some.data(), some.size())) > 0;) {
      text.append(some.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
};

TEST(JobResults, AReaderThatStopsDoesNotStopTheRun) {
  const fs::path folder = fs::temp_directory_path() / ("results_test." + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string line(1000, 'x');
  std::string first;
  std::string later;
  {
    UnreadStderr unread;
    Results results(folder, "lines", "job", 10);
    for (int i = 0; i < 200; ++i) results.line(line);  // a pipe holds 65,536 bytes
    first = unread.taken();
    results.line("the last");
    later = unread.taken();
  }
  std::ifstream file(folder / "job.log");
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  fs::remove_all(folder);

  const auto shown = static_cast<std::int64_t>(std::ranges::count(first, '\n'));
  EXPECT_GT(shown, 10);
  EXPECT_LT(shown, 200);
  EXPECT_EQ(later, "pleiad: " + std::to_string(200 - shown) + " lines are missing here because nobody read them; " +
                       folder.string() + "/job.log has them\nthe last\n");
  EXPECT_EQ(std::ranges::count(log, '\n'), 201);
}

}  // namespace
}  // namespace pleiad::job
