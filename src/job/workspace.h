// The workspace folder of a run: its lock, the previous run, and the run's own checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file/owner_lock.h"

namespace pleiad::job {

/// The contents of run.json, which describes the run that last used a workspace.
struct RunRecord {
  std::string id;       ///< unique to this run
  std::string job;      ///< the job's name
  std::string started;  ///< date and time
  std::string host;
  std::int64_t pid = 0;
  std::string status;  ///< running, stopped, failed or ended; "running" without a live process means that it was killed
  std::int64_t step = 0;  ///< step of the last checkpoint, or of the end
};

/// Holds the lock of a workspace during its lifetime. The system releases the lock when the process ends for any
/// reason. One rank of a run has an object of this class.
class Workspace {
 public:
  /// Throws a FileError that names the other run if one is using this workspace.
  Workspace(std::string folder, const std::string& job);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Returns the record of the previous run, if there is one.
  [[nodiscard]] const std::optional<RunRecord>& last() const { return last_; }
  /// Starts a new run with an identity of its own. Moves the state of the last run aside, so that nothing resumes from
  /// it by mistake. Returns a line that says what was found, or an empty text.
  std::string begin();
  /// Continues the last run under its identity. Throws FileError if that run was of another job.
  void resume();
  void saved(std::int64_t step) { write("running", step); }
  void end(const std::string& status, std::int64_t step) { write(status, step); }

 private:
  void write(const std::string& status, std::int64_t step);

  const std::string folder_;
  RunRecord own_;  // has no status until the run begins
  std::optional<RunRecord> last_;
  std::optional<OwnerLock> lock_;
};

/// Returns WORKSPACE/checkpoint/state, the folder with everything that a run needs to resume bit for bit.
[[nodiscard]] std::string state_folder(const std::string& workspace);
/// Returns the latest of SINGA's checkpoint files stepN-worker0 in a workspace, or an empty text.
[[nodiscard]] std::string last_checkpoint_file(const std::string& workspace);
/// Returns N for a file name stepN-workerM, or -1.
[[nodiscard]] std::int64_t step_of_file(const std::string& path);

}  // namespace pleiad::job
