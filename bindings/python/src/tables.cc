// Python bindings of tables and their pending operations.
#include <optional>
#include <span>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "session.h"
#include "table_class.h"

namespace pleiad::python {

namespace {

// The rows of a matrix that a call uses: all of them, or those in `rows`.
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

// Parts of a delta: the offset and the array of each.
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

std::vector<ElementRange> ranges(const std::vector<std::pair<std::int64_t, std::int64_t>>& given) {
  std::vector<ElementRange> made;
  for (const auto& [begin, end] : given) made.push_back({begin, end});
  return made;
}

constexpr const char* kGet = "MatrixTable.get";
constexpr const char* kAdd = "MatrixTable.add";
constexpr const char* kSparse = "SparseTable";  // and KeyValueTable

// Returns ids and values as arrays with a common owner.
nb::tuple changed_rows(ChangedRows changed) {
  auto* kept = new ChangedRows(std::move(changed));
  const nb::capsule owner(kept, [](void* rows) noexcept { delete static_cast<ChangedRows*>(rows); });
  const ConstView numbers = kept->values();
  const auto array = [&](const void* data, std::size_t count, DType type) {
    const auto bits = static_cast<std::uint8_t>(size_of(type) * 8);
    const auto kind = is_integer(type) ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::Float;
    static char nothing = 0;  // address for empty vectors, which have no memory
    return nb::ndarray<nb::numpy>(count == 0 ? &nothing : const_cast<void*>(data), {count}, owner, {},
                                  {static_cast<std::uint8_t>(kind), bits, 1});
  };
  return nb::make_tuple(array(kept->ids.data(), kept->ids.size(), DType::int64),
                        array(numbers.data, static_cast<std::size_t>(numbers.count), numbers.dtype));
}

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
             Rate lambda, const std::vector<std::pair<std::int64_t, std::int64_t>>& kept) {
            const Borrowings delta(parts, "ArrayTable.add_parts");
            std::optional<Borrowed> to;
            if (!out.is_none()) to.emplace(out, Access::write, "ArrayTable.add_parts");
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting([&] { t.add_parts(delta.parts, to ? to->view() : View(), options, ranges(kept)); });
          },
          nb::arg("parts"), nb::arg("out") = nb::none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none(),
          nb::arg("kept") = nb::list())
      .def(
          "step",
          [](const ArrayTable& t, const std::vector<Part>& parts, Rate rate, Rate momentum, Rate rho, Rate lambda,
             const std::vector<std::pair<std::int64_t, std::int64_t>>& kept) {
            const Borrowings delta(parts, "ArrayTable.step");
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting([&] { t.step(delta.parts, options, ranges(kept)); });
          },
          nb::arg("parts"), nb::arg("learning_rate") = nb::none(), nb::arg("momentum") = nb::none(),
          nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none(), nb::arg("kept") = nb::list())
      .def(
          "map",
          [](const ArrayTable& t) {
            const View numbers = t.map();
            auto* const memory = new std::shared_ptr<void>(t.mapped_memory());  // outlives close() and the handle
            const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
            const auto bits = static_cast<std::uint8_t>(size_of(numbers.dtype) * 8);
            const auto kind = is_integer(numbers.dtype) ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::Float;
            const auto count = static_cast<std::size_t>(numbers.count);
            return nb::ndarray<nb::numpy>(numbers.data, {count}, owner, {}, {static_cast<std::uint8_t>(kind), bits, 1});
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
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "get_changed", [](const MatrixTable& t) { return changed_rows(waiting([&] { return t.get_changed(); })); },
          nb::sig("def get_changed(self) -> tuple[typing.Any, typing.Any]"));
}

std::int64_t count_of(const Borrowed& ids) { return ids.view().count; }
std::int64_t cols_of(const SparseTable& table) { return table.cols(); }
std::int64_t cols_of(const KeyValueTable& table) { return table.width(); }

