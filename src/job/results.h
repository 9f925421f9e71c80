// Writes the results of a run to its workspace and shows its progress.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "pleiad/job.h"

namespace pleiad::job {

/// results.csv grows with each report. results.json is rewritten at checkpoints and at the end. job.log contains every
/// line with its time. Only one rank of a run has an object of this class.
class Results {
 public:
  /// An empty `workspace` writes no files. `display` is JobOptions::display.
  Results(std::string workspace, std::string display, std::string job, std::int64_t steps);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// Continues a run at `step`. Discards old reports from that step on, because they will be reported again.
  void resume(std::int64_t step);
  /// Keeps the reports of the previous run if it was of the same job, so that the report of a separate test follows
  /// them.
  void keep();
  /// Writes a line to job.log and to stderr. If nobody reads stderr for two seconds, lines are dropped; when the reader
  /// continues, it receives their number. This happens because mpirun stops reading while it ends a job, and the run
  /// must still be able to save.
  void line(const std::string& text);
  void add(const JobReport& report);
  /// Returns true if the progress line on a terminal should be redrawn.
  [[nodiscard]] bool tick_due() const;
  /// Redraws the progress line after a step. `latest` describes the step; `samples` is the number of samples per step
  /// over all ranks.
  void tick(const JobReport& latest, std::int64_t samples);
  void write_json() const;

 private:
  void clear_live();
  /// Writes to stderr if it accepts text within patience_ns. Returns whether the text was written.
  bool show(const std::string& text, std::int64_t patience_ns);

  const std::string workspace_;
  const std::string display_;
  const std::string job_;
  const std::int64_t steps_;
  std::vector<JobReport> reports_;
  std::FILE* csv_ = nullptr;
  std::FILE* log_ = nullptr;
  bool live_ = false;          // a progress line is on the terminal
  std::int64_t left_out_ = 0;  // number of lines dropped because stderr did not accept them
  std::int64_t started_ns_ = 0;
  std::int64_t first_step_ = -1;
  std::int64_t shown_ns_ = 0;
  std::int64_t shown_step_ = 0;
};

/// Example: "mlp: step 60 of 1000, loss 2.302, acc 0.109, 5,400 samples/s, 12 s left".
[[nodiscard]] std::string progress_line(const std::string& job, const JobReport& latest, std::int64_t steps,
                                        double seconds_left);

/// Example: "Train step 60: loss 2.302, acc 0.109 (5,400 samples/s)".
[[nodiscard]] std::string report_text(const JobReport& report);

}  // namespace pleiad::job
