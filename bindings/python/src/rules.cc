// Update rules written in Python.
#include <stdexcept>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "pleiad/rule.h"
#include "session.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

// A view of a table's values, valid while the rule runs.
template <class T, class... Config>
nb::object view(T* data, std::size_t count) {
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>, Config...>(data, {count}, nb::handle()),
                  nb::rv_policy::reference);
}

struct PythonRule {
  PyObject* function;  // never released: server threads may call it until the process ends
  PyObject* rates;     // the class pleiad.Rates
  RuleLayout layout;

  template <class T>
  void operator()(const RuleUpdate<T>& u) const {
    if (!nb::is_alive()) throw std::runtime_error("the Python interpreter has ended");
    const nb::gil_scoped_acquire acquire;
    try {
      run(u);
    } catch (nb::python_error& error) {  // its message is a Python object, so it is read while the GIL is held
      throw std::runtime_error(error.what());
    }
  }

  template <class T>
  void run(const RuleUpdate<T>& u) const {
    std::vector<nb::object> views;
    views.push_back(view<T>(u.value.data(), u.value.size()));
    views.push_back(view<const T>(u.delta.data(), u.delta.size()));
    nb::list list;
    for (int k = 0; k < layout.arrays + layout.worker_arrays; ++k) {
      const auto& array = u.state[static_cast<std::size_t>(k)];
      views.push_back(view<T>(array.data(), array.size()));
      list.append(views.back());
    }
    views.push_back(layout.numbers > 0 ? view<double>(u.numbers.data(), u.numbers.size()) : nb::none());
    nb::object state = nb::tuple(list);
    list.clear();
    const nb::object now = nb::handle(rates)(u.learning_rate, u.momentum, u.rho, u.lambda);
    const nb::object result = nb::handle(function)(views[0], views[1], state, views.back(), now);
    if (!result.is_none()) {
      throw std::runtime_error(
          "returned a value; a rule must change `value` in place (value[:] = ...) and return None");
    }
    // The memory belongs to the table, so no reference may remain when its lock is released.
    state.reset();
    for (const nb::object& one : views) {
      if (one.is_none() || Py_REFCNT(one.ptr()) == 1) continue;
      throw std::runtime_error("kept a reference to one of its arrays; copy the values to keep them");
    }
  }
};

}  // namespace

void bind_rules(nb::module_& m) {
  m.def(
      "register_rule",
      [](const std::string& name, nb::callable function, nb::object rates, int arrays, int worker_arrays, int numbers,
         bool additive) {
        const RuleLayout layout{
            .arrays = arrays, .worker_arrays = worker_arrays, .numbers = numbers, .additive = additive};
        PythonRule rule{.function = function.ptr(), .rates = rates.ptr(), .layout = layout};
        register_rule(name, layout, rule);
        function.inc_ref();
        rates.inc_ref();
      },
      nb::arg("name"), nb::arg("function"), nb::arg("rates"), nb::arg("arrays"), nb::arg("worker_arrays"),
      nb::arg("numbers"), nb::arg("additive"),
      nb::sig("def register_rule(name: str, function: collections.abc.Callable[..., None], rates: object, arrays: int, "
              "worker_arrays: int, numbers: int, additive: bool) -> None"));
}

}  // namespace pleiad::python
