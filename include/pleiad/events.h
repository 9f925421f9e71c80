// Event files for TensorBoard: scalars, histograms and images by tag and step.
//
//   pleiad::EventLog log("runs/first");
//   log.scalar("train/loss", step, loss);
//   log.flush();
//
//   tensorboard --logdir runs
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pleiad/api.h"

namespace pleiad {

/// Appends to its own new file in `folder`, which is created if it does not exist. Several logs may write into one
/// folder. Data reaches the file on flush(), after each megabyte and on destruction. A process that is killed leaves a
/// file that is readable up to its last complete record. Throws a FileError that names the file if a write fails. Not
/// thread-safe: one thread at a time.
class PLEIAD_API EventLog {
 public:
  explicit EventLog(const std::string& folder);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// The path of the event file.
  [[nodiscard]] const std::string& path() const;
  void scalar(const std::string& tag, std::int64_t step, double value);
  /// Writes the distribution of the finite values. Writes nothing if no value is finite.
  void histogram(const std::string& tag, std::int64_t step, std::span<const double> values);
  /// `pixels` has the shape {channels, height, width}, with 1 or 3 channels.
  void image(const std::string& tag, std::int64_t step, std::span<const std::uint8_t> pixels, std::int64_t channels,
             std::int64_t height, std::int64_t width);
  void flush();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace pleiad
