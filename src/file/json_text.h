// JSON from files that may be damaged or hostile.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pleiad {

/// Parses UTF-8 JSON. A FileError that begins with `where` for what is no JSON, an object with a key twice (readers
/// differ in which counts), or more than `max_depth` levels.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth);

/// The member `key` of `object`; a FileError that begins with `where` if there is none.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, const char* key, const std::string& where);

/// A whole number from 0 to 2^63 - 1; a FileError otherwise.
[[nodiscard]] std::int64_t whole_number(const nlohmann::json& value, const std::string& where);

/// A string; a FileError otherwise.
[[nodiscard]] const std::string& text_value(const nlohmann::json& value, const std::string& where);

}  // namespace pleiad
