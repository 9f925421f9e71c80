// The extension module pleiad._nn: the training engine. pleiad._core defines the errors and the session.
#include <nanobind/nanobind.h>

#include "nn/tensors.h"

NB_MODULE(_nn, m) {
  m.doc() = "Pleiad's training engine, the foundation of the package pleiad.nn.";
  nanobind::module_::import_("pleiad._core");
  nanobind::set_leak_warnings(false);
  pleiad::python::bind_nets(m);
  pleiad::python::bind_training(m);
  pleiad::python::bind_stacks(m);
  pleiad::python::bind_data(m);
}
