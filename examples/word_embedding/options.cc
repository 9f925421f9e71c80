#include "examples/word_embedding/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace {

/// Checks numbers. The text of CLI11's own conversion does not say what was expected.
template <class T>
CLI::Validator at_least(T least) {
  const auto check = [least](std::string& text) -> std::string {
    T value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value >= least) return {};
    return "expected a number of at least " + std::to_string(least) + "; received \"" + text + "\"";
  };
  return CLI::Validator(check, "NUMBER");
}

/// Flags have a value, 0 or 1.
CLI::Validator zero_or_one() {
  const auto check = [](std::string& text) -> std::string {
    return text == "0" || text == "1" ? "" : "expected 0 or 1; received \"" + text + "\"";
  };
  return CLI::Validator(check, "0|1");
}

/// Multiverso's options begin with one dash, and those of CLI11 with two.
std::string with_one_dash(std::string text) {
  for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at)) text.erase(at, 1);
  return text;
}

}  // namespace

Options Options::parse(int argc, char** argv) {
  Options o;
  CLI::App app("Trains vectors of words.", "word_embedding");
  app.set_help_flag();
  app.allow_extras();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::int64_t preload = 0;
  const auto flag = [&](const char* name, bool& to) { app.add_option(name, to)->check(zero_or_one()); };
  app.add_option("--train_file", o.train_file);
  app.add_option("--output", o.output);
  app.add_option("--size", o.size)->check(at_least(1));
  flag("--cbow", o.cbow);
  flag("--hs", o.hs);
  const CLI::Option* const negative = app.add_option("--negative", o.negative)->check(at_least(0));
  app.add_option("--window", o.window)->check(at_least(1));
  app.add_option("--sample", o.sample)->check(at_least(0.0));
  app.add_option("--min_count", o.min_count)->check(at_least(std::int64_t{1}));
  app.add_option("--alpha", o.alpha)->check(at_least(0.0));
  app.add_option("--epoch", o.epoch)->check(at_least(1));
  flag("--binary", o.binary);
  flag("--stopwords", o.stopwords);
  app.add_option("--sw_file", o.sw_file);
  app.add_option("--read_vocab", o.read_vocab);
  flag("--use_adagrad", o.use_adagrad);
  flag("--is_pipeline", o.is_pipeline);
  app.add_option("--data_block_size", o.data_block_size)->check(at_least(std::int64_t{1}));
  app.add_option("--max_preload_data_size", preload)->check(at_least(std::int64_t{1}));  // has no effect here
  app.add_option("--threads", o.threads)->check(at_least(1));

  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); i += 2) {  // names alternate with values
    if (words[i].starts_with("-")) words[i].insert(0, "-");
  }
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw std::runtime_error(with_one_dash(error.what()));
  }
  if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) {
    std::string known;
    for (const CLI::Option* option : app.get_options()) known += (known.empty() ? "" : ", ") + option->get_name();
    throw std::runtime_error(with_one_dash("unknown option " + unknown[0] + "; known: " + known));
  }
  if (o.train_file.empty()) throw std::runtime_error("-train_file is missing");
  if (o.stopwords && o.sw_file.empty()) throw std::runtime_error("-stopwords 1 needs -sw_file");
  if (o.hs && negative->count() == 0) o.negative = 0;
  if (o.hs && o.negative > 0) throw std::runtime_error("-hs 1 and -negative above 0: choose one of them");
  if (!o.hs && o.negative == 0) throw std::runtime_error("-negative: expected 1 or more without -hs 1; received 0");
  return o;
}
