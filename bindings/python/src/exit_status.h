// The status with which an uncaught SystemExit ends the interpreter.
#pragma once

#include <nanobind/nanobind.h>

namespace pleiad::python {

void bind_exit_status(nanobind::module_& m);

}  // namespace pleiad::python