// The common methods of sparse and key-value tables, which differ only in the name of their rows.
template <class T>
nb::class_<T> sparse_class(nb::module_& m, const char* name) {
  return table_class<T>(m, name)
      .def(
          "get",
          [](const T& t, nb::handle ids, nb::handle out) {
            const Borrowed rows(ids, Access::read, kSparse);
            const Borrowed to(out, Access::write, kSparse);
            to.expect_rows(count_of(rows), cols_of(t), kSparse);
            waiting([&] { t.get(ids_of(rows, kSparse), to.view()); });
          },
          nb::arg("ids"), nb::arg("out").none())
      .def(
          "add",
          [](const T& t, nb::handle ids, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowed rows(ids, Access::read, kSparse);
            const Borrowed from(delta, Access::read, kSparse);
            from.expect_rows(count_of(rows), cols_of(t), kSparse);
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            waiting([&] { t.add(ids_of(rows, kSparse), from.view(), options); });
          },
          nb::arg("ids"), nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "get_async",
          [](const T& t, nb::handle ids, nb::handle out) {
            const Borrowed rows(ids, Access::read, kSparse);
            Borrowed to(out, Access::write, kSparse);
            to.expect_rows(count_of(rows), cols_of(t), kSparse);
            Pending pending = waiting([&] { return t.get_async(ids_of(rows, kSparse), to.view()); });
            return new Started(std::move(to), std::move(pending));
          },
          nb::arg("ids"), nb::arg("out").none())
      .def(
          "add_async",
          [](const T& t, nb::handle ids, nb::handle delta, Rate rate, Rate momentum, Rate rho, Rate lambda) {
            const Borrowed rows(ids, Access::read, kSparse);
            const Borrowed from(delta, Access::read, kSparse);
            from.expect_rows(count_of(rows), cols_of(t), kSparse);
            const AddOptions options = add_options(rate, momentum, rho, lambda);
            return new Started(std::nullopt,
                               waiting([&] { return t.add_async(ids_of(rows, kSparse), from.view(), options); }));
          },
          nb::arg("ids"), nb::arg("delta").none(), nb::arg("learning_rate") = nb::none(),
          nb::arg("momentum") = nb::none(), nb::arg("rho") = nb::none(), nb::arg("lambda_") = nb::none())
      .def(
          "get_changed", [](const T& t) { return changed_rows(waiting([&] { return t.get_changed(); })); },
          nb::sig("def get_changed(self) -> tuple[typing.Any, typing.Any]"))
      .def(
          "get_all", [](const T& t) { return changed_rows(waiting([&] { return t.get_all(); })); },
          nb::sig("def get_all(self) -> tuple[typing.Any, typing.Any]"))
      .def("evict", [](const T& t) { return waiting([&] { return t.evict(); }); });
}

void bind_sparse(nb::module_& m) {
  sparse_class<SparseTable>(m, "SparseTable")
      .def(
          "set_rows",
          [](const SparseTable& t, nb::handle ids, nb::handle values, int root) {
            const Borrowed rows(ids, Access::read, kSparse);
            std::optional<Borrowed> from;
            if (!values.is_none()) from.emplace(values, Access::read, kSparse);
            waiting([&] { t.set(ids_of(rows, kSparse), from ? from->view() : View(), root); });
          },
          nb::arg("ids"), nb::arg("values").none(), nb::arg("root"))
      .def_prop_ro("cols", &SparseTable::cols)
      .def("rows", [](const SparseTable& t) { return waiting([&] { return t.rows(); }); });
  sparse_class<KeyValueTable>(m, "KeyValueTable")
      .def_prop_ro("cols", &KeyValueTable::width)
      .def("rows", [](const KeyValueTable& t) { return waiting([&] { return t.size(); }); });
}

}  // namespace

void bind_tables(nb::module_& m) {
  nb::class_<Started>(m, "Pending", "A pending get or add. It keeps the array that a get fills alive.")
      .def("done", &Started::done)
      .def("wait", &Started::wait)
      .def("wait_for", &Started::wait_for, nb::arg("seconds"));
  bind_array(m);
  bind_matrix(m);
  bind_sparse(m);
}

}  // namespace pleiad::python
