#include "launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "core/process.h"
#include "local_ranks.h"
#include "rank.h"
#include "report.h"

namespace pleiad::cli {

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr int kWatched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGPIPE};
constexpr double kPatience = 5;  // seconds between SIGTERM and SIGKILL for mpirun, or for ranks on this host
constexpr Time kNever = Time::max();

Time after(double seconds) {
  if (seconds > 1e8) return kNever;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void say(const std::string& line) {
  const std::string text = "pleiad: " + line + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

std::string list_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// One rank of this host, identified by its wrapper's connection.
struct Rank {
  enum State { unknown, running, ended, failed, lost };
  State state = unknown;
  Report last;
};

class Job {
 public:
  explicit Job(const LaunchOptions& options) : options_(options), began_(Clock::now()) {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : kWatched) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &inherited_mask_);
    signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    listener_ = listen_for_reports();
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of ranks and of mpirun become children of this process
    if (options.timeout > 0) timeout_at_ = after(options.timeout);
  }

  ~Job() {
    if (signals_ >= 0) close(signals_);
    if (listener_.fd >= 0) close(listener_.fd);
    for (const auto& [fd, rank] : connections_) close(fd);
    sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Returns true if a restart makes sense: no user or timeout ended the job, and at least one rank had started.
  [[nodiscard]] bool may_restart() const { return stopped_by_ == 0 && !timed_out_ && !ranks_.empty(); }

  /// `command` is that of mpirun; it is not used for ranks on this host.
  int run(const std::vector<std::string>& command) {
    setenv(kLauncherVariable, listener_.name.c_str(), 1);
    options_.local ? ranks_here_.start(options_, inherited_mask_) : start(command);
    while (mpirun_ != 0 || ranks_here_.running()) {
      wait_for_events();
      keep_time();
    }
    ranks_here_.streams().finish();
    take_reports();  // reports that arrived between the last poll and the end
    const int code = report_result();
    if (code != 0) end_descendants();
    return code;
  }

 private:
  void start(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const pid_t self = getpid();
    const Streams::Ends ends = ranks_here_.streams().open(0, false);
    mpirun_ = fork();
    if (mpirun_ < 0) throw std::runtime_error(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (mpirun_ == 0) {
      setpgid(0, 0);  // Ctrl-C on a terminal reaches only this process, which forwards it
      ends.use();
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
      if (getppid() == self) execv(words[0], words.data());
      say(fmt::format("cannot run {}: {}", command[0], std::strerror(errno)));
      _exit(127);
    }
    ends.close_all();
  }

  void wait_for_events() {
    std::vector<pollfd> watched = {{.fd = signals_, .events = POLLIN, .revents = 0},
                                   {.fd = listener_.fd, .events = POLLIN, .revents = 0}};
    for (const auto& [fd, rank] : connections_) watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    ranks_here_.streams().watch(watched);
    const Time next = std::min({timeout_at_, end_at_, stop_at_, kill_at_});
    int timeout = -1;
    if (next != kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<long>(left, 0, 1000000));
    }
    if (poll(watched.data(), watched.size(), timeout) <= 0) return;
    ranks_here_.streams().pump();
    take_reports();
    for (signalfd_siginfo info{}; read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);) {
      take_signal(info);
    }
  }

  void keep_time() {
    const Time now = Clock::now();
    if (now >= timeout_at_) {
      timeout_at_ = kNever;
      if (!ending_) {
        timed_out_ = true;
        say(fmt::format("timeout of {:g} s expired; ending {}", options_.timeout,
                        list_of_ranks(ranks_that(Rank::running))));
        end();
      }
    }
    if (now >= end_at_) {
      end_at_ = kNever;
      if (!ending_) {
        if (all_ended()) {
          release();
        } else {
          say(fmt::format("{:g} s after the failure of rank {}: ending {}", options_.grace, first_.rank,
                          list_of_ranks(ranks_that(Rank::running))));
          end();
        }
      }
    }
    if (now >= stop_at_) {
      stop_at_ = kNever;
      say(fmt::format("{:g} s after SIG{}: ending {}", options_.stop_timeout, sigabbrev_np(stopped_by_),
                      list_of_ranks(ranks_that(Rank::running))));
      end();
    }
    if (now >= kill_at_) {
      kill_at_ = kNever;
      signal_ranks(SIGKILL);
    }
  }

  /// Ends every rank; ranks on other hosts end through mpirun.
  void end() {
    ending_ = true;
    signal_ranks(SIGTERM);
    kill_at_ = after(kPatience);
  }

  /// Sends a signal to the ranks on this host, or to mpirun, which forwards most signals. If mpirun is killed, the
  /// wrappers end too.
  void signal_ranks(int signal) const { options_.local ? ranks_here_.signal_all(signal) : void(kill(mpirun_, signal)); }

  /// Releases the wrappers of failed ranks. If no rank is running, the job then ends by itself, and faster.
  void release() {
    ending_ = true;
    for (const auto& [fd, rank] : connections_) close(fd);
    connections_.clear();
    kill_at_ = after(kPatience);
  }

  void take_reports() {
    for (int fd = accept_wrapper(listener_.fd); fd >= 0; fd = accept_wrapper(listener_.fd)) connections_[fd] = -1;
    for (auto at = connections_.begin(); at != connections_.end();) {
      const bool open = take_reports_of(at->first, at->second);
      if (!open) close(at->first);
      at = open ? std::next(at) : connections_.erase(at);
    }
  }

  /// Returns false if the wrapper has closed the connection.
  bool take_reports_of(int fd, int& rank) {
    for (;;) {
      Report report;
      switch (receive_report(fd, report)) {
        case Received::nothing: return true;
        case Received::closed: lose(rank); return false;
        case Received::report:
          rank = report.rank;
          ranks_[rank].last = report;
          if (report.kind == Report::started) {
            ranks_[rank].state = Rank::running;
          } else if (report.status == 0 || report.requested || ending_) {
            ranks_[rank].state = Rank::ended;
          } else {
            fail(rank);
          }
          if (first_.rank >= 0 && all_ended()) end_at_ = Clock::now();
      }
    }
  }

  void fail(int rank) {
    ranks_[rank].state = Rank::failed;
    if (first_.rank >= 0) return;
    first_ = ranks_[rank].last;
    end_at_ = after(options_.grace);
  }

  /// A wrapper that ends without a report was killed: either by mpirun, which is ending the job (another rank called
  /// MPI_Abort), or by another process, in which case mpirun is going to end the job.
  void lose(int rank) {
    if (rank < 0 || ending_ || ranks_[rank].state != Rank::running) return;
    ranks_[rank].state = Rank::lost;
    if (first_lost_ < 0) first_lost_ = rank;
    if (options_.local) end();
  }

  [[nodiscard]] bool all_ended() const {
    const auto over = [](const auto& rank) { return rank.second.state >= Rank::ended; };
    return static_cast<int>(ranks_.size()) == options_.ranks && std::all_of(ranks_.begin(), ranks_.end(), over);
  }

  [[nodiscard]] std::vector<int> ranks_that(Rank::State state) const {
    std::vector<int> numbers;
    for (const auto& [number, rank] : ranks_) {
      if (rank.state == state) numbers.push_back(number);
    }
    return numbers;
  }

  void take_signal(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      take_ends();
    } else if (signal == SIGUSR1 || signal == SIGUSR2) {
      signal_ranks(signal);
    } else if (signal == SIGTSTP || signal == SIGCONT) {  // Ctrl-Z, and its continuation
      signal_ranks(signal);
      if (signal == SIGTSTP) raise(SIGSTOP);
    } else if (signal == SIGPIPE) {
      return;
    } else if (stopped_by_ != 0) {
      signal_ranks(SIGKILL);  // a second request
    } else {
      stop(signal);
    }
  }

  void take_ends() {
    int status = 0;
    if (!options_.local) {
      if (waitpid(mpirun_, &status, WNOHANG) == mpirun_) {
        mpirun_ = 0;
        status_ = status;
      }
      return;
    }
    // Orphans of the ranks become children of this process too, and are reaped along with the wrappers.
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      ranks_here_.take_end(pid, status);
    }
    status_ = ranks_here_.status();
  }

  /// Forwards a request to end to the ranks, which may save their state first.
  void stop(int signal) {
    stopped_by_ = signal;
    ending_ = true;
    say(fmt::format("SIG{}: ending the job; the ranks have {:g} s (a second signal ends them at once)",
                    sigabbrev_np(signal), options_.stop_timeout));
    stop_at_ = after(options_.stop_timeout);
    // mpirun by itself would give the ranks only a second. It forwards kStopSignal, which the wrappers turn into
    // SIGINT.
    signal_ranks(options_.local ? signal : kStopSignal);
  }

  /// Prints how the job ended if it failed. Returns the exit code.
  [[nodiscard]] int report_result() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    const auto say_end = [&](const std::string& cause, int code) {
      say(fmt::format("the job failed after {:.1f} s: {}; exit code {}", seconds, cause, code));
      return code;
    };
    if (first_.rank >= 0) {
      std::string cause = fmt::format("rank {} {}", first_.rank, describe(first_.status));
      std::vector<int> others = ranks_that(Rank::failed);
      std::erase(others, first_.rank);
      if (!others.empty()) cause += fmt::format(", then {} failed", list_of_ranks(others));
      return say_end(cause, exit_code(first_.status));
    }
    if (stopped_by_ != 0) return say_end(fmt::format("ended by SIG{}", sigabbrev_np(stopped_by_)), 128 + stopped_by_);
    if (timed_out_) return say_end(fmt::format("it took longer than {:g} s", options_.timeout), 124);
    if (first_lost_ >= 0) {
      return say_end(fmt::format("rank {} was lost because its wrapper was killed", first_lost_), 128 + SIGKILL);
    }
    if (status_ == 0) return 0;
    std::string cause = fmt::format("{} {}", options_.local ? "a rank's wrapper" : "mpirun", describe(status_));
    if (ranks_.empty()) cause += " before a rank started";
    if (!options_.local && !options_.verbose && WIFEXITED(status_)) cause += " (--verbose shows its messages)";
    return say_end(cause, exit_code(status_));
  }

  const LaunchOptions& options_;
  Time began_;
  sigset_t inherited_mask_{};
  int signals_ = -1;
  Listener listener_;
  pid_t mpirun_ = 0;
  LocalRanks ranks_here_;
  int status_ = 0;                  // exit status of mpirun, or of the first wrapper that failed
  std::map<int, int> connections_;  // connections of wrappers: file descriptor to rank
  std::map<int, Rank> ranks_;
  Report first_;  // the first failure; its rank is -1 if there is none
  int first_lost_ = -1;
  bool ending_ = false;
  bool timed_out_ = false;
  int stopped_by_ = 0;
  Time timeout_at_ = kNever;
  Time end_at_ = kNever;
  Time stop_at_ = kNever;
  Time kill_at_ = kNever;
};

