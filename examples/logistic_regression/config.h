// Settings of a run: lines of key=value, with the keys of Multiverso's logistic regression.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Config {
  std::int64_t input_size = 0;
  std::int64_t output_size = 0;
  bool sparse = false;  ///< libsvm: label key:value ...
  int train_epoch = 1;
  int minibatch_size = 20;
  int read_buffer_size = 2048;       ///< number of samples that are read at a time
  int show_time_per_sample = 10000;  ///< number of samples between two progress lines
  double regular_coef = 0.0005;
  double learning_rate = 0.8;
  double learning_rate_coef = 1e6;  ///< rate = max(1e-3, learning_rate - updates / (this * minibatch_size))
  double alpha = 0.005;             ///< for FTRL, as the next three
  double beta = 1;
  double lambda1 = 5;
  double lambda2 = 0.002;
  std::string init_model_file;  ///< a folder that an earlier run has saved
  std::string train_file = "train.data";
  std::string reader_type = "default";  ///< default | weight (label:weight) | bsparse (binary)
  std::string test_file;
  std::string output_model_file = "logreg.model";
  std::string output_file = "logreg.output";
  bool use_ps = false;  ///< false: a single process
  bool pipeline = true;
  int sync_frequency = 1;                  ///< minibatches between two gets of the model
  std::string updater_type = "default";    ///< default and sgd: w -= rate * g | ftrl
  std::string objective_type = "default";  ///< default: linear | sigmoid | softmax | ftrl: sigmoid
  std::string regular_type = "default";    ///< default: none | L1 | L2

  /// Reads the settings. A std::runtime_error names the file and the line of an invalid setting.
  static Config read(const std::string& path);
  [[nodiscard]] bool ftrl() const { return updater_type == "ftrl" || objective_type == "ftrl"; }
  [[nodiscard]] std::vector<std::string> train_files() const;
};
