// What Pleiad throws. Every message says where, what was expected and what came.
#pragma once

#include <stdexcept>
#include <string>

#include "pleiad/api.h"

namespace pleiad {

/// The kinds double as the codes of the C API (pleiad.h).
enum class ErrorKind : int {
  invalid_argument = 1,  ///< the caller's mistake
  state = 2,             ///< called before init, after shutdown, or in a forked child
  order = 3,             ///< ranks called a synchronous table or a collective differently
  transport = 4,         ///< a peer died or cannot be reached
  timeout = 5,           ///< a deadline passed; the message says whom it waited for
  memory = 6,            ///< a segment could not be allocated
  interrupted = 7,       ///< the wait was given up on the caller's request
  internal = 8,          ///< ours
};

class PLEIAD_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

template <ErrorKind K>
class PLEIAD_API ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message) : Error(K, message) {}
};

using InvalidArgument = ErrorOf<ErrorKind::invalid_argument>;
using StateError = ErrorOf<ErrorKind::state>;
using OrderError = ErrorOf<ErrorKind::order>;
using TransportError = ErrorOf<ErrorKind::transport>;
using TimeoutError = ErrorOf<ErrorKind::timeout>;
using MemoryError = ErrorOf<ErrorKind::memory>;
using Interrupted = ErrorOf<ErrorKind::interrupted>;
using InternalError = ErrorOf<ErrorKind::internal>;

}  // namespace pleiad
