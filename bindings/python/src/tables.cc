// Tables and what was started on them.
#include <chrono>
#include <optional>
#include <span>
#include <thread>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "session.h"
#include "waiting.h"

namespace pleiad::python {

namespace {

using Rate = std::optional<double>;

// A get or add under way, and the array that a get fills.
class Started {
 public:
  Started(std::optional<Borrowed> out, Pending pending) : out_(std::move(out)), pending_(std::move(pending)) {}

  [[nodiscard]] bool done() const { return pending_.done(); }

  void wait() {
    waiting([&] { pending_.wait(); });
  }

  // False where it is not done after `seconds`.
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
  Pending pending_;  // dropped before the array is: it leaves the array alone from then on
};

AddOptions add_options(Rate learning_rate, Rate momentum, Rate rho, Rate lambda) {
  return {.learning_rate = learning_rate, .momentum = momentum, .rho = rho, .lambda = lambda};
}

std::span<const RowId> ids_of(const Borrowed& ids, std::string_view where) {
  if (ids.view().dtype != DType::int64)
    throw InvalidArgument(std::string("[") + std::string(where) + "] expected row ids of int64");
  return {static_cast<const RowId*>(ids.view().data), static_cast<std::size_t>(ids.view().count)};
}

nb::dict stats_of(const TableHandle& table) {
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
            waiting([&] { t.set(from ? from->view() : View(), root); });
          },
          nb::arg("values").none(), nb::arg("root"))
      .def("tick", [](const T& t) { waiting([&] { t.tick(); }); })
      .def("rounds", [](const T& t) { return t.rounds(); })
      .def("shard", [](const T& t, int server) { return t.shard(server); }, nb::arg("server"));
}

// What a matrix takes part of: all of it, or the rows that `rows` names.
struct Rows {
  Rows(const MatrixTable& table, nb::handle rows, std::string_view where) : cols(table.cols()), count(table.rows()) {
    if (rows.is_none()) return;
    ids.emplace(rows, Access::read, where);
    count = static_cast<std::int64_t>(span(where).size());
  }
  [[nodiscard]] std::span<const RowId> span(std::string_view where) const { return ids_of(*ids, where); }

  std::int64_t cols;
  std::int64_t count;
  std::optional<Borrowed> ids;
};

// Parts of a delta: where each begins, and its array.
using Part = std::pair<std::int64_t, nb::object>;
struct Borrowings {
  Borrowings(const std::vector<Part>& given, std::string_view where) {
    arrays.reserve(given.size());
    for (const auto& [at, array] : given) {
      arrays.emplace_back(array, Access::read, where);
      parts.push_back({.at = at, .delta = arrays.back().view()});
    }
  }
  std::vector<Borrowed> arrays;
  std::vector<ArrayPart> parts;
};

constexpr const char* kGet = "MatrixTable.get";
constexpr const char* kAdd = "MatrixTable.add";

