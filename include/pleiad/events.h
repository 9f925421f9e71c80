// Files that TensorBoard shows: numbers, histograms and pictures by tag and step.
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

/// Appends to a file of its own in a folder, which is made where it is not there. Several logs may write into one
/// folder. What is appended is in the file after `flush`, after a megabyte, and at the end; a process that is killed
/// leaves a file that can be read up to its last whole record. A disk that refuses is a FileError that names the file.
/// One thread at a time.
class PLEIAD_API EventLog {
 public:
  explicit EventLog(const std::string& folder);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// The file.
  [[nodiscard]] const std::string& path() const;
  void scalar(const std::string& tag, std::int64_t step, double value);
  /// How often which values come; those that are not finite are left out, and nothing is written where all are.
  void histogram(const std::string& tag, std::int64_t step, std::span<const double> values);
  /// {channels, height, width}; 1 or 3 channels.
  void image(const std::string& tag, std::int64_t step, std::span<const std::uint8_t> pixels, std::int64_t channels,
             std::int64_t height, std::int64_t width);
  void flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pleiad
