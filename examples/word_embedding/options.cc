#include "examples/word_embedding/options.h"

#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>

namespace {

template <class T>
T number(const std::string& name, const std::string& text, T least) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value >= least)) {
    throw std::runtime_error("-" + name + ": expected a number of at least " + std::to_string(least) + "; received \"" +
                             text + "\"");
  }
  return value;
}

}  // namespace

Options Options::parse(int argc, char** argv) {
  Options o;
  bool negative_given = false;
  using Setter = std::function<void(const std::string& name, const std::string& value)>;
  const auto flag = [](bool& field) {
    return [&field](const std::string& name, const std::string& v) {
      if (v != "0" && v != "1") throw std::runtime_error("-" + name + ": expected 0 or 1; received \"" + v + "\"");
      field = v == "1";
    };
  };
  const auto count = [](auto& field, int least) {
    return [&field, least](const std::string& name, const std::string& v) {
      field = number<std::remove_reference_t<decltype(field)>>(name, v, least);
    };
  };
  const auto real = [](double& field) {
    return [&field](const std::string& name, const std::string& v) { field = number<double>(name, v, 0); };
  };
  const auto text = [](std::string& field) {
    return [&field](const std::string&, const std::string& v) { field = v; };
  };
  const std::map<std::string, Setter> setters = {
      {"train_file", text(o.train_file)},
      {"output", text(o.output)},
      {"size", count(o.size, 1)},
      {"cbow", flag(o.cbow)},
      {"hs", flag(o.hs)},
      {"negative",
       [&](const std::string& name, const std::string& v) {
         o.negative = number<int>(name, v, 0);
         negative_given = true;
       }},
      {"window", count(o.window, 1)},
      {"sample", real(o.sample)},
      {"min_count", count(o.min_count, 1)},
      {"alpha", real(o.alpha)},
      {"epoch", count(o.epoch, 1)},
      {"binary", flag(o.binary)},
      {"stopwords", flag(o.stopwords)},
      {"sw_file", text(o.sw_file)},
      {"read_vocab", text(o.read_vocab)},
      {"use_adagrad", flag(o.use_adagrad)},
      {"is_pipeline", flag(o.is_pipeline)},
      {"data_block_size", count(o.data_block_size, 1)},
      {"max_preload_data_size",
       [](const std::string& name, const std::string& v) { (void)number<std::int64_t>(name, v, 1); }},
      {"threads", count(o.threads, 1)},
  };
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i][0] == '-' ? argv[i] + 1 : argv[i];
    const auto setter = setters.find(name);
    if (argv[i][0] != '-' || setter == setters.end()) {
      std::string known;
      for (const auto& [one, unused] : setters) known += (known.empty() ? "-" : ", -") + one;
      throw std::runtime_error(std::string("unknown option ") + argv[i] + "; known: " + known);
    }
    if (i + 1 == argc) throw std::runtime_error("-" + name + " needs a value");
    setter->second(name, argv[i + 1]);
  }
  if (o.train_file.empty()) throw std::runtime_error("-train_file is missing");
  if (o.stopwords && o.sw_file.empty()) throw std::runtime_error("-stopwords 1 needs -sw_file");
  if (o.hs && !negative_given) o.negative = 0;
  if (o.hs && o.negative > 0) throw std::runtime_error("-hs 1 and -negative above 0: choose one of them");
  if (!o.hs && o.negative == 0) throw std::runtime_error("-negative: expected 1 or more without -hs 1; received 0");
  return o;
}
