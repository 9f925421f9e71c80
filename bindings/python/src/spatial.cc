// Python bindings of images that are split into tiles over a grid of ranks.
#include "pleiad/spatial.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <cstring>

#include "arrays.h"
#include "core/option_field.h"
#include "session.h"
#include "waiting.h"

namespace pleiad::python {

namespace {

using Window = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Places = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

SlidingWindow window_of(const Window& w) {
  return {.size = std::get<0>(w),
          .stride = std::get<1>(w),
          .pad_begin = std::get<2>(w),
          .pad_end = std::get<3>(w),
          .dilation = std::get<4>(w)};
}
Places places_of(const Rect& rect) { return {rect.h.begin, rect.h.end, rect.w.begin, rect.w.end}; }

/// Keeps its session alive, because exchanges need the engine.
class GlobalArrayHandle {
 public:
  GlobalArrayHandle(const SessionHandle& session, const GlobalArrayOptions& options) : session_(session.share()) {
    waiting([&] { array_ = std::make_unique<GlobalArray>(*session_, options); });
  }
  [[nodiscard]] GlobalArray& array() const { return *array_; }

 private:
  std::shared_ptr<Session> session_;
  std::unique_ptr<GlobalArray> array_;
};

void copy_out(const View& from, const Borrowed& to, const char* where) {
  if (from.count != to.view().count || from.dtype != to.view().dtype) {
    throw InvalidArgument(fmt::format("[{}] expected a writable array of {} {} elements; received {} of {}", where,
                                      from.count, name_of(from.dtype), to.view().count, name_of(to.view().dtype)));
  }
  std::memcpy(to.view().data, from.data, static_cast<std::size_t>(from.count) * size_of(from.dtype));
}

}  // namespace

void bind_spatial(nb::module_& m) {
  using H = GlobalArrayHandle;
  m.def(
      "part_of",
      [](std::int64_t length, std::int64_t parts, std::int64_t index) {
        const Interval part = part_of(length, parts, index);
        return std::pair(part.begin, part.end);
      },
      nb::arg("length"), nb::arg("parts"), nb::arg("index"),
      nb::sig("def part_of(length: int, parts: int, index: int) -> tuple[int, int]"));
  m.def(
      "grid",
      [](const std::string& text, int ranks) {
        const Grid grid = grid_named(text, ranks);
        return std::tuple(grid.rows, grid.cols, grid.groups);
      },
      nb::arg("text"), nb::arg("ranks"));
  nb::class_<H>(m, "GlobalArray")
      .def(
          "__init__",
          [](H* self, const SessionHandle& session, const std::string& name, const Places& shape,
             const std::string& dtype, const std::tuple<int, int, int>& grid, const Window& window_h,
             const Window& window_w, bool pad) {
            GlobalArrayOptions options{.name = name, .dtype = dtype_named(dtype)};
            std::tie(options.batch, options.height, options.width, options.channels) = shape;
            options.grid = {std::get<0>(grid), std::get<1>(grid), std::get<2>(grid)};
            options.window_h = window_of(window_h);
            options.window_w = window_of(window_w);
            options.pad = pad;
            new (self) H(session, options);
          },
          nb::arg("session"), nb::arg("name"), nb::arg("shape"), nb::arg("dtype"), nb::arg("grid"), nb::arg("window_h"),
          nb::arg("window_w"), nb::arg("pad"))
      .def(
          "fprop",
          [](const H& h, nb::handle local, nb::handle view) {
            const Borrowed in(local, Access::read, "get_fprop_view");
            const Borrowed out(view, Access::write, "get_fprop_view");
            copy_out(waiting([&] { return h.array().get_fprop_view(in.view()); }), out, "get_fprop_view");
          },
          nb::arg("local"), nb::arg("view"), nb::sig("def fprop(self, local: object, view: object) -> None"))
      .def(
          "bprop",
          [](const H& h, nb::handle error, nb::handle local) {
            const Borrowed in(error, Access::read, "get_bprop_view");
            const Borrowed out(local, Access::write, "get_bprop_view");
            copy_out(waiting([&] { return h.array().get_bprop_view(in.view()); }), out, "get_bprop_view");
          },
          nb::arg("error"), nb::arg("local"), nb::sig("def bprop(self, error: object, local: object) -> None"))
      .def(
          "gather",
          [](const H& h, nb::handle local, nb::handle whole) {
            const Borrowed in(local, Access::read, "gather");
            const Borrowed out(whole, Access::write, "gather");
            waiting([&] { h.array().gather(in.view(), out.view()); });
          },
          nb::arg("local"), nb::arg("whole"), nb::sig("def gather(self, local: object, whole: object) -> None"))
      .def_prop_ro("local_shape", [](const H& h) { return h.array().local_shape(); })
      .def_prop_ro("view_shape", [](const H& h) { return h.array().view_shape(); })
      .def_prop_ro("output_shape", [](const H& h) { return h.array().output_shape(); })
      .def_prop_ro("tile", [](const H& h) { return places_of(h.array().tile()); })
      .def_prop_ro("view", [](const H& h) { return places_of(h.array().view()); })
      .def_prop_ro("output", [](const H& h) { return places_of(h.array().output()); })
      .def_prop_ro("sent_bytes", [](const H& h) { return h.array().sent_bytes(); });
}

}  // namespace pleiad::python
