#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;

std::function<bool()> signal_check() {
  const nb::object main = nb::module_::import_("threading").attr("main_thread")().attr("ident");
  return [ident = nb::cast<unsigned long>(main)] {
    if (PyThread_get_thread_ident() != ident) return false;  // Python runs signal handlers only on the main thread
    const nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
  };
}

}  // namespace pleiad::python
