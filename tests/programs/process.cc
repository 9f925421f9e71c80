// The behaviour of processes in a world, one mode per case (test_processes.py). Every rank prints lines of JSON.
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "pleiad/pleiad.hpp"
#include "tests/eventually.h"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;

constexpr std::int64_t kLarge = 400'000;  // another thread carries out a get of more than 1 MB

void say(int rank, const std::string& key, const std::string& value) {
  print_line("{\"rank\": " + std::to_string(rank) + ", " + json_string(key) + ": " + json_string(value) + "}");
}

/// Returns "kind: message" of the error that `call` throws, or "" if it throws none.
std::string error_of(const std::function<void()>& call) {
  static const char* const kKinds[] = {"",        "invalid", "state",       "order",   "transport",
                                       "timeout", "memory",  "interrupted", "internal"};
  try {
    call();
    return "";
  } catch (const Error& error) {
    return std::string(kKinds[static_cast<int>(error.kind())]) + ": " + error.what();
  }
}

std::string mapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  return text.str().find(name) == std::string::npos ? "no" : "yes";
}

SessionOptions solo() {
  SessionOptions options;
  options.engine = "solo";
  return options;
}

// Starts a world of one inside this process, whatever this process is.
std::string nested() {
  return error_of([] {
    Session session = Session::start(solo());
    const ArrayTable table = session.create_array(3);
    table.add(std::vector<float>{1, 2, 3});
    std::vector<float> out(3);
    table.get(out);
    if (out[2] != 3 || session.size() != 1) throw InternalError("the nested world is wrong");
    session.shutdown();
  });
}

void world() {
  Session session = Session::start();
  const ArrayTable table = session.create_array(3);
  table.add(std::vector<float>{1, 2, 3});
  session.barrier();
  say(session.rank(), "engine", session.engine());
  say(session.rank(), "size", std::to_string(session.size()));
  say(session.rank(), "libmpi", mapped("libmpi"));
  say(session.rank(), "module", mapped("libpleiad_mpi"));
  session.shutdown();
}

void start() {
  const std::string problem = error_of([] {
    Session session = Session::start();
    session.shutdown();
  });
  say(-1, "start", problem);
}

struct ChildIsDone {};

// The child process tries every call, leaves all scopes, so that destructors run, and exits normally.
void in_child(Session& session, const ArrayTable& async, const ArrayTable& sync) {
  std::vector<float> out(kLarge);
  const int rank = session.rank();
  say(rank, "child get", error_of([&] { async.get(out); }));
  say(rank, "child add", error_of([&] { async.add(out); }));
  say(rank, "child get_async", error_of([&] { (void)async.get_async(out); }));
  say(rank, "child sync add", error_of([&] { (void)sync.add_async(out); }));
  say(rank, "child barrier", error_of([&] { session.barrier(); }));
  say(rank, "child all_reduce", error_of([&] { session.all_reduce(out); }));
  say(rank, "child create", error_of([&] { (void)session.create_array(3); }));
  say(rank, "child shutdown", error_of([&] { session.shutdown(); }));
  say(rank, "child start", error_of([] {
        Session inner = Session::start();
        inner.shutdown();
      }));
  say(rank, "child nested", nested());
  throw ChildIsDone{};
}

