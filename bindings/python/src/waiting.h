// How calls from Python wait.
#pragma once

#include <functional>
#include <utility>

#include <nanobind/nanobind.h>

#include "pleiad/error.h"

namespace pleiad::python {

/// Runs `body` without the GIL. A signal handler that raised meanwhile (Ctrl-C: KeyboardInterrupt) has the last word.
template <class F>
auto waiting(F&& body) {
  try {
    const nanobind::gil_scoped_release release;
    return std::forward<F>(body)();
  } catch (const Interrupted&) {
    if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
    throw;
  }
}

/// For Session::set_interrupt: runs Python's signal handlers where the main thread waits; true where one raised.
[[nodiscard]] std::function<bool()> signal_check();

}  // namespace pleiad::python
