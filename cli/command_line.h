// Parses a command line. On an error, prints the error and the known options.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/text.h"

namespace pleiad::cli {

using Words = std::vector<std::string>;

inline constexpr int kUsageError = 2;

inline Words option_names(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

inline std::string unknown_word(const CLI::App& app, const std::string& word) {
  const std::string near = nearest(word.substr(0, word.find('=')), option_names(app));
  return fmt::format("{} \"{}\"{}", word[0] == '-' ? "unknown option" : "unexpected argument", word,
                     near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near));
}

/// Prints the error. Returns the exit code of the program.
inline int fail(const CLI::App& app, const std::string& message) {
  fmt::print(stderr, "{}: {}\ntry \"{} --help\"\n", app.get_name(), message, app.get_name());
  return kUsageError;
}

/// If `done` becomes true, the program must exit with the returned code.
inline int parse(CLI::App& app, const Words& words, bool& done) {
  done = true;
  try {
    Words reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    if (const Words unknown = app.remaining(true); !unknown.empty()) return fail(app, unknown_word(app, unknown[0]));
    return fail(app, error.what());
  }
  done = false;
  return 0;
}

}  // namespace pleiad::cli
