// What a rank's wrapper tells the launcher on the same host. Each wrapper holds one connection to an abstract Unix
// socket, whose name it finds in its environment: nothing is left in a file system, and an end of file is news, too.
#pragma once

#include <sys/types.h>

#include <string>

namespace pleiad::cli {

/// The environment variable with the socket's name.
inline constexpr const char* kLauncherVariable = "PLEIAD_LAUNCHER";

struct Report {
  enum Kind : int { started, ended };
  Kind kind = started;
  int rank = -1;
  pid_t pid = 0;       ///< of the command, not of the wrapper
  int status = 0;      ///< as waitpid gives it
  int asked = 0;       ///< not 0 where the command ended because the launcher wanted it
  double seconds = 0;  ///< that the command ran
};

/// A listening socket that does not block, and its name. Throws std::runtime_error.
struct Listener {
  int fd = -1;
  std::string name;
};
[[nodiscard]] Listener listen_for_reports();

/// The next wrapper's connection, or -1 where none waits. Strangers (another user's processes) are turned away.
[[nodiscard]] int accept_wrapper(int listener);

/// The connection to the launcher, or -1 where there is none: no variable, or another host.
[[nodiscard]] int connect_to_launcher();

/// False where the launcher is gone.
bool send_report(int fd, const Report& report);

enum class Received { report, nothing, closed };
[[nodiscard]] Received receive_report(int fd, Report& report);

/// "died of SIGKILL (Killed)" or "exited with code 3".
[[nodiscard]] std::string describe(int status);

/// The exit code that a shell would give: the command's own, or 128 + the signal.
[[nodiscard]] int exit_code(int status);

}  // namespace pleiad::cli
