#include "rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/process.h"
#include "report.h"

namespace pleiad::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
constexpr double kKillAfter = 2;  // seconds between SIGTERM and SIGKILL after mpirun is gone

int rank_from_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

void say(const std::string& line) {  // in one write, so that lines of several ranks do not mix
  const std::string text = "pleiad: " + line + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

class Wrapper {
 public:
  explicit Wrapper(const RankOptions& options) : options_(options), rank_(rank_from_environment()), parent_(getppid()) {
    // Blocked before anything else, so that no signal ends the wrapper instead of the command.
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : kForwarded) sigaddset(&blocked, signal);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, kStopSignal);
    sigaddset(&blocked, SIGPIPE);  // mpirun may be gone when the wrapper writes
    sigprocmask(SIG_BLOCK, &blocked, &inherited_mask_);
    sigdelset(&blocked, SIGPIPE);
    signals_ = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    parent_watch_ = static_cast<int>(syscall(SYS_pidfd_open, parent_, 0));
    launcher_ = connect_to_launcher();
    unsetenv(kLauncherVariable);  // meant for this process only
  }

  int run(const std::vector<std::string>& command) {
    if (const int error = start(command); error != 0) {
      say(fmt::format("rank {} on host {} cannot start {}: {}", rank_, host_name(), command[0], std::strerror(error)));
      const int status = (error == ENOENT ? 127 : 126) << 8;
      send_report(launcher_, {.kind = Report::ended, .rank = rank_, .status = status});
      wait_for_release();
      return exit_code(status);
    }
    send_report(launcher_, {.kind = Report::started, .rank = rank_, .pid = child_});
    while (!status_) wait_for_events();
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    const bool failed = *status_ != 0 && !requested_;
    if (failed) {
      say(fmt::format("rank {} (pid {} on host {}) {} after {:.1f} s", rank_, child_, host_name(), describe(*status_),
                      seconds));
    }
    send_report(launcher_, {.kind = Report::ended,
                            .rank = rank_,
                            .pid = child_,
                            .status = *status_,
                            .requested = requested_,
                            .seconds = seconds});
    if (failed) {
      if (leads_group()) kill(0, SIGTERM);  // ends the processes that the command has started and left behind
      wait_for_release();
    }
    return exit_code(*status_);
  }

 private:
  static bool leads_group() { return getpgrp() == getpid(); }

  /// Returns 0, or the error that prevented the command from starting.
  int start(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    int news[2];
    if (pipe2(news, O_CLOEXEC) != 0) return errno;
    started_ = Clock::now();
    const pid_t self = getpid();
    child_ = fork();
    if (child_ < 0) return errno;
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == self) {
        sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
        // A shell script that starts a command with "&" makes it ignore SIGINT. The launcher obeys SIGINT all the same,
        // and so do its ranks.
        signal(SIGINT, SIG_DFL);
        execvp(words[0], words.data());
      }
      const int error = errno;
      [[maybe_unused]] const ssize_t written = write(news[1], &error, sizeof error);
      _exit(127);
    }
    close(news[1]);
    int error = 0;
    const bool failed = read(news[0], &error, sizeof error) == static_cast<ssize_t>(sizeof error);
    close(news[0]);
    if (failed) waitpid(child_, nullptr, 0);
    return failed ? error : 0;
  }

  void wait_for_events() {
    pollfd watched[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                        {.fd = parent_watch_, .events = POLLIN, .revents = 0}};
    const int timeout = kill_at_ ? milliseconds_until(*kill_at_) : -1;
    if (poll(watched, 2, timeout) < 0) return;
    if (kill_at_ && Clock::now() >= *kill_at_) kill_child();
    if (watched[1].revents != 0) {
      parent_watch_ = -1;
      end_without_parent();
    }
    for (signalfd_siginfo info{}; read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);) {
      take(info);
    }
  }

  void take(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      int status = 0;
      if (waitpid(child_, &status, WNOHANG) == child_) status_ = status;
      return;
    }
    const auto sender = static_cast<pid_t>(info.ssi_pid);
    if (sender == getpid()) return;  // this process sent it to the whole group
    const bool from_mpirun = sender == parent_;
    if (signal == kStopSignal) {
      if (!from_mpirun) return;
      requested_ = true;
      kill(leads_group() ? 0 : child_, SIGINT);
      return;
    }
    if (from_mpirun && signal != SIGUSR1 && signal != SIGUSR2) requested_ = true;
    // mpirun and the launcher signal the whole process group of the wrapper, so the command has received it already.
    if (!from_mpirun || !leads_group()) kill(child_, signal);
  }

  void end_without_parent() {
    requested_ = true;
    kill(leads_group() ? 0 : child_, SIGTERM);
    kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kKillAfter));
  }

  void kill_child() {
    kill_at_.reset();
    if (leads_group()) kill(0, SIGKILL);  // including this process
    kill(child_, SIGKILL);
  }

  /// Waits until the launcher closes the connection, a signal announces the end of the job, or the grace period is
  /// over.
  void wait_for_release() {
    using std::chrono::duration;
    const double longest = launcher_ >= 0 ? 1e6 : std::min(options_.grace, 1e6);  // the launcher measures the time
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(duration<double>(longest));
    while (Clock::now() < end) {
      pollfd watched[] = {{.fd = launcher_, .events = POLLIN, .revents = 0},
                          {.fd = parent_watch_, .events = POLLIN, .revents = 0},
                          {.fd = signals_, .events = POLLIN, .revents = 0}};
      if (poll(watched, 3, milliseconds_until(end)) < 0) continue;
      if (watched[0].revents != 0 || watched[1].revents != 0) return;
      for (signalfd_siginfo info{}; read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);) {
        const auto sender = static_cast<pid_t>(info.ssi_pid);
        const bool ends = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP ||
                          info.ssi_signo == kStopSignal;
        if (ends && sender != getpid()) return;
      }
    }
  }

  static int milliseconds_until(Clock::time_point when) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 1000000));
  }

  RankOptions options_;
  int rank_;
  pid_t parent_;
  sigset_t inherited_mask_{};
  int signals_ = -1;
  int parent_watch_ = -1;
  int launcher_ = -1;
  pid_t child_ = 0;
  Clock::time_point started_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<int> status_;
  bool requested_ = false;
};

}  // namespace

int run_rank(const RankOptions& options, const std::vector<std::string>& command) {
  return Wrapper(options).run(command);
}

}  // namespace pleiad::cli
