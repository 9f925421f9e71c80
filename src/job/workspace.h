// A run's place on the disk: who may use it, what was there before, and which checkpoints are the run's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file/owner_lock.h"

namespace pleiad::job {

/// What run.json says about the run that used a workspace last.
struct RunRecord {
  std::string id;       ///< of this run alone
  std::string job;      ///< the job's name
  std::string started;  ///< date and time
  std::string host;
  std::int64_t pid = 0;
  std::string status;     ///< running | stopped | failed | ended; "running" of a process that is gone: it was killed
  std::int64_t step = 0;  ///< of the last checkpoint, or of the end
};

/// Holds the lock of a workspace while it lives. The system releases the lock when the process ends, however that
/// happens. One rank of a run has one.
class Workspace {
 public:
  /// A FileError that names the other run where one is alive in this workspace.
  Workspace(std::string folder, const std::string& job);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// The last run before this one.
  [[nodiscard]] const std::optional<RunRecord>& last() const { return last_; }
  /// A new run: gets an identity of its own, and the state of the last run is moved aside so that nothing resumes from
  /// it by mistake. Returns a line that says what was found, or nothing.
  std::string begin();
  /// Continues the last run under its identity. A FileError where that was another job's.
  void resume();
  void saved(std::int64_t step) { write("running", step); }
  void end(const std::string& status, std::int64_t step) { write(status, step); }

 private:
  void write(const std::string& status, std::int64_t step);

  const std::string folder_;
  RunRecord own_;  // without a status until it begins
  std::optional<RunRecord> last_;
  std::optional<OwnerLock> lock_;
};

/// WORKSPACE/checkpoint/state: what a run needs to continue bit for bit.
[[nodiscard]] std::string state_folder(const std::string& workspace);
/// The last of SINGA's checkpoint files of a workspace, stepN-worker0, or empty.
[[nodiscard]] std::string last_checkpoint_file(const std::string& workspace);
/// N of a file name stepN-workerM, or -1.
[[nodiscard]] std::int64_t step_of_file(const std::string& path);

}  // namespace pleiad::job
