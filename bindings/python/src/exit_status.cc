#include "exit_status.h"

namespace nb = nanobind;

namespace pleiad::python {

namespace {

PyObject* code_member = nullptr;  // the interpreter's own descriptor of SystemExit.code
bool ends_with_failure = false;

// Whether exit() with this value of SystemExit.code gives a status other than 0.
bool is_failure(PyObject* code) {
  if (code == Py_None) return false;
  if (!PyLong_Check(code)) return true;  // it is printed, and the status is 1
  int overflow = 0;
  return PyLong_AsLongAndOverflow(code, &overflow) != 0 || overflow != 0;
}

PyObject* get_code(PyObject* self, void* /*unused*/) {
  PyObject* code = Py_TYPE(code_member)->tp_descr_get(code_member, self, reinterpret_cast<PyObject*>(Py_TYPE(self)));
  // Without a frame it is the interpreter that reads the code, of an exception that nothing has caught.
  if (code != nullptr && PyEval_GetFrame() == nullptr) ends_with_failure = is_failure(code);
  return code;
}

int set_code(PyObject* self, PyObject* value, void* /*unused*/) {
  return Py_TYPE(code_member)->tp_descr_set(code_member, self, value);
}

PyGetSetDef code_with_watch = {"code", get_code, set_code, "exception code", nullptr};

// The interpreter tells nobody the status of an uncaught SystemExit: excepthook is not called, and atexit's functions
// do not see it. It does read the exception's attribute `code`, so this replaces the attribute's descriptor by one that
// looks on.
void watch_exit_status() {
  if (code_member != nullptr) return;
  auto* type = reinterpret_cast<PyTypeObject*>(PyExc_SystemExit);
#if PY_VERSION_HEX >= 0x030C0000
  const nb::object names = nb::steal(PyType_GetDict(type));
#else
  const nb::object names = nb::borrow(type->tp_dict);
#endif
  const nb::object watched = nb::steal(PyDescr_NewGetSet(type, &code_with_watch));
  if (!watched.is_valid()) nb::raise_python_error();
  code_member = Py_NewRef(PyDict_GetItemString(names.ptr(), "code"));
  if (PyDict_SetItemString(names.ptr(), "code", watched.ptr()) != 0) nb::raise_python_error();
  PyType_Modified(type);
}

}  // namespace

void bind_exit_status(nb::module_& m) {
  m.def("watch_exit_status", watch_exit_status, "From now on `ends_with_failure` knows an uncaught SystemExit.");
  m.def(
      "ends_with_failure", [] { return ends_with_failure; },
      "Whether an uncaught SystemExit ends the process with a status other than 0.");
}

}  // namespace pleiad::python