void bind_array(nb::module_& m) {
  table_class<ArrayTable>(m, "ArrayTable")
      .def_prop_ro("size", &ArrayTable::size)
      .def(
          "get",
          [](const ArrayTable& t, nb::handle out) {
            const Borrowed to(out, Access::write, "ArrayTable.get");
            waiting([&] { t.get(to.view()); });
          },
          nb::arg("out").none())
      .def(
          "add",
          [](const ArrayTable& t, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowed from(delta, Access::read, "ArrayTable.add");
            waiting([&] { t.add(from.view(), add_options(rate, momentum, rho, lambda)); });
          },
          nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(), nb::arg("momentum") = nb::none(),
          nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "add_get",
          [](const ArrayTable& t, nb::handle delta, nb::handle out, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowed from(delta, Access::read, "ArrayTable.add_get");
            const Borrowed to(out, Access::write, "ArrayTable.add_get");
            waiting([&] { t.add_get(from.view(), to.view(), add_options(rate, momentum, rho, lambda)); });
          },
          nb::arg("delta"), nb::arg("out"), nb::arg("learning_rate") = nb::none(), nb::arg("momentum") = nb::none(),
          nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "exchange",
          [](const ArrayTable& t, nb::handle values, nb::handle last) {
            const Borrowed mine(values, Access::write, "ArrayTable.exchange");
            const Borrowed before(last, Access::write, "ArrayTable.exchange");
            waiting([&] { t.exchange(mine.view(), before.view()); });
          },
          nb::arg("values"), nb::arg("last"))
      .def(
          "add_parts",
          [](const ArrayTable& t, const std::vector<Part>& parts, nb::handle out, Rate rate, Rate momentum, Rate rho,
             Rate lambda) {
            const Borrowings delta(parts, "ArrayTable.add_parts");
            std::optional<Borrowed> to;
            if (!out.is_none()) to.emplace(out, Access::write, "ArrayTable.add_parts");
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting([&] { t.add_parts(delta.parts, to ? to->view() : View(), options); });
          },
          nb::arg("parts"), nb::arg("out") = nb::none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "step",
          [](const ArrayTable& t, const std::vector<Part>& parts, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowings delta(parts, "ArrayTable.step");
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting([&] { t.step(delta.parts, options); });
          },
          nb::arg("parts"), nb::arg("learning_rate") = nb::none(), nb::arg("momentum") = nb::none(),
          nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "map",
          [](nb::handle self) {  // the array keeps the handle, and that the memory
            const View numbers = nb::cast<const ArrayTable&>(self).map();
            const auto bits = static_cast<std::uint8_t>(size_of(numbers.dtype) * 8);
            const auto kind = is_integer(numbers.dtype) ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::Float;
            const auto count = static_cast<std::size_t>(numbers.count);
            return nb::ndarray<nb::numpy>(numbers.data, {count}, self, {}, {static_cast<std::uint8_t>(kind), bits, 1});
          },
          nb::sig("def map(self) -> typing.Any"))
      .def(
          "get_async",
          [](const ArrayTable& t, nb::handle out) {
            Borrowed to(out, Access::write, "ArrayTable.get_async");
            Pending pending = waiting([&] { return t.get_async(to.view()); });
            return new Started(std::move(to), std::move(pending));
          },
          nb::arg("out").none())
      .def(
          "add_async",
          [](const ArrayTable& t, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowed from(delta, Access::read, "ArrayTable.add_async");
            return new Started(std::nullopt, waiting([&] {
                                 return t.add_async(from.view(), add_options(rate, momentum, rho, lambda));
                               }));
          },
          nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(), nb::arg("momentum") = nb::none(),
          nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none());
}

void bind_matrix(nb::module_& m) {
  table_class<MatrixTable>(m, "MatrixTable")
      .def_prop_ro("rows", &MatrixTable::rows)
      .def_prop_ro("cols", &MatrixTable::cols)
      .def(
          "get",
          [](const MatrixTable& t, nb::handle rows, nb::handle out) {
            const Rows part(t, rows, kGet);
            const Borrowed to(out, Access::write, kGet);
            to.expect_rows(part.count, part.cols, kGet);
            waiting([&] { part.ids ? t.get_rows(part.span(kGet), to.view()) : t.get(to.view()); });
          },
          nb::arg("rows").none(), nb::arg("out").none())
      .def(
          "add",
          [](const MatrixTable& t, nb::handle rows, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Rows part(t, rows, kAdd);
            const Borrowed from(delta, Access::read, kAdd);
            from.expect_rows(part.count, part.cols, kAdd);
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting(
                [&] { part.ids ? t.add_rows(part.span(kAdd), from.view(), options) : t.add(from.view(), options); });
          },
          nb::arg("rows").none(), nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "get_async",
          [](const MatrixTable& t, nb::handle rows, nb::handle out) {
            const Rows part(t, rows, kGet);
            Borrowed to(out, Access::write, kGet);
            to.expect_rows(part.count, part.cols, kGet);
            Pending pending = waiting(
                [&] { return part.ids ? t.get_rows_async(part.span(kGet), to.view()) : t.get_async(to.view()); });
            return new Started(std::move(to), std::move(pending));
          },
          nb::arg("rows").none(), nb::arg("out").none())
      .def(
          "add_async",
          [](const MatrixTable& t, nb::handle rows, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Rows part(t, rows, kAdd);
            const Borrowed from(delta, Access::read, kAdd);
            from.expect_rows(part.count, part.cols, kAdd);
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            return new Started(std::nullopt, waiting([&] {
                                 return part.ids ? t.add_rows_async(part.span(kAdd), from.view(), options)
                                                 : t.add_async(from.view(), options);
                               }));
          },
          nb::arg("rows").none(), nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none());
}

}  // namespace

void bind_tables(nb::module_& m) {
  nb::class_<Started>(m, "Pending", "A get or add that was started; it holds the array that a get fills.")
      .def("done", &Started::done)
      .def("wait", &Started::wait)
      .def("wait_for", &Started::wait_for, nb::arg("seconds"));
  bind_array(m);
  bind_matrix(m);
}

}  // namespace pleiad::python
