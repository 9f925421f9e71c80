#include "core/problem.h"

#include <exception>
#include <new>

namespace pleiad {

Problem Problem::current() {
  try {
    throw;
  } catch (const Error& error) {
    return {.kind = error.kind(), .text = error.what()};
  } catch (const std::bad_alloc& error) {
    return {.kind = ErrorKind::memory, .text = error.what()};
  } catch (const std::exception& error) {
    return {.kind = ErrorKind::internal, .text = error.what()};
  }
}

void Problem::raise() const {
  switch (kind) {
    case ErrorKind::invalid_argument: throw InvalidArgument(text);
    case ErrorKind::state: throw StateError(text);
    case ErrorKind::order: throw OrderError(text);
    case ErrorKind::transport: throw TransportError(text);
    case ErrorKind::timeout: throw TimeoutError(text);
    case ErrorKind::memory: throw MemoryError(text);
    case ErrorKind::interrupted: throw Interrupted(text);
    case ErrorKind::file: throw FileError(text);
    case ErrorKind::rule: throw RuleError(text);
    case ErrorKind::internal: break;
  }
  throw InternalError(text);
}

}  // namespace pleiad
