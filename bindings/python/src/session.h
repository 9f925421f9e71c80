// pleiad._core: the C++ API for the Python package to build on.
#pragma once

#include <nanobind/nanobind.h>

namespace pleiad::python {

void bind_session(nanobind::module_& m);
void bind_tables(nanobind::module_& m);
void bind_options(nanobind::module_& m);

}  // namespace pleiad::python
