// Multiverso's flags, such as -sync=true and -updater_type=sgd, and their meaning in Pleiad.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleiad/dtype.h"
#include "pleiad/options.h"

namespace pleiad::mv {

class Flags {
 public:
  /// Returns false if there is no such flag. Throws an InvalidArgument if the value is invalid.
  bool set(std::string_view name, std::string_view value);

  /// Return the options for starting a session and for creating a table, in the form of pleiad.h.
  [[nodiscard]] std::string session_options() const;
  [[nodiscard]] std::string table_options(DType dtype) const;
  /// Returns the given flags that have no effect.
  [[nodiscard]] const std::vector<std::string>& ignored() const { return ignored_; }
  [[nodiscard]] bool model_averaging() const { return model_averaging_; }

 private:
  using Options = std::vector<std::pair<std::string, std::string>>;

  bool sync_ = false;
  bool model_averaging_ = false;
  std::string updater_type_ = "default";
  Options session_;
  Options table_;
  Options updater_;
  std::vector<std::string> ignored_;
};

[[nodiscard]] std::vector<std::string> known_flags();
/// Returns true if a flag takes effect with the next session rather than with the next table.
[[nodiscard]] bool belongs_to_session(std::string_view name);

/// The parsed arguments of a program.
struct Arguments {
  Flags flags;
  std::vector<char*> left;  ///< arguments that are not known flags, in their order
  std::vector<char*> taken;
  std::vector<std::string> unknown;  ///< arguments that look like flags but are not known
};
[[nodiscard]] Arguments read_arguments(Flags flags, int argc, char** argv);

/// Returns a message such as: unknown flags "-snyc=true"; known: ... (did you mean "-sync"?)
[[nodiscard]] std::string unknown_flags_message(const std::vector<std::string>& unknown);

}  // namespace pleiad::mv
