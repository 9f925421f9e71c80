// Waiting in calls from Python.
#pragma once

#include <functional>
#include <utility>

#include <nanobind/nanobind.h>

#include "pleiad/error.h"

namespace pleiad::python {

/// Runs `body` without the GIL. If a signal handler raised meanwhile (Ctrl-C: KeyboardInterrupt), that exception
/// replaces the Interrupted that `body` throws.
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

/// Returns a function for Session::set_interrupt that runs Python's signal handlers if called on the main thread, and
/// returns true if one raised.
[[nodiscard]] std::function<bool()> signal_check();

}  // namespace pleiad::python
