// Finds Open MPI's launcher and builds its command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pleiad::cli {

/// Returns the path of a program, given its path or its name on the PATH; nothing if there is none.
[[nodiscard]] std::optional<std::string> find_program(const std::string& name);

/// Returns $PLEIAD_MPIRUN, or the first of mpirun.openmpi and mpirun on the PATH. Throws std::runtime_error that names
/// the package to install.
[[nodiscard]] std::string find_mpirun();

/// Returns the first line of `mpirun --version`, or an empty string if it cannot be run.
[[nodiscard]] std::string version_of(const std::string& mpirun);

struct LaunchOptions {
  int ranks = 1;
  std::string hostfile;
  double timeout = 0;  ///< seconds; 0 disables it
  int restarts = 0;
  double grace = 5;          ///< seconds between the first failure and the end of the other ranks
  double stop_timeout = 30;  ///< seconds that the ranks have to end after Ctrl-C or SIGTERM
  bool mpi = false;          ///< use mpirun even on one host
  bool local = true;         ///< start the ranks without mpirun; set by launch()
  bool tag_output = false;
  bool verbose = false;
  std::string bind = "none";  ///< core | none
  std::vector<std::string> command;
};

/// Returns true if the job needs mpirun: it was asked for, there are or may be several hosts, or the ranks of this host
/// simulate several hosts.
[[nodiscard]] bool needs_mpirun(const LaunchOptions& options);

/// Returns the whole command line: mpirun, its flags, this program as the wrapper of each rank, and the user's command.
[[nodiscard]] std::vector<std::string> mpirun_command(const LaunchOptions& options, const std::string& mpirun);

}  // namespace pleiad::cli
