// The common part of the table classes: asynchronous calls, and the methods of every table.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <thread>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "waiting.h"

namespace pleiad::python {

using Rate = std::optional<double>;

// A pending get or add, and the array that a get fills.
class Started {
 public:
  Started(std::optional<Borrowed> out, Pending pending) : out_(std::move(out)), pending_(std::move(pending)) {}

  [[nodiscard]] bool done() const { return pending_.done(); }

  void wait() {
    waiting([&] { pending_.wait(); });
  }

  // Returns false if the call is not done after `seconds`.
  bool wait_for(double seconds) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::microseconds;
    const auto start = Clock::now();
    auto pause = microseconds(20);
    while (!pending_.done()) {
      if (std::chrono::duration<double>(Clock::now() - start).count() >= seconds) return false;
      {
        const nb::gil_scoped_release release;
        std::this_thread::sleep_for(pause);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      pause = std::min(pause * 2, microseconds(2000));
    }
    wait();
    return true;
  }

 private:
  std::optional<Borrowed> out_;
  Pending pending_;  // destroyed before the array; afterwards nothing writes to the array
};

inline AddOptions add_options(Rate learning_rate, Rate momentum, Rate rho, Rate lambda) {
  return {.learning_rate = learning_rate, .momentum = momentum, .rho = rho, .lambda = lambda};
}

inline std::span<const RowId> ids_of(const Borrowed& ids, std::string_view where) {
  if (ids.view().dtype != DType::int64)
    throw InvalidArgument(std::string("[") + std::string(where) + "] rows: expected row ids of int64");
  return {static_cast<const RowId*>(ids.view().data), static_cast<std::size_t>(ids.view().count)};
}

inline nb::dict stats_of(const TableHandle& table) {
  const TableStats s = table.stats();
  nb::dict out;
  out["adds"] = s.adds;
  out["gets"] = s.gets;
  out["bytes_added"] = s.bytes_added;
  out["bytes_got"] = s.bytes_got;
  out["add_seconds"] = s.add_seconds;
  out["get_seconds"] = s.get_seconds;
  out["wait_seconds"] = s.wait_seconds;
  out["dropped_adds"] = s.dropped_adds;
  out["torn_stripes"] = s.torn_stripes;
  out["combined"] = s.combined;
  return out;
}

template <class T>
nb::class_<T> table_class(nb::module_& m, const char* name) {
  return nb::class_<T>(m, name)
      .def_prop_ro("name", [](const T& t) { return t.name(); })
      .def_prop_ro("dtype", [](const T& t) { return std::string(name_of(t.dtype())); })
      .def_prop_ro("id", [](const T& t) { return t.id(); })
      .def(
          "stats", [](const T& t) { return stats_of(t); }, nb::sig("def stats(self) -> dict[str, int | float]"))
      .def(
          "set",
          [](const T& t, nb::handle values, int root) {
            std::optional<Borrowed> from;
            if (!values.is_none()) from.emplace(values, Access::read, "set");
            waiting([&] { t.TableHandle::set(from ? from->view() : View(), root); });
          },
          nb::arg("values").none(), nb::arg("root"))
      .def("close", [](const T& t) { waiting([&] { t.close(); }); })
      .def_prop_ro("closed", [](const T& t) { return t.closed(); })
      .def("tick", [](const T& t) { waiting([&] { t.tick(); }); })
      .def("rounds", [](const T& t) { return t.rounds(); })
      .def("shard", [](const T& t, int server) { return t.shard(server); }, nb::arg("server"));
}

}  // namespace pleiad::python