std::string end_of(pid_t child) {
  int status = 0;
  if (eventually([&] { return waitpid(child, &status, WNOHANG) == child; })) {
    return WIFEXITED(status) ? "code " + std::to_string(WEXITSTATUS(status))
                             : "signal " + std::to_string(WTERMSIG(status));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return "did not end";
}

void fork_a_child() {
  Session session = Session::start();
  const ArrayTable async = session.create_array(kLarge);
  const ArrayTable sync = session.create_array(kLarge, {.clock = "sync"});
  const std::vector<float> ones(kLarge, 1);
  std::vector<float> out(kLarge);
  std::vector<float> out_of_child(kLarge);
  async.add(ones);
  async.get_async(out).wait();  // now the process has a second thread
  if (session.rank() == session.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  sync.add(ones);
  sync.get_async(out).wait();
  session.barrier();
  const Pending kept = async.get_async(out_of_child);
  const pid_t child = fork();
  if (child == 0) in_child(session, async, sync);
  say(session.rank(), "child", end_of(child));
  sync.add(ones);
  sync.get(out);
  say(session.rank(), "sync", std::to_string(static_cast<int>(out[kLarge - 1]) / session.size()));
  async.add(ones);
  session.barrier();
  async.get(out);
  say(session.rank(), "async", std::to_string(static_cast<int>(out[0]) / session.size()));
  say(session.rank(), "shutdown", error_of([&] { session.shutdown(); }));
}

void spawn(const std::string& self) {
  Session session = Session::start();
  for (const char* mode : {"start", "nested"}) {
    const pid_t child = fork();
    if (child == 0) {
      execl(self.c_str(), self.c_str(), mode, nullptr);
      _exit(99);
    }
    say(session.rank(), std::string("spawned ") + mode, end_of(child));
  }
  session.barrier();
  session.shutdown();
}

void again() {
  Session kept = Session::start();
  const int rank = kept.rank();
  say(rank, "second start", error_of([] { (void)Session::start(); }));
  say(rank, "nested", nested());  // a world of one is independent of the session
  const ArrayTable table = kept.create_array(3, {.name = "old"});
  kept.shutdown();
  int worked = 0;
  for (int i = 0; i < 20; ++i) {
    Session session = Session::start();
    const ArrayTable next = session.create_array(3, {.dtype = DType::int32});
    next.add(std::vector<std::int32_t>{1, 1, 1});
    session.barrier();
    std::vector<std::int32_t> out(3);
    next.get(out);
    worked += out[0] == session.size() ? 1 : 0;
    session.shutdown();
  }
  say(rank, "worked", std::to_string(worked));
  std::vector<float> out(3);
  say(rank, "old table", error_of([&] { table.get(out); }));
}

// Polls seldom, because the test measures the processor time of a waiting job.
void await_file(const std::string& path) {
  (void)eventually([&] { return access(path.c_str(), F_OK) == 0; }, std::chrono::milliseconds(100));
}

// The last rank waits for a file. The others wait for that rank in a barrier or a get.
void late(const std::string& file, bool clocked) {
  Session session = Session::start();
  const ArrayTable table = session.create_array(3, {.name = "weights", .clock = "sync"});
  const std::vector<float> delta = {1, 2, 3};
  std::vector<float> out(3);
  say(session.rank(), "pid", std::to_string(getpid()));
  if (session.rank() == session.size() - 1) await_file(file);
  const std::string problem = error_of([&] {
    if (clocked) {
      table.add(delta);
      table.get(out);
    } else {
      session.barrier();
    }
  });
  say(session.rank(), "waited", problem);
  session.shutdown();
}

std::int64_t resident_bytes() {
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void flood(const std::string& clock) {
  Session session = Session::start();
  TableOptions options;
  options.clock = clock;
  const ArrayTable table = session.create_array(10, options);
  const MatrixTable rows = session.create_matrix(10, 10, options);
  const std::vector<float> delta(10, 1);
  const std::vector<RowId> ids = {3};
  const auto add = [&](int calls) {
    for (int i = 0; i < calls; i += 2) {
      (void)table.add_async(delta);
      (void)rows.add_rows_async(ids, delta);
    }
  };
  add(20'000);
  session.barrier();
  const std::int64_t before = resident_bytes();
  add(1'000'000);
  const std::int64_t after = resident_bytes();
  session.barrier();
  std::vector<float> out(10);
  table.get(out);
  say(session.rank(), "grown", std::to_string(after - before));
  say(session.rank(), "adds", std::to_string(static_cast<std::int64_t>(out[9]) / session.size()));
  session.shutdown();
}

// PLEIAD_ROLE makes rank 0 a server, rank 1 neither, and the others workers.
void roles() {
  Session session = Session::start();
  const ArrayTable sync = session.create_array(10, {.dtype = DType::int32, .clock = "sync"});
  const std::vector<std::int32_t> ones(10, 1);
  std::vector<std::int32_t> out(10);
  const int rank = session.rank();
  say(rank, "ids", std::to_string(session.worker_id()) + " " + std::to_string(session.server_id()));
  if (session.worker_id() < 0) {
    say(rank, "sync", error_of([&] { sync.get(out); }));
  } else {
    for (int step = 0; step < 10; ++step) {
      sync.add(ones);
      sync.get(out);
    }
    say(rank, "sync", std::to_string(out[9]));
  }
  session.shutdown();
}

// An exception ends rank 1's session, and its process lives on for a while.
void throws() {
  const int rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  try {
    Session session = Session::start();
    session.barrier();
    if (rank == 1) throw std::runtime_error("a mistake in the user's code");
    say(rank, "barrier", error_of([&] { session.barrier(); }));
    say(rank, "shutdown", error_of([&] { session.shutdown(); }));
  } catch (const std::runtime_error&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    say(rank, "lives", "yes");
  }
}

// The last rank calls start once there is a file.
void late_start(const std::string& file) {
  const bool last =
      std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")) + 1 == std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  if (last) await_file(file);
  world();
}

// The last rank dies before it calls start: at once, or when there is a file.
void dies_before_start(const std::string& file) {
  const bool last =
      std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")) + 1 == std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  say(-1, "came", "yes");
  if (last) {
    if (!file.empty()) await_file(file);
    raise(SIGKILL);
  }
  start();
}

// Runs steps of a synchronous table until one fails or `file` exists. A rank whose step fails then waits for the file.
void steps(const std::string& file) {
  Session session = Session::start();
  const ArrayTable table = session.create_array(3, {.name = "weights", .clock = "sync"});
  const std::vector<float> delta = {1, 2, 3};
  std::vector<float> out(3);
  say(session.rank(), "pid", std::to_string(getpid()));
  say(session.rank(), "hosts", std::to_string(session.hosts()));
  const std::string problem = error_of([&] {
    for (std::vector<std::int64_t> stop = {0}; stop[0] == 0;) {
      table.add(delta);
      table.get(out);
      stop[0] = session.rank() == 0 && access(file.c_str(), F_OK) == 0 ? 1 : 0;
      session.all_reduce(stop);
    }
  });
  say(session.rank(), "step", problem);
  if (problem.empty()) session.shutdown();
  await_file(file);
}

std::atomic<bool> own_handler_ran{false};

// The program's own signal handler stays installed.
void own_signal() {
  struct sigaction action{};
  action.sa_handler = [](int) { own_handler_ran = true; };
  sigaction(SIGUSR1, &action, nullptr);
  Session session = Session::start();
  raise(SIGUSR1);
  say(session.rank(), "own handler", own_handler_ran ? "ran" : "did not run");
  session.shutdown();
}

// A handler that the program installs later stays installed, too.
void later_signal() {
  Session session = Session::start();
  struct sigaction action{};
  action.sa_handler = [](int) { own_handler_ran = true; };
  sigaction(SIGUSR1, &action, nullptr);
  const int rank = session.rank();
  session.shutdown();
  raise(SIGUSR1);
  say(rank, "own handler", own_handler_ran ? "ran" : "did not run");
}

// Frequent signals, as under a profiler.
void interrupted() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  Session session = Session::start();
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 1000}, .it_value = {.tv_sec = 0, .tv_usec = 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  say(session.rank(), "created", error_of([&] {
        for (int i = 0; i < 5; ++i) (void)session.create_array(20'000'000);
      }));
  setitimer(ITIMER_REAL, nullptr, nullptr);
  session.shutdown();
}

// The process of rank 1 ends while one of its threads is working. Rank 0 continues.
void ends_at_work() {
  Session session = Session::start();
  const ArrayTable table = session.create_array(4'000'000);
  const std::vector<float> ones(4'000'000, 1);
  const int rank = session.rank();
  session.barrier();
  if (rank == 1) {
    std::thread([&] {
      for (;;) table.add(ones);
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  say(rank, "add", error_of([&] { table.add(ones); }));
}

// Rank 0 and the others wait for each other until a thread that has never called the engine reaches the barrier.
void sleeping_thread() {
  Session session = Session::start();
  const ArrayTable table = session.create_array(3, {.clock = "sync"});
  std::vector<float> out = {1, 1, 1};
  const int rank = session.rank();
  std::thread sleeper;
  if (rank == 0) {
    sleeper = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      say(rank, "sleeper", error_of([&] { session.barrier(); }));
    });
  } else {
    session.barrier();
  }
  say(rank, "sync", error_of([&] {
        table.add(out);
        table.get(out);
      }));
  if (sleeper.joinable()) sleeper.join();
  session.shutdown();
}

void stats() {
  Session session = Session::start();
  const ArrayTable table = session.create_array(1000, {.name = "weights"});
  std::vector<float> values(1000, 1);
  for (int i = 0; i < 3; ++i) table.add(values);
  table.get(values);
  session.all_reduce(values);
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  const std::map<std::string, std::function<void()>> modes = {
      {"world", world},
      {"start", start},
      {"nested", [] { say(-1, "nested", nested()); }},
      {"fork", fork_a_child},
      {"spawn", [&] { spawn(argv[0]); }},
      {"again", again},
      {"late", [&] { late(argument, false); }},
      {"late-sync", [&] { late(argument, true); }},
      {"flood", [&] { flood(argument); }},
      {"roles", roles},
      {"throws", throws},
      {"late-start", [&] { late_start(argument); }},
      {"dies-before-start", [&] { dies_before_start(argument); }},
      {"steps", [&] { steps(argument); }},
      {"own-signal", own_signal},
      {"later-signal", later_signal},
      {"interrupted", interrupted},
      {"ends-at-work", ends_at_work},
      {"sleeping-thread", sleeping_thread},
      {"stats", stats},
  };
  try {
    modes.at(mode)();
  } catch (const ChildIsDone&) {
    return 0;
  } catch (const std::exception& error) {
    say(-1, "uncaught", error.what());
    return 1;
  }
  return 0;
}
