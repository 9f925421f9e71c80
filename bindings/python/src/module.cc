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

// The classes are Python's: each is one of ours and one that Python's users catch.
void translate(const std::exception_ptr& problem, void* /*unused*/) {
  try {
    std::rethrow_exception(problem);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("pleiad.errors").attr(class_of(error.kind()));
    // A message may quote a file's bytes, which need be no UTF-8.
    const nb::object words =
        nb::steal(PyUnicode_DecodeUTF8(error.what(), std::ssize(std::string_view(error.what())), "replace"));
    PyErr_SetObject(type.ptr(), words.ptr());
  }
}

}  // namespace

}  // namespace pleiad::python

NB_MODULE(_core, m) {
  m.doc() = "Pleiad's C++ API; the package pleiad is built on it.";
  m.def("version", [] { return pleiad_version(); });
  nb::register_exception_translator(pleiad::python::translate);
  // What lives at exit is the session's and its arrays; neither is a leak.
  nb::set_leak_warnings(false);
  pleiad::python::bind_memory(m);
  pleiad::python::bind_arrays(m);
  pleiad::python::bind_tables(m);
  pleiad::python::bind_rules(m);
  pleiad::python::bind_session(m);
  pleiad::python::bind_exit_status(m);
  pleiad::python::bind_options(m);
  pleiad::python::bind_spatial(m);
}
