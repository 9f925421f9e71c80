#include "file/json_text.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "pleiad/error.h"

namespace pleiad {

using nlohmann::json;

namespace {

// Quotes part of a file for a message, short and printable.
std::string excerpt(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

json parse_json(std::string_view text, const std::string& where, int max_depth) {
  std::vector<std::set<std::string>> keys;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth) throw FileError(fmt::format("{}: nested more than {} levels deep", where, max_depth));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw FileError(fmt::format("{}: has the key {} twice", where, excerpt(parsed)));
    }
    return true;
  };
  try {
    return json::parse(text, look);
  } catch (const json::parse_error& error) {
    throw FileError(fmt::format("{}: is not valid JSON: at byte {} of {}", where, error.byte, text.size()));
  } catch (const json::exception& error) {
    throw FileError(fmt::format("{}: is not valid JSON: {}", where, error.what()));
  }
}

const json& member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) {
    throw FileError(fmt::format("{}: expected an object with \"{}\", received {}", where, key, excerpt(object)));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw FileError(fmt::format("{}: has no \"{}\"", where, key));
  return *found;
}

std::int64_t whole_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw FileError(fmt::format("{}: expected a whole number of 0 or more, received {}", where, excerpt(value)));
  }
  return value.get<std::int64_t>();
}

const std::string& text_value(const json& value, const std::string& where) {
  if (!value.is_string()) throw FileError(fmt::format("{}: expected a string, received {}", where, excerpt(value)));
  return value.get_ref<const std::string&>();
}

}  // namespace pleiad
