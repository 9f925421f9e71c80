// Without a launcher, every case runs in worlds of 1 to 4 threads, and in worlds of 2 and 4 threads on two hosts that
// exchange messages. Each case also runs in worlds in which the last rank has all roles. Under mpirun, every case runs
// in that world in a session of its own, so the program starts and shuts down many times.
#include <cstdlib>

#include "engine/inproc.h"
#include "session/core.h"
#include "tests/table/suite.h"

namespace pleiad::conformance {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {

class Body : public testing::Test {
 public:
  explicit Body(std::function<void()> run) : run_(std::move(run)) {}
  void TestBody() override {
    try {
      run_();
    } catch (const std::exception& error) {
      FAIL() << "uncaught: " << error.what();
    }
  }

 private:
  std::function<void()> run_;
};

void add(const std::string& world, const Case& c, std::function<void()> run) {
  testing::RegisterTest((world + "_" + c.suite).c_str(), c.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [run = std::move(run)]() -> testing::Test* { return new Body(run); });
}

SessionOptions options_of(const Case& c) {
  SessionOptions options;
  options.timeout = 600;
  options.warn_after = c.warn_after;
  options.log_level = "error";
  return options;
}

// Runs a case in a world in which the last rank is the home of the clocks and commits snapshots, and the last rank of
// each host makes its segments.
void run_with_moved_roles(const Case& c, int ranks, int hosts) {
  SessionOptions options = options_of(c);
  options.split_hosts = hosts;
  const WorldRoles roles{.clock_home = ranks - 1, .snapshot_committer = ranks - 1, .segment_maker = ranks - 1};
  run_inproc(
      ranks, options, nullptr,
      [&](std::shared_ptr<InprocEngine> engine) {
        Session session(std::make_shared<SessionCore>(std::move(engine)));
        c.run(session);
        session.shutdown();
      },
      roles);
}

}  // namespace
}  // namespace pleiad::conformance

int main(int argc, char** argv) {
  using namespace pleiad::conformance;
  testing::InitGoogleTest(&argc, argv);
  const char* launched = std::getenv("OMPI_COMM_WORLD_SIZE");
  for (const Case& c : cases()) {
    if (launched != nullptr) {
      const int ranks = std::atoi(launched);
      if (ranks < c.at_least) continue;
      add("Mpi" + std::to_string(ranks), c, [&c] {
        auto session = pleiad::Session::start(options_of(c));
        if (c.one_host && session.hosts() > 1) {
          session.shutdown();
          GTEST_SKIP() << "needs its ranks on one host";
        }
        c.run(session);
        session.shutdown();
      });
      continue;
    }
    const auto add_world = [&](const std::string& name, int ranks, int hosts) {
      add(name, c, [&c, ranks, hosts] {
        pleiad::SessionOptions options = options_of(c);
        options.split_hosts = hosts;
        pleiad::run_cluster(
            ranks,
            [&](pleiad::Session& session) {
              c.run(session);
              session.shutdown();
            },
            options);
      });
    };
    for (int ranks = c.at_least; ranks <= 4; ++ranks) add_world("Inproc" + std::to_string(ranks), ranks, 1);
    add("Moved4", c, [&c] { run_with_moved_roles(c, 4, 1); });
    if (c.one_host) continue;
    add("Moved4on2", c, [&c] { run_with_moved_roles(c, 4, 2); });
    for (const int ranks : {2, 4}) add_world("Inproc" + std::to_string(ranks) + "on2", ranks, 2);
  }
  return RUN_ALL_TESTS();
}
