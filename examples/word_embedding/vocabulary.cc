#include "examples/word_embedding/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <queue>
#include <stdexcept>

namespace {

std::ifstream opened(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return file;
}

}  // namespace

Vocabulary Vocabulary::of_text(const std::string& path, std::int64_t min_count, const std::string& stopwords) {
  std::unordered_map<std::string, std::int64_t> counts;
  std::ifstream file = opened(path);
  for (std::string word; file >> word;) ++counts[word];
  return of_counts(std::move(counts), min_count, stopwords, path);
}

Vocabulary Vocabulary::of_list(const std::string& path, std::int64_t min_count, const std::string& stopwords) {
  std::unordered_map<std::string, std::int64_t> counts;
  std::ifstream file = opened(path);
  std::string word;
  std::int64_t count = 0;
  while (file >> word) {
    if (!(file >> count)) throw std::runtime_error(path + ": expected a count after \"" + word + "\"");
    counts[word] += count;
  }
  return of_counts(std::move(counts), min_count, stopwords, path);
}

Vocabulary Vocabulary::of_counts(std::unordered_map<std::string, std::int64_t> counts, std::int64_t min_count,
                                 const std::string& stopwords, const std::string& path) {
  if (!stopwords.empty()) {
    std::ifstream file = opened(stopwords);
    for (std::string word; file >> word;) counts.erase(word);
  }
  Vocabulary v;
  for (auto& [text, count] : counts) {
    if (count >= min_count) v.words_.push_back({.text = text, .count = count, .points = {}, .codes = {}});
  }
  if (v.words_.size() < 2) {
    throw std::runtime_error(path + ": expected at least two words that come " + std::to_string(min_count) +
                             " times or more; received " + std::to_string(v.words_.size()));
  }
  std::ranges::sort(v.words_, [](const Word& a, const Word& b) {
    return a.count != b.count ? a.count > b.count : a.text < b.text;  // the same on every rank
  });
  double sum = 0;
  for (std::size_t i = 0; i < v.words_.size(); ++i) {
    v.places_[v.words_[i].text] = static_cast<std::int64_t>(i);
    v.total_ += v.words_[i].count;
    v.cumulated_.push_back(sum += std::pow(static_cast<double>(v.words_[i].count), 0.75));
  }
  v.make_tree();
  return v;
}

std::int64_t Vocabulary::find(const std::string& text) const {
  const auto found = places_.find(text);
  return found == places_.end() ? -1 : found->second;
}

std::int64_t Vocabulary::draw(std::mt19937_64& random) const {
  const double at = std::uniform_real_distribution<double>(0, cumulated_.back())(random);
  const auto found = std::ranges::upper_bound(cumulated_, at);
  return std::min<std::int64_t>(found - cumulated_.begin(), size() - 1);
}

double Vocabulary::keep(std::int64_t word, double sample) const {
  if (sample <= 0) return 1;
  const double share = static_cast<double>(words_[static_cast<std::size_t>(word)].count) / static_cast<double>(total_);
  return std::min(1.0, std::sqrt(sample / share) + sample / share);
}

// Huffman: merges the two rarest nodes until one is left. Inner nodes are numbered from 0, and the root is the last.
void Vocabulary::make_tree() {
  struct Node {
    std::int64_t count;
    std::int64_t number;  // words first, then inner nodes
    bool operator>(const Node& other) const {
      return count != other.count ? count > other.count : number > other.number;
    }
  };
  const std::int64_t leaves = size();
  std::priority_queue<Node, std::vector<Node>, std::greater<>> open;
  for (std::int64_t w = 0; w < leaves; ++w) open.push({words_[static_cast<std::size_t>(w)].count, w});
  std::vector<std::pair<std::int64_t, char>> parent(static_cast<std::size_t>(2 * leaves - 1));
  for (std::int64_t inner = leaves; open.size() > 1; ++inner) {
    const Node a = open.top();
    open.pop();
    const Node b = open.top();
    open.pop();
    parent[static_cast<std::size_t>(a.number)] = {inner, 0};
    parent[static_cast<std::size_t>(b.number)] = {inner, 1};
    open.push({a.count + b.count, inner});
  }
  const std::int64_t root = 2 * leaves - 2;
  for (std::int64_t w = 0; w < leaves; ++w) {
    Word& word = words_[static_cast<std::size_t>(w)];
    for (std::int64_t node = w; node != root;) {
      const auto [up, side] = parent[static_cast<std::size_t>(node)];
      word.points.push_back(up - leaves);
      word.codes.push_back(side);
      node = up;
    }
    std::ranges::reverse(word.points);
    std::ranges::reverse(word.codes);
  }
}
