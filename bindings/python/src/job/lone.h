// A layer by itself, for scripts that call layers one by one.
#pragma once

#include <nanobind/nanobind.h>

namespace pleiad::python {

void bind_lone_layers(nanobind::module_& m);

}  // namespace pleiad::python
