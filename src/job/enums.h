// Words of a job that should be values of an enumeration.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pleiad::job {

struct WrongEnum {
  int line = 0;       ///< of the word, from 0 on
  std::string field;  ///< "type"
  std::string word;   ///< "kRelu"
  std::vector<std::string> known;
};

/// The first word in the text form of a JobProto that its field's enumeration does not have.
[[nodiscard]] std::optional<WrongEnum> find_wrong_enum(const std::string& text);

}  // namespace pleiad::job
