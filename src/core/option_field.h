// One option of a struct of options, by name: read from text, written as text.
#pragma once

#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/dtype.h"
#include "pleiad/error.h"

namespace pleiad {

/// One option of a struct of options.
template <class Options>
struct OptionField {
  std::string name;
  std::string help;
  /// Reads the value from text; throws an InvalidArgument that says what was expected.
  std::function<void(Options&, std::string_view)> set;
  std::function<std::string(const Options&)> get;
};

template <class T>
T number_option(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(fmt::format("option {}: expected a number, received \"{}\"", name, text));
  }
  return value;
}

inline bool truth_option(std::string_view name, std::string_view text) {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  throw InvalidArgument(fmt::format("option {}: expected true or false, received \"{}\"", name, text));
}

inline DType dtype_named(std::string_view text) {
  std::vector<std::string> known;
  for (const DType type : kDTypes) {
    if (name_of(type) == text) return type;
    known.emplace_back(name_of(type));
  }
  throw InvalidArgument(unknown_name("dtype", text, known));
}

template <class Options, class T>
OptionField<Options> field(const std::string& name, T Options::* member, const std::string& help) {
  OptionField<Options> field{.name = name, .help = help, .set = {}, .get = {}};
  field.set = [name, member](Options& options, std::string_view text) {
    if constexpr (std::is_same_v<T, std::string>) {
      options.*member = std::string(text);
    } else if constexpr (std::is_same_v<T, bool>) {
      options.*member = truth_option(name, text);
    } else if constexpr (std::is_same_v<T, DType>) {
      options.*member = dtype_named(text);
    } else {
      options.*member = number_option<T>(name, text);
    }
  };
  field.get = [member](const Options& options) {
    if constexpr (std::is_same_v<T, bool>) {
      return std::string(options.*member ? "true" : "false");
    } else if constexpr (std::is_same_v<T, DType>) {
      return std::string(name_of(options.*member));
    } else {
      return fmt::format("{}", options.*member);
    }
  };
  return field;
}

}  // namespace pleiad
