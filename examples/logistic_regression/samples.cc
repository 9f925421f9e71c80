#include "examples/logistic_regression/samples.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

namespace {

std::string_view next_word(std::string_view& rest) {
  const auto first = rest.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return rest = {};
  rest.remove_prefix(first);
  const auto end = std::min(rest.find_first_of(" \t\r"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

template <class T>
bool number(std::string_view text, T& value) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

SampleReader::SampleReader(const Config& config, std::vector<std::string> files, int rank, int ranks)
    : config_(config), files_(std::move(files)), rank_(rank), ranks_(ranks) {}

void SampleReader::wrong(const std::string& what) const {
  throw std::runtime_error(files_[file_ - 1] + ":" + std::to_string(at_) + ": " + what);
}

bool SampleReader::open_next() {
  if (file_ == files_.size()) return false;
  in_ = std::ifstream(files_[file_++], std::ios::binary);
  at_ = 0;
  if (!in_) throw std::runtime_error(files_[file_ - 1] + ": cannot be read");
  return true;
}

std::vector<Sample> SampleReader::next(std::size_t count) {
  std::vector<Sample> samples;
  while (samples.size() < count) {
    Sample sample;
    const bool mine = seen_ % ranks_ == rank_;
    if (file_ == 0 || !read(sample, mine)) {
      if (!open_next()) break;
      continue;
    }
    ++seen_;
    if (mine) samples.push_back(std::move(sample));
  }
  return samples;
}

bool SampleReader::read(Sample& sample, bool mine) {
  if (config_.reader_type == "bsparse") return read_binary(sample);
  std::string line;
  do {
    if (!std::getline(in_, line)) return false;
    ++at_;
  } while (line.find_first_not_of(" \t\r") == std::string::npos);
  if (mine) parse(line, sample);  // other readers parse the other lines
  return true;
}

void SampleReader::check_label(int label) const {
  const std::int64_t most = std::max<std::int64_t>(config_.output_size - 1, 1);
  if (config_.objective_type == "default" && config_.output_size == 1) return;
  if (label < 0 || label > most) {
    wrong("expected a label from 0 to " + std::to_string(most) + "; received " + std::to_string(label));
  }
}

void SampleReader::parse(const std::string& line, Sample& sample) const {
  std::string_view rest = line;
  std::string_view label = next_word(rest);
  if (config_.reader_type == "weight") {
    const auto colon = label.find(':');
    if (colon == std::string_view::npos || !number(label.substr(colon + 1), sample.weight) || sample.weight < 0) {
      wrong("expected label:weight; received \"" + std::string(label) + "\"");
    }
    label = label.substr(0, colon);
  }
  if (!number(label, sample.label)) wrong("expected a whole number as label; received \"" + std::string(label) + "\"");
  if (sample.label == -1 && config_.output_size == 1 && config_.objective_type != "default") sample.label = 0;
  check_label(sample.label);
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    auto key = static_cast<std::int64_t>(sample.keys.size());
    std::string_view value = word;
    if (config_.sparse) {
      const auto colon = word.find(':');
      if (colon == std::string_view::npos || !number(word.substr(0, colon), key)) {
        wrong("expected key:value; received \"" + std::string(word) + "\"");
      }
      value = word.substr(colon + 1);
    }
    float x = 0;
    if (!number(value, x)) wrong("expected a number; received \"" + std::string(word) + "\"");
    if (key < 0 || key >= config_.input_size) {
      wrong("expected features from 0 to " + std::to_string(config_.input_size - 1) + "; received " +
            std::to_string(key));
    }
    sample.keys.push_back(key);
    sample.values.push_back(x);
  }
  if (!config_.sparse && static_cast<std::int64_t>(sample.keys.size()) != config_.input_size) {
    wrong("expected " + std::to_string(config_.input_size) + " values; received " + std::to_string(sample.keys.size()));
  }
  sample.keys.push_back(config_.input_size);
  sample.values.push_back(1);
}

bool SampleReader::read_binary(Sample& sample) {
  const auto take = [&](auto& value) {
    in_.read(reinterpret_cast<char*>(&value), sizeof value);
    return in_.gcount() == static_cast<std::streamsize>(sizeof value);
  };
  std::uint64_t count = 0;
  if (in_.peek() == std::ifstream::traits_type::eof()) return false;
  ++at_;
  std::int32_t label = 0;
  if (!take(count) || !take(label) || !take(sample.weight)) wrong("a record ends in its middle");
  if (count > static_cast<std::uint64_t>(config_.input_size)) {
    wrong("expected at most " + std::to_string(config_.input_size) + " features; received " + std::to_string(count));
  }
  sample.label = label;
  check_label(label);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t key = 0;
    if (!take(key)) wrong("a record ends in its middle");
    if (key >= static_cast<std::uint64_t>(config_.input_size)) wrong("received feature " + std::to_string(key));
    sample.keys.push_back(static_cast<std::int64_t>(key));
    sample.values.push_back(1);
  }
  sample.keys.push_back(config_.input_size);
  sample.values.push_back(1);
  return true;
}
