// The Unix socket on which a process serves its segments: access by other users of the machine, and low limits.
#include "engine/segment_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad {
namespace {

constexpr int kRank = 5;
constexpr std::uint64_t kId = 77;

// Runs `serve` in a child process, which sends a byte when it is ready and then waits until it is ended.
template <class Serve>
class Child {
 public:
  explicit Child(Serve serve) {
    if (pipe(ready_) != 0 || pipe(end_) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(end_[1]);
      char byte = 'r';
      const auto wait_for_the_end = [&] {
        (void)!write(ready_[1], &byte, 1);
        (void)!read(end_[0], &byte, 1);
      };
      try {
        serve(wait_for_the_end);
      } catch (const std::exception& error) {
        (void)std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
      _exit(0);
    }
    char byte = 0;
    (void)!read(ready_[0], &byte, 1);
  }
  ~Child() {
    close(end_[1]);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (const int fd : {ready_[0], ready_[1], end_[0]}) close(fd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  int ready_[2] = {-1, -1};
  int end_[2] = {-1, -1};
  pid_t pid_ = -1;
};

std::string problem_of_fetch(const JobKey& key, std::uint64_t id) {
  try {
    close(SegmentServer::fetch(key, kRank, id));
  } catch (const TransportError& error) {
    return error.what();
  }
  return "";
}

TEST(SegmentServer, TheNameOfItsSocketDoesNotRevealTheKey) {
  const JobKey key = JobKey::random();
  const SegmentServer service(key, kRank);
  std::ifstream file("/proc/net/unix");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("@pleiad-"), std::string::npos);
  for (const std::uint64_t word : key.words) {
    EXPECT_EQ(text.str().find(fmt::format("{:016x}", word)), std::string::npos);
  }
}

TEST(SegmentServer, NamesTheReasonForAMissingSegment) {
  const JobKey key = JobKey::random();
  EXPECT_NE(problem_of_fetch(key, kId).find("Connection refused"), std::string::npos);
  SegmentServer service(key, kRank);
  EXPECT_NE(problem_of_fetch(key, kId).find("it has no such segment"), std::string::npos);
  service.publish(kId, 0);
  EXPECT_EQ(problem_of_fetch(key, kId), "");
}

TEST(SegmentServer, AnotherUserOnTheSameSocketDoesNotReceiveTheKey) {
  if (geteuid() != 0) GTEST_SKIP() << "another user's process takes root";
  const JobKey key = JobKey::random();
  const Child child([&](auto wait_for_the_end) {
    if (setuid(65534) != 0) throw std::runtime_error("setuid");
    const SegmentServer service(key, kRank);
    wait_for_the_end();
  });
  EXPECT_NE(problem_of_fetch(key, kId).find("the socket belongs to another user"), std::string::npos);
}

TEST(SegmentServer, AnswersAlsoWhenNoDescriptorIsLeft) {
  const JobKey key = JobKey::random();
  const Child child([&](auto wait_for_the_end) {
    SegmentServer service(key, kRank);
    service.publish(kId, 0);
    const int next = dup(0);  // the lowest free descriptor
    close(next);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = static_cast<rlim_t>(next)};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
    wait_for_the_end();
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(problem_of_fetch(key, kId), "");
}

}  // namespace
}  // namespace pleiad
