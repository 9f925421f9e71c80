// Samples from files: dense text, libsvm text, or Multiverso's binary form.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "examples/logistic_regression/config.h"

struct Sample {
  int label = 0;
  double weight = 1;
  std::vector<std::int64_t> keys;  ///< indices of the present features; the last one, input_size, is the bias
  std::vector<float> values;
};

/// Reads every ranks-th sample of some files, so that each of `ranks` readers gets its own.
class SampleReader {
 public:
  SampleReader(const Config& config, std::vector<std::string> files, int rank, int ranks);
  /// Returns at most `count` samples, fewer at the end of the last file. A std::runtime_error names file and line.
  std::vector<Sample> next(std::size_t count);

 private:
  [[nodiscard]] bool open_next();
  [[nodiscard]] bool read(Sample& sample, bool mine);
  [[nodiscard]] bool read_binary(Sample& sample);
  void parse(const std::string& line, Sample& sample) const;
  void check_label(int label) const;
  [[noreturn]] void wrong(const std::string& what) const;

  const Config& config_;
  std::vector<std::string> files_;
  std::size_t file_ = 0;
  std::ifstream in_;
  std::int64_t at_ = 0;  ///< line or record of the file
  std::int64_t seen_ = 0;
  int rank_;
  int ranks_;
};
