// The extension module pleiad._core.
#include <exception>
#include <iterator>
#include <string_view>

#include <nanobind/nanobind.h>

#include "arrays.h"
#include "exit_status.h"
#include "memory.h"
#include "pleiad/pleiad.h"
#include "session.h"
#include "waiting.h"

namespace nb = nanobind;

namespace pleiad::python {

namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "InvalidArgument";
    case ErrorKind::state: return "StateError";
    case ErrorKind::order: return "OrderError";
    case ErrorKind::transport: return "TransportError";
    case ErrorKind::timeout: return "TimeoutError";
    case ErrorKind::memory: return "MemoryError";
    case ErrorKind::interrupted: return "Interrupted";
    case ErrorKind::file: return "FileError";
    case ErrorKind::rule: return "RuleError";
    case ErrorKind::internal: break;
  }
  return "InternalError";
}

// The exception classes are defined in pleiad.errors. Each derives from pleiad.Error and from a built-in class.
void translate(const std::exception_ptr& problem, void* /*unused*/) {
  try {
    std::rethrow_exception(problem);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("pleiad.errors").attr(class_of(error.kind()));
    // A message may quote bytes of a file that are not valid UTF-8.
    const nb::object words =
        nb::steal(PyUnicode_DecodeUTF8(error.what(), std::ssize(std::string_view(error.what())), "replace"));
    PyErr_SetObject(type.ptr(), words.ptr());
  }
}

}  // namespace

}  // namespace pleiad::python

NB_MODULE(_core, m) {
  m.doc() = "Pleiad's C++ API, the foundation of the package pleiad.";
  m.def("version", [] { return pleiad_version(); });
  nb::register_exception_translator(pleiad::python::translate);
  // Objects alive at exit belong to the session or its arrays, so reports of leaks would be wrong.
  nb::set_leak_warnings(false);
  pleiad::python::bind_memory(m);
  pleiad::python::bind_arrays(m);
  pleiad::python::bind_tables(m);
  pleiad::python::bind_rules(m);
  pleiad::python::bind_session(m);
  pleiad::python::bind_exit_status(m);
  pleiad::python::bind_options(m);
  pleiad::python::bind_logs(m);
  pleiad::python::bind_spatial(m);
}
