// Finds enumeration values in a job that do not exist.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pleiad::job {

struct WrongEnum {
  int line = 0;       ///< line of the word, counted from 0
  std::string field;  ///< name of the field, for example "type"
  std::string word;   ///< the unknown value, for example "kRelu"
  std::vector<std::string> known;
};

/// Returns the first word in the text form of a JobProto that is not a value of its field's enumeration.
[[nodiscard]] std::optional<WrongEnum> find_wrong_enum(const std::string& text);

}  // namespace pleiad::job
