// The reports of a rank's wrapper to the launcher on the same host. Each wrapper holds one connection to an abstract
// Unix socket, whose name is in its environment. No file is left behind, and the end of the connection is a report too.
#pragma once

#include <sys/types.h>

#include <string>

namespace pleiad::cli {

/// The environment variable with the name of the socket.
inline constexpr const char* kLauncherVariable = "PLEIAD_LAUNCHER";

struct Report {
  enum Kind : int { started, ended };
  Kind kind = started;
  int rank = -1;
  pid_t pid = 0;       ///< process of the command, not of the wrapper
  int status = 0;      ///< in the format of waitpid
  int requested = 0;   ///< not 0 if the command ended because the launcher requested it
  double seconds = 0;  ///< run time of the command
};

/// A non-blocking listening socket and its name. listen_for_reports throws std::runtime_error on failure.
struct Listener {
  int fd = -1;
  std::string name;
};
[[nodiscard]] Listener listen_for_reports();

/// Returns the next wrapper's connection, or -1 if none is waiting. Rejects connections from other users' processes.
[[nodiscard]] int accept_wrapper(int listener);

/// Returns a connection to the launcher, or -1 if there is none: the variable is not set, or the launcher is on another
/// host.
[[nodiscard]] int connect_to_launcher();

/// Returns false if the launcher is gone.
bool send_report(int fd, const Report& report);

enum class Received { report, nothing, closed };
[[nodiscard]] Received receive_report(int fd, Report& report);

/// Returns text such as "died of SIGKILL (Killed)" or "exited with code 3".
[[nodiscard]] std::string describe(int status);

/// Returns the exit code as a shell does: the command's own, or 128 + the signal.
[[nodiscard]] int exit_code(int status);

}  // namespace pleiad::cli
