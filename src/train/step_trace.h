// Records some steps of a run for Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/trace.h"
#include "plan/communicator.h"

namespace pleiad {

/// The trace of this rank, and the steps that it covers. An empty file name disables it.
class StepTrace {
 public:
  StepTrace(std::string file, std::int64_t steps) : file_(std::move(file)), steps_(steps) {}
  /// Sets the first step that is traced, which is otherwise 0.
  void begin_at(std::int64_t step) { first_ = step; }
  /// Returns the trace if `step` is to be traced, else null.
  [[nodiscard]] Trace* at(std::int64_t step) {
    if (file_.empty() || step < first_ || step >= first_ + steps_) return nullptr;
    recorded_ = true;
    return &trace_;
  }
  /// Collective. If any rank has traced a step since the last call, rank 0 writes the file.
  void write(Communicator& comm);

 private:
  std::string file_;
  std::int64_t steps_;
  std::int64_t first_ = 0;
  bool recorded_ = false;
  Trace trace_;
};

}  // namespace pleiad