/// Tells the ranks that their standard error ends in a terminal, and its width, because theirs may be a pipe.
void announce_terminal() {
  winsize size{};
  if (isatty(STDERR_FILENO) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) {
    unsetenv("PLEIAD_TERMINAL");
    return;
  }
  setenv("PLEIAD_TERMINAL", std::to_string(size.ws_col > 0 ? size.ws_col : 80).c_str(), 1);
}

}  // namespace

int launch(const LaunchOptions& requested) {
  LaunchOptions options = requested;
  options.local = !needs_mpirun(options);
  if (options.bind == "core" && options.hostfile.empty() && options.ranks > usable_cores()) {
    throw std::runtime_error(
        fmt::format("--bind core needs a core for each rank; {} ranks, {} cores", options.ranks, usable_cores()));
  }
  if (options.hostfile.empty() && !find_program(options.command[0])) {
    say(fmt::format("program \"{}\" was not found", options.command[0]));
    return 127;
  }
  announce_terminal();
  std::vector<std::string> command;
  if (!options.local) {
    const std::string mpirun = find_mpirun();
    const std::string version = version_of(mpirun);
    if (version.find("Open MPI") == std::string::npos && version.find("OpenRTE") == std::string::npos) {
      throw std::runtime_error(
          fmt::format("{} is not Open MPI's launcher (its version: \"{}\"); set PLEIAD_MPIRUN", mpirun, version));
    }
    command = mpirun_command(options, mpirun);
  }
  if (options.verbose) {
    say(options.local ? fmt::format("{} processes on this host: {}", options.ranks, fmt::join(options.command, " "))
                      : fmt::format("{}", fmt::join(command, " ")));
  }
  for (int attempt = 0;; ++attempt) {
    setenv("PLEIAD_RESTARTED", std::to_string(attempt).c_str(), 1);
    Job job(options);
    const int code = job.run(command);
    if (code == 0 || !job.may_restart() || attempt == options.restarts) return code;
    say(fmt::format("restart {} of {}", attempt + 1, options.restarts));
  }
}

}  // namespace pleiad::cli
