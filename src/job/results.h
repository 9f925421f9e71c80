// What a run leaves in its workspace, and shows while it goes on.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "pleiad/job.h"

namespace pleiad::job {

/// results.csv grows with each report; results.json is written anew at checkpoints and at the end; job.log has every
/// line with its time. One rank has one.
class Results {
 public:
  /// `workspace` empty: no files. `display` is that of JobOptions.
  Results(std::string workspace, std::string display, std::string job, std::int64_t steps);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// A run that goes on at `step`: reports from then on are dropped, as they will come again.
  void resume(std::int64_t step);
  /// A test by itself: its report comes after those of the run before, if that was of the same job.
  void keep();
  /// Writes a line to job.log and to stderr. A reader of stderr that takes nothing for two seconds misses lines, and is
  /// told how many once it reads again: mpirun stops reading while it ends a job, and the run must still be able to
  /// save.
  void line(const std::string& text);
  void add(const JobReport& report);
  /// Whether the moving line of a terminal is to be drawn again.
  [[nodiscard]] bool tick_due() const;
  /// Draws it after a step. `latest` describes it; samples is the number of samples of a step, of all ranks.
  void tick(const JobReport& latest, std::int64_t samples);
  void write_json() const;

 private:
  void clear_live();
  /// Writes to stderr if it takes text within so many nanoseconds. Returns whether it was written.
  bool show(const std::string& text, std::int64_t patience_ns);

  const std::string workspace_;
  const std::string display_;
  const std::string job_;
  const std::int64_t steps_;
  std::vector<JobReport> reports_;
  std::FILE* csv_ = nullptr;
  std::FILE* log_ = nullptr;
  bool live_ = false;          // a moving line stands on the terminal
  std::int64_t left_out_ = 0;  // number of lines that stderr did not take
  std::int64_t started_ns_ = 0;
  std::int64_t first_step_ = -1;
  std::int64_t shown_ns_ = 0;
  std::int64_t shown_step_ = 0;
};

/// "mlp: step 60 of 1000, loss 2.302, acc 0.109, 5,400 samples/s, 12 s left".
[[nodiscard]] std::string progress_line(const std::string& job, const JobReport& latest, std::int64_t steps,
                                        double seconds_left);

/// "Train step 60: loss 2.302, acc 0.109 (5,400 samples/s)".
[[nodiscard]] std::string in_words(const JobReport& report);

}  // namespace pleiad::job
