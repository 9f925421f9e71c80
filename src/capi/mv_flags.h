// Multiverso's flags: -sync=true, -updater_type=sgd and so on, and what they mean to Pleiad.
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
  /// False where there is no such flag; throws an InvalidArgument for a value that it cannot have.
  bool set(std::string_view name, std::string_view value);

  /// What a session and a table are to be started with, as pleiad.h takes it.
  [[nodiscard]] std::string session_options() const;
  [[nodiscard]] std::string table_options(DType dtype) const;
  /// Those that were given and mean nothing here.
  [[nodiscard]] const std::vector<std::string>& idle() const { return idle_; }
  [[nodiscard]] bool model_averaging() const { return model_averaging_; }

 private:
  using Options = std::vector<std::pair<std::string, std::string>>;

  bool sync_ = false;
  bool model_averaging_ = false;
  std::string updater_type_ = "default";
  Options session_;
  Options table_;
  Options updater_;
  std::vector<std::string> idle_;
};

[[nodiscard]] std::vector<std::string> known_flags();
/// True where a flag counts from the next session on, not from the next table on.
[[nodiscard]] bool belongs_to_session(std::string_view name);

/// What the arguments of a program say.
struct Arguments {
  Flags flags;
  std::vector<char*> left;  ///< what is no flag of ours, in its order
  std::vector<char*> taken;
  std::vector<std::string> unknown;  ///< what looks like a flag, and is none of ours
};
[[nodiscard]] Arguments read_arguments(Flags flags, int argc, char** argv);

/// unknown flags "-snyc=true"; known: ... (did you mean "-sync"?)
[[nodiscard]] std::string complaint(const std::vector<std::string>& unknown);

}  // namespace pleiad::mv
