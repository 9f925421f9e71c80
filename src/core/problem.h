// An error that is passed from one thread or rank to another. The receiver throws a new exception, because the
// reference counts of an exception object shared by two threads are invisible to ThreadSanitizer.
#pragma once

#include <string>

#include "pleiad/error.h"

namespace pleiad {

struct Problem {
  ErrorKind kind = ErrorKind::internal;
  std::string text;

  /// Describes the exception that is being handled.
  [[nodiscard]] static Problem current();
  /// Throws an exception of the class that belongs to the kind.
  [[noreturn]] void raise() const;
};

}  // namespace pleiad
