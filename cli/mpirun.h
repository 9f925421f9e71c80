// Where Open MPI's launcher is and how it is called.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pleiad::cli {

/// The program's path, if `name` is a program's path or the name of one on the PATH.
[[nodiscard]] std::optional<std::string> find_program(const std::string& name);

/// $PLEIAD_MPIRUN, or the first of mpirun.openmpi and mpirun on the PATH. Throws std::runtime_error that names the
/// package to install.
[[nodiscard]] std::string find_mpirun();

/// The first line of `mpirun --version`; empty where it cannot be run.
[[nodiscard]] std::string version_of(const std::string& mpirun);

struct LaunchOptions {
  int ranks = 1;
  std::string hostfile;
  double timeout = 0;  ///< seconds; 0: none
  int restarts = 0;
  double grace = 5;          ///< seconds between the first failure and the end of the other ranks
  double stop_timeout = 30;  ///< seconds that the ranks have to end after Ctrl-C or SIGTERM
  bool mpi = false;          ///< use mpirun on one host, too
  bool local = true;         ///< start the ranks without mpirun; set by launch()
  bool tag_output = false;
  bool verbose = false;
  std::string bind = "none";  ///< core | none
  std::vector<std::string> command;
};

/// True if the job needs mpirun: it was asked for, there are or may be several hosts, or the ranks of this host are to
/// act as several.
[[nodiscard]] bool needs_mpirun(const LaunchOptions& options);

/// The whole command line: mpirun, its flags, this program as each rank's wrapper, the user's command.
[[nodiscard]] std::vector<std::string> mpirun_command(const LaunchOptions& options, const std::string& mpirun);

}  // namespace pleiad::cli
