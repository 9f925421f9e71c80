// Python bindings of stacks of nets that are trained one after the other. The loop over them is in Python.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "core/option_field.h"
#include "nn/tensors.h"
#include "pleiad/error.h"
#include "pleiad/sparse_stack.h"
#include "pleiad/stack.h"

namespace pleiad::python {

namespace nb = nanobind;

void bind_stacks(nb::module_& m) {
  using R = RbmStack;
  nb::class_<R>(m, "RbmStack")
      .def(
          "__init__",
          [](R* self, const std::string& name, std::int64_t visible, const std::vector<std::int64_t>& hidden,
             const std::string& visible_units, const std::string& code_units, std::int64_t k, std::int64_t chains,
             double std, bool tied, const std::string& loss, const std::string& dtype, std::uint64_t seed) {
            StackOptions options;
            options.name = name;
            options.visible = visible;
            options.hidden = hidden;
            options.visible_units = visible_units;
            options.code_units = code_units;
            options.tied = tied;
            options.loss = loss;
            options.dtype = dtype_named(dtype);
            options.seed = seed;
            options.rbm.k = k;
            options.rbm.chains = chains;
            options.rbm.weight_param.init = {.type = "gaussian", .std = std};
            new (self) R(std::move(options));
          },
          nb::arg("name"), nb::arg("visible"), nb::arg("hidden"), nb::arg("visible_units"), nb::arg("code_units"),
          nb::arg("k"), nb::arg("chains"), nb::arg("std"), nb::arg("tied"), nb::arg("loss"), nb::arg("dtype"),
          nb::arg("seed"))
      .def("size", &R::size)
      .def("stage", &R::stage, nb::arg("index"))
      .def("take", &R::take, nb::arg("index"), nb::arg("net"))
      .def("unrolled", &R::unrolled);

  using S = SparseStack;
  using Stage = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  nb::class_<S>(m, "SparseStack")
      .def(
          "__init__",
          [](S* self, const std::string& name, const std::vector<std::int64_t>& image, const std::vector<Stage>& stages,
             double sparsity, bool tied, std::int64_t classes, const std::string& dtype, std::uint64_t seed) {
            if (image.size() != 3) {
              throw InvalidArgument(
                  fmt::format("image: expected (height, width, channels); received {} numbers", image.size()));
            }
            SparseStackOptions options;
            options.name = name;
            options.image = Shape{image[0], image[1], image[2]};
            options.sparsity = sparsity;
            options.tied = tied;
            options.classes = classes;
            options.dtype = dtype_named(dtype);
            options.seed = seed;
            for (const auto& [filter, maps, stride, pool, pool_stride, contrast] : stages) {
              options.stages.push_back({filter, maps, stride, pool, pool_stride, contrast});
            }
            new (self) S(std::move(options));
          },
          nb::arg("name"), nb::arg("image"), nb::arg("stages"), nb::arg("sparsity"), nb::arg("tied"),
          nb::arg("classes"), nb::arg("dtype"), nb::arg("seed"))
      .def("size", &S::size)
      .def("stage", &S::stage, nb::arg("index"))
      .def("take", &S::take, nb::arg("index"), nb::arg("net"))
      .def("classifier", &S::classifier);
}

}  // namespace pleiad::python
