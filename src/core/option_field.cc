#include "core/option_field.h"

#include <charconv>
#include <cstdint>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

bool truth_option(std::string_view name, std::string_view text) {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  throw InvalidArgument(fmt::format("option {}: expected true or false, received \"{}\"", name, text));
}

std::vector<std::int64_t> list_option(std::string_view name, std::string_view text) {
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    values.push_back(number_option<std::int64_t>(name, text.substr(at, end - at)));
    at = end + 1;
  }
  return values;
}

template <class T>
void set_value(void* value, std::string_view name, std::string_view text) {
  T& to = *static_cast<T*>(value);
  if constexpr (std::is_same_v<T, std::string>) {
    to = std::string(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    to = truth_option(name, text);
  } else if constexpr (std::is_same_v<T, DType>) {
    to = dtype_named(text);
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    to = list_option(name, text);
  } else {
    to = number_option<T>(name, text);
  }
}

template <class T>
std::string text_of_value(const void* value) {
  const T& from = *static_cast<const T*>(value);
  if constexpr (std::is_same_v<T, bool>) {
    return from ? "true" : "false";
  } else if constexpr (std::is_same_v<T, DType>) {
    return std::string(name_of(from));
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    return fmt::format("{}", fmt::join(from, ","));
  } else {
    return fmt::format("{}", from);
  }
}

}  // namespace

template <class T>
T number_option(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(fmt::format("option {}: expected a number, received \"{}\"", name, text));
  }
  return value;
}
template std::int64_t number_option(std::string_view, std::string_view);

template <class T>
const OptionType& option_type() {
  static constexpr OptionType type{.set = set_value<T>, .get = text_of_value<T>};
  return type;
}
template const OptionType& option_type<bool>();
template const OptionType& option_type<int>();
template const OptionType& option_type<std::int64_t>();
template const OptionType& option_type<std::uint64_t>();
template const OptionType& option_type<float>();
template const OptionType& option_type<double>();
template const OptionType& option_type<std::string>();
template const OptionType& option_type<DType>();
template const OptionType& option_type<std::vector<std::int64_t>>();

void AnyOptionField::set_in(void* options, std::string_view text) const {
  for (const std::ptrdiff_t offset : offsets) type->set(static_cast<char*>(options) + offset, name, text);
}

std::string AnyOptionField::get_from(const void* options) const {
  return type->get(static_cast<const char*>(options) + offsets.front());
}

DType dtype_named(std::string_view text) {
  std::vector<std::string> known;
  for (const DType type : kDTypes) {
    if (name_of(type) == text) return type;
    known.emplace_back(name_of(type));
  }
  throw InvalidArgument(unknown_name("dtype", text, known));
}

}  // namespace pleiad
