// JSON from files that may be damaged or malicious.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pleiad {

/// Parses UTF-8 JSON. Throws FileError, whose message begins with `where`, for invalid JSON, an object with a duplicate
/// key (readers differ in which value they use), or more than `max_depth` levels.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth);

/// Returns the member `key` of `object`. Throws FileError, whose message begins with `where`, if there is none.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, const char* key, const std::string& where);

/// Returns an integer from 0 to 2^63 - 1. Throws FileError for anything else.
[[nodiscard]] std::int64_t whole_number(const nlohmann::json& value, const std::string& where);

/// Returns a string. Throws FileError for anything else.
[[nodiscard]] const std::string& text_value(const nlohmann::json& value, const std::string& where);

}  // namespace pleiad
