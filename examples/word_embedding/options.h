// The options of Multiverso's word embedding: -name value.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  std::string train_file;
  std::string output = "vectors.txt";
  int size = 100;
  bool cbow = true;  ///< 1: CBOW, 0: skip-gram
  bool hs = false;   ///< hierarchical softmax in place of negative sampling
  int negative = 5;  ///< number of random words per positive one; with -hs 1 it must be 0
  int window = 5;
  double sample = 0;  ///< thins out frequent words: 1e-3 is usual
  std::int64_t min_count = 5;
  double alpha = 0.025;
  int epoch = 1;
  bool binary = false;
  bool stopwords = false;
  std::string sw_file;
  std::string read_vocab;  ///< file with lines of "word count", which replaces a first pass over the text
  bool use_adagrad = false;
  bool is_pipeline = true;
  int threads = 1;  ///< number of threads that train a block together, on the same copies of its rows
  std::int64_t data_block_size = 1'000'000;  ///< bytes of text between two gets

  /// Parses the options. A std::runtime_error names the expected and the received value.
  static Options parse(int argc, char** argv);
};
