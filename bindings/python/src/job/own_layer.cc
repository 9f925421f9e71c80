// Layers written in Python: objects with outputs, forward and backward, which the job calls from C++.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/option_list.h"
#include "job/lone.h"
#include "nn/tensors.h"
#include "pleiad/error.h"
#include "pleiad/job.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

nb::tuple tuple_of(const Shape& shape) {
  nb::list lengths;
  for (const std::int64_t length : shape) lengths.append(length);
  return nb::tuple(lengths);
}

nb::list tuples_of(const nn::Shapes& shapes) {
  nb::list all;
  for (const Shape& shape : shapes) all.append(tuple_of(shape));
  return all;
}

Shape shape_of(nb::handle tuple) {
  const auto lengths = nb::cast<std::vector<std::int64_t>>(tuple);
  if (lengths.size() > Shape::kMaxRank)
    throw InvalidArgument(
        fmt::format("expected a shape of at most {} axes; received {}", Shape::kMaxRank, lengths.size()));
  return Shape(std::span(lengths));
}

/// Runs body with the GIL held, on any thread. Converts Python exceptions to InvalidArgument.
template <class Body>
auto in_python(const char* what, Body&& body) {
  const nb::gil_scoped_acquire lock;
  try {
    return body();
  } catch (const nb::python_error& error) {
    throw InvalidArgument(fmt::format("{}: {}", what, error.what()));
  } catch (const nb::cast_error&) {
    throw InvalidArgument(fmt::format("{} returned a value of an unexpected type", what));
  }
}

class OwnLayer final : public nn::Layer {
 public:
  /// Call it with the GIL held.
  OwnLayer(nb::object object, std::string kind) : object_(std::move(object)), kind_(std::move(kind)) {}
  ~OwnLayer() override {
    const nb::gil_scoped_acquire lock;
    object_.reset();
  }
  OwnLayer(const OwnLayer&) = delete;
  OwnLayer& operator=(const OwnLayer&) = delete;

  [[nodiscard]] std::string kind() const override { return kind_; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    return in_python("outputs", [&]() -> nn::Shapes {
      if (!nb::hasattr(object_, "outputs")) return {in.at(0)};
      return {shape_of(object_.attr("outputs")(tuples_of(in)))};
    });
  }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    return in_python("parameters", [&] {
      std::vector<nn::ParamSpec> all;
      if (!nb::hasattr(object_, "parameters")) return all;
      const nb::dict shapes = nb::cast<nb::dict>(object_.attr("parameters")(tuples_of(in)));
      for (const auto& [name, shape] : shapes) {
        const Shape lengths = shape_of(shape);
        all.push_back({.name = nb::cast<std::string>(name),
                       .shape = lengths,
                       .wanted = {},
                       .fan_in = lengths.rank() < 2 ? 1 : lengths.count(1, lengths.rank()),
                       .fan_out = lengths.rank() < 1 ? 1 : lengths[0]});
      }
      return all;
    });
  }
  void forward(nn::Pass& pass) override {
    in_python("forward", [&] {
      const nb::object made = object_.attr("forward")(arrays(pass.x), arrays(pass.parameter));
      put(made, pass.y[0], "forward");
    });
  }
  void backward(nn::Pass& pass) override {
    in_python("backward", [&] {
      const nb::object made = object_.attr("backward")(arrays(pass.x), arrays(pass.parameter), array_of(pass.dy[0]));
      const nb::tuple both = nb::cast<nb::tuple>(made);
      if (both.size() != 2)
        throw InvalidArgument("backward: expected a pair (gradient of the input, list of gradients of the parameters)");
      if (!pass.dx[0].empty()) put(both[0], pass.dx[0], "backward");
      const nb::list gradients = nb::cast<nb::list>(both[1]);
      if (gradients.size() != pass.gradient.size()) {
        throw InvalidArgument(fmt::format("backward: expected {} gradients of parameters; received {}",
                                          pass.gradient.size(), gradients.size()));
      }
      for (std::size_t i = 0; i < pass.gradient.size(); ++i) {
        if (!pass.gradient[i].empty()) put(gradients[i], pass.gradient[i], "backward");
      }
    });
  }

 private:
  static nb::list arrays(const std::vector<Tensor>& tensors) {
    nb::list all;
    for (const Tensor& tensor : tensors) all.append(array_of(tensor));
    return all;
  }
  static void put(nb::handle from, const Tensor& to, const char* where) {
    const nb::object numpy = nb::module_::import_("numpy");
    const Tensor given = tensor_of(numpy.attr("ascontiguousarray")(from, "float32"), where);
    if (given.shape() != to.shape()) {
      throw InvalidArgument(fmt::format("{}: expected an array of shape {}; received {}", where, to.shape().text(),
                                        given.shape().text()));
    }
    to.copy_from(given);
  }

  nb::object object_;
  std::string kind_;
};

}  // namespace

void bind_own_layers(nb::module_& m) {
  m.def(
      "register_layer",
      [](const std::string& user_type, const nb::object& factory) {
        // Never released: Python objects must not be destroyed when the library is unloaded.
        const nb::handle kept = nb::object(factory).release();
        register_job_layer(user_type, [kept, user_type](const std::string& conf) -> nn::LayerPtr {
          return in_python(user_type.c_str(), [&]() -> nn::LayerPtr {
            return std::make_unique<OwnLayer>(kept(nb::bytes(conf.data(), conf.size())), user_type);
          });
        });
      },
      nb::arg("user_type"), nb::arg("factory"),
      nb::sig("def register_layer(user_type: str, factory: collections.abc.Callable[[bytes], object]) -> None"));
  m.def(
      "register_updater",
      [](const std::string& user_type, const std::map<std::string, std::string>& options) {
        TableOptions rule;
        for (const auto& [name, value] : options) set_option(rule, name, value);
        register_job_updater(user_type, rule.updater);
      },
      nb::arg("user_type"), nb::arg("options"));
}

}  // namespace pleiad::python
