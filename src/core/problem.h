// An error on its way from one thread, or one rank, to another. What is thrown there is a new exception: an exception
// object that two threads hold is released by counts that ThreadSanitizer cannot see.
#pragma once

#include <string>

#include "pleiad/error.h"

namespace pleiad {

struct Problem {
  ErrorKind kind = ErrorKind::internal;
  std::string text;

  /// Of the exception that is being handled.
  [[nodiscard]] static Problem current();
  /// Throws the class that belongs to the kind.
  [[noreturn]] void raise() const;
};

}  // namespace pleiad
