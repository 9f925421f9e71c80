#include "examples/logistic_regression/config.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>

namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <class T>
T number(const std::string& text, T least) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value >= least)) {
    throw std::runtime_error("expected a number of at least " + std::to_string(least) + "; received \"" + text + "\"");
  }
  return value;
}

bool yes(const std::string& text) {
  if (text != "true" && text != "false") throw std::runtime_error("expected true or false; received \"" + text + "\"");
  return text == "true";
}

std::string one_of(const std::string& text, const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& word : known) {
    if (word == text) return text;
    list += (list.empty() ? "" : ", ") + word;
  }
  throw std::runtime_error("expected one of " + list + "; received \"" + text + "\"");
}

using Setter = std::function<void(Config&, const std::string&)>;

const std::map<std::string, Setter>& setters() {
  const auto integer = [](auto Config::* field, int least) {
    return [=](Config& c, const std::string& v) {
      c.*field = number<std::remove_reference_t<decltype(c.*field)>>(v, least);
    };
  };
  const auto real = [](double Config::* field) {
    return [=](Config& c, const std::string& v) { c.*field = number<double>(v, 0.0); };
  };
  const auto text = [](std::string Config::* field) { return [=](Config& c, const std::string& v) { c.*field = v; }; };
  const auto flag = [](bool Config::* field) { return [=](Config& c, const std::string& v) { c.*field = yes(v); }; };
  const auto word = [](std::string Config::* field, std::vector<std::string> known) {
    return [=](Config& c, const std::string& v) { c.*field = one_of(v, known); };
  };
  static const std::map<std::string, Setter> list = {
      {"input_size", integer(&Config::input_size, 1)},
      {"output_size", integer(&Config::output_size, 1)},
      {"sparse", flag(&Config::sparse)},
      {"train_epoch", integer(&Config::train_epoch, 0)},
      {"minibatch_size", integer(&Config::minibatch_size, 1)},
      {"read_buffer_size", integer(&Config::read_buffer_size, 1)},
      {"show_time_per_sample", integer(&Config::show_time_per_sample, 1)},
      {"regular_coef", real(&Config::regular_coef)},
      {"learning_rate", real(&Config::learning_rate)},
      {"learning_rate_coef", real(&Config::learning_rate_coef)},
      {"alpha", real(&Config::alpha)},
      {"beta", real(&Config::beta)},
      {"lambda1", real(&Config::lambda1)},
      {"lambda2", real(&Config::lambda2)},
      {"init_model_file", text(&Config::init_model_file)},
      {"train_file", text(&Config::train_file)},
      {"reader_type", word(&Config::reader_type, {"default", "weight", "bsparse"})},
      {"test_file", text(&Config::test_file)},
      {"output_model_file", text(&Config::output_model_file)},
      {"output_file", text(&Config::output_file)},
      {"use_ps", flag(&Config::use_ps)},
      {"pipeline", flag(&Config::pipeline)},
      {"sync_frequency", integer(&Config::sync_frequency, 1)},
      {"updater_type", word(&Config::updater_type, {"default", "sgd", "ftrl"})},
      {"objective_type", word(&Config::objective_type, {"default", "sigmoid", "softmax", "ftrl"})},
      {"regular_type", word(&Config::regular_type, {"default", "L1", "L2"})},
  };
  return list;
}

}  // namespace

Config Config::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Config config;
  std::string line;
  for (int at = 1; std::getline(file, line); ++at) {
    const auto wrong = [&](const std::string& what) {
      throw std::runtime_error(path + ":" + std::to_string(at) + ": " + what);
    };
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos) wrong("expected key=value; received \"" + line + "\"");
    const std::string key = trimmed(line.substr(0, equals));
    const auto setter = setters().find(key);
    if (setter == setters().end()) {
      std::string known;
      for (const auto& [name, unused] : setters()) known += (known.empty() ? "" : ", ") + name;
      wrong("unknown key \"" + key + "\"; known: " + known);
    }
    try {
      setter->second(config, trimmed(line.substr(equals + 1)));
    } catch (const std::runtime_error& error) {
      wrong(key + ": " + error.what());
    }
  }
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(path + ": " + what);
  };
  need(config.input_size > 0, "input_size is missing");
  need(config.output_size > 0, "output_size is missing");
  need(config.objective_type != "softmax" || config.output_size > 1,
       "objective_type=softmax needs output_size of 2 or more");
  need(config.reader_type != "bsparse" || config.sparse, "reader_type=bsparse needs sparse=true");
  need(!config.ftrl() || config.regular_type == "default",
       "FTRL has its own lambda1 and lambda2: leave regular_type out");
  need(!config.ftrl() || config.objective_type != "default", "FTRL needs objective_type=ftrl, sigmoid or softmax");
  return config;
}

std::vector<std::string> Config::train_files() const {
  std::vector<std::string> files;
  std::size_t begin = 0;
  while (begin <= train_file.size()) {
    const std::size_t end = std::min(train_file.find(';', begin), train_file.size());
    if (end > begin) files.push_back(train_file.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}
