// The exceptions of Pleiad. Every message says where the error happened, what was expected and what was received.
#pragma once

#include <stdexcept>
#include <string>

#include "pleiad/api.h"

namespace pleiad {

/// The values are also the codes of the C API (pleiad.h).
enum class ErrorKind : int {
  invalid_argument = 1,  ///< the caller's mistake
  state = 2,             ///< impossible now, such as before init, after shutdown or in a forked child
  order = 3,             ///< ranks called a synchronous table or a collective differently
  transport = 4,         ///< a peer died or cannot be reached
  timeout = 5,           ///< a deadline passed; the message names the rank that the call waited for
  memory = 6,            ///< memory could not be allocated
  interrupted = 7,       ///< the interrupt function ended the wait
  internal = 8,          ///< a defect in Pleiad
  file = 9,              ///< a file is missing, damaged or cannot be written; the message names it
  rule = 10,             ///< a user's update rule threw; the message contains that of the rule
};

/// The base class of Pleiad's exceptions. Derived classes below have the meaning of their kind.
class PLEIAD_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

// Each kind has its own class, so that a caller can catch it by type.
class PLEIAD_API InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message) : Error(ErrorKind::invalid_argument, message) {}
};
class PLEIAD_API StateError : public Error {
 public:
  explicit StateError(const std::string& message) : Error(ErrorKind::state, message) {}
};
class PLEIAD_API OrderError : public Error {
 public:
  explicit OrderError(const std::string& message) : Error(ErrorKind::order, message) {}
};
class PLEIAD_API TransportError : public Error {
 public:
  explicit TransportError(const std::string& message) : Error(ErrorKind::transport, message) {}
};
class PLEIAD_API TimeoutError : public Error {
 public:
  explicit TimeoutError(const std::string& message) : Error(ErrorKind::timeout, message) {}
};
class PLEIAD_API MemoryError : public Error {
 public:
  explicit MemoryError(const std::string& message) : Error(ErrorKind::memory, message) {}
};
class PLEIAD_API Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(ErrorKind::interrupted, message) {}
};
class PLEIAD_API InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ErrorKind::internal, message) {}
};
class PLEIAD_API FileError : public Error {
 public:
  explicit FileError(const std::string& message) : Error(ErrorKind::file, message) {}
};
class PLEIAD_API RuleError : public Error {
 public:
  explicit RuleError(const std::string& message) : Error(ErrorKind::rule, message) {}
};

}  // namespace pleiad
