// The boundary between C and C++: turns exceptions into codes and checks arguments before use.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "capi/last_error.h"
#include "pleiad/error.h"
#include "pleiad/pleiad.h"
#include "pleiad/view.h"

namespace pleiad {

/// Marks this thread as inside a call from C during its lifetime. The interrupt callback runs on such threads only.
class CCall {
 public:
  CCall() { ++depth; }
  ~CCall() { --depth; }
  CCall(const CCall&) = delete;
  CCall& operator=(const CCall&) = delete;
  [[nodiscard]] static bool here() { return depth > 0; }

 private:
  static inline thread_local int depth = 0;
};

/// Runs `body`. An exception becomes the thread's last error, and its code is returned.
template <class F>
int guarded(F&& body) noexcept {
  const CCall call;
  try {
    body();
    return PLEIAD_OK;
  } catch (const Error& error) {
    return set_last_error(static_cast<int>(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return set_last_error(PLEIAD_MEMORY, "no memory");
  } catch (const std::exception& error) {
    return set_last_error(PLEIAD_INTERNAL, error.what());
  } catch (...) {
    return set_last_error(PLEIAD_INTERNAL, "an exception of an unknown type");
  }
}

template <class T>
T& need(T* pointer, std::string_view where, std::string_view what) {
  if (pointer == nullptr) throw InvalidArgument(fmt::format("[{}] {} is null", where, what));
  return *pointer;
}

inline DType checked_dtype(int dtype, std::string_view where) {
  if (dtype < PLEIAD_FLOAT32 || dtype > PLEIAD_INT64) {
    throw InvalidArgument(
        fmt::format("[{}] {} is no dtype; known: 0 (float32), 1 (float64), 2 (int32), 3 (int64)", where, dtype));
  }
  return static_cast<DType>(dtype);
}

/// Checks `count` elements at `data`, which may be null if `count` is 0.
inline View checked_view(const void* data, std::int64_t count, int dtype, std::string_view where,
                         std::string_view what) {
  if (count < 0) throw InvalidArgument(fmt::format("[{}] expected 0 or more elements; received {}", where, count));
  if (count > 0) (void)need(static_cast<const char*>(data), where, what);
  return {const_cast<void*>(data), count, checked_dtype(dtype, where)};
}

}  // namespace pleiad
