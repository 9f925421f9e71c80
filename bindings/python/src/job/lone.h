// Single layers, for scripts that call them one by one, and layers written in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace pleiad::python {

void bind_lone_layers(nanobind::module_& m);
void bind_own_layers(nanobind::module_& m);

}  // namespace pleiad::python
