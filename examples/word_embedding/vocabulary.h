// The words of a text, most frequent first, and the random choices of training.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

struct Word {
  std::string text;
  std::int64_t count = 0;
  // Hierarchical softmax: the path from the root to the word. At inner node points[i] it takes the side codes[i].
  std::vector<std::int64_t> points;
  std::vector<char> codes;
};

class Vocabulary {
 public:
  /// Counts the words of a text. Throws a std::runtime_error if the file cannot be read or fewer than two words remain.
  static Vocabulary of_text(const std::string& path, std::int64_t min_count, const std::string& stopwords);
  /// Reads lines of "word count".
  static Vocabulary of_list(const std::string& path, std::int64_t min_count, const std::string& stopwords);

  [[nodiscard]] const std::vector<Word>& words() const { return words_; }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  [[nodiscard]] std::int64_t total() const { return total_; }
  /// Returns -1 if the word is not in the vocabulary.
  [[nodiscard]] std::int64_t find(const std::string& text) const;
  /// Returns a random word with a probability proportional to count^0.75.
  [[nodiscard]] std::int64_t draw(std::mt19937_64& random) const;
  /// Returns the probability that an occurrence of the word is kept when frequent words are thinned out.
  [[nodiscard]] double keep(std::int64_t word, double sample) const;

 private:
  static Vocabulary of_counts(std::unordered_map<std::string, std::int64_t> counts, std::int64_t min_count,
                              const std::string& stopwords, const std::string& path);
  void make_tree();

  std::vector<Word> words_;
  std::unordered_map<std::string, std::int64_t> places_;
  std::vector<double> cumulated_;
  std::int64_t total_ = 0;
};
