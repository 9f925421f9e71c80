#include "job/lone.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "nn/phase.h"
#include "nn/tensors.h"
#include "pleiad/job.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"
#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

/// A single layer with its memory. Keeps references to the inputs of the last forward instead of copies.
class LoneLayer {
 public:
  LoneLayer(const std::string& conf, std::string name, std::uint64_t seed) : layer_(layer_of_job(conf)), seed_(seed) {
    pass_.name = std::move(name);
    pass_.seed = seed;
  }

  void forward(const std::vector<nb::object>& inputs, const std::string& phase, std::int64_t step) {
    std::vector<Tensor> x;
    nn::Shapes shapes;
    for (const nb::object& input : inputs) {
      x.push_back(tensor_of(input, fmt::format("layer \"{}\"", pass_.name)));
      shapes.push_back(x.back().shape());
    }
    pass_.phase = phase_named(phase);
    pass_.step = static_cast<std::uint32_t>(step);
    waiting([&] {
      if (shapes != shapes_) prepare(shapes);
      pass_.x = x;
      layer_->forward(pass_);
    });
  }

  /// Computes the gradients from `gradient`, that of the first output; None for a loss.
  void backward(const nb::object& gradient) {
    if (pass_.x.empty())
      throw StateError(fmt::format("layer \"{}\": backward was called before forward; call forward first", pass_.name));
    if (gradient.is_none()) {
      if (!loss()) throw InvalidArgument(fmt::format("layer \"{}\": expected a gradient; received None", pass_.name));
      pass_.dy[0].fill(1);
    } else {
      const Tensor given = tensor_of(gradient, fmt::format("layer \"{}\": gradient", pass_.name));
      if (given.shape() != pass_.y[0].shape() || given.dtype() != DType::float32) {
        throw InvalidArgument(
            fmt::format("layer \"{}\": expected a float32 gradient of shape {}; received {} of shape {}", pass_.name,
                        pass_.y[0].shape().text(), name_of(given.dtype()), given.shape().text()));
      }
      pass_.dy[0].copy_from(given);
    }
    waiting([&] { layer_->backward(pass_); });
  }

  void update(const std::string& updater, std::int64_t step) {
    const auto [options, schedule] = updater_of_job(updater);
    if (updates_.empty()) {
      for (const nn::Parameter& p : parameters_) updates_.emplace_back(p, options);
    }
    const double rate = nn::rate_at(schedule, step);
    for (std::size_t i = 0; i < updates_.size(); ++i) updates_[i].step(pass_.gradient[i], rate, options.momentum);
  }

  [[nodiscard]] bool loss() const { return !metrics().empty(); }
  [[nodiscard]] nb::object output(std::size_t i) const { return array_of(pass_.y.at(i)); }
  [[nodiscard]] nb::object input_gradient(std::size_t i) const { return array_of(pass_.dx.at(i)); }
  [[nodiscard]] std::vector<std::string> metrics() const { return nn::scores_of(*layer_); }
  [[nodiscard]] double metric(std::size_t i) const { return pass_.y.at(i).at(0); }
  [[nodiscard]] nb::dict parameters(bool gradients) const {
    std::vector<std::pair<std::string, Tensor>> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      all.emplace_back(parameters_[i].name, gradients ? pass_.gradient[i] : parameters_[i].value);
    }
    return arrays_of(all);
  }

 private:
  void prepare(const nn::Shapes& shapes) {
    shapes_ = {};
    const nn::Shapes out = layer_->outputs(shapes);
    const auto tensors = [](const nn::Shapes& of) {
      std::vector<Tensor> all;
      for (const Shape& shape : of) all.emplace_back(DType::float32, shape);
      return all;
    };
    pass_.y = tensors(out);
    pass_.dy = tensors(out);
    pass_.dx.clear();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      pass_.dx.push_back(layer_->differentiable(i) ? Tensor(DType::float32, shapes[i]) : Tensor());
    }
    pass_.workspace = tensors(layer_->workspace(shapes));
    const std::vector<nn::ParamSpec> specs = layer_->parameters(shapes);
    if (parameters_.empty()) {
      for (const nn::ParamSpec& spec : specs) {
        const Tensor value(DType::float32, spec.shape);
        nn::initialise(value, spec.wanted.init, spec.fan_in, spec.fan_out, seed_, pass_.name + "/" + spec.name);
        parameters_.push_back({.name = spec.name,
                               .value = value,
                               .rate_scale = spec.wanted.rate_scale,
                               .decay_scale = spec.wanted.decay_scale});
        pass_.parameter.push_back(value);
        pass_.gradient.emplace_back(DType::float32, spec.shape);
        pass_.update.push_back(nullptr);
      }
      for (const nn::ParamSpec& spec : nn::states_of(*layer_, shapes)) {
        pass_.state.emplace_back(DType::float32, spec.shape);
        nn::initialise(pass_.state.back(), spec.wanted.init, 1, 1, seed_, spec.name);
      }
    } else {
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].shape != parameters_[i].value.shape()) {
          throw InvalidArgument(
              fmt::format("layer \"{}\": the input shapes changed, so {} would have shape {} instead of {}", pass_.name,
                          specs[i].name, specs[i].shape.text(), parameters_[i].value.shape().text()));
        }
      }
    }
    layer_->prepare(shapes, DType::float32);
    shapes_ = shapes;
  }

  nn::LayerPtr layer_;
  std::uint64_t seed_;
  nn::Pass pass_;
  nn::Shapes shapes_;
  std::vector<nn::Parameter> parameters_;
  std::vector<ParameterUpdate> updates_;
};

}  // namespace

void bind_lone_layers(nb::module_& m) {
  using L = LoneLayer;
  nb::class_<L>(m, "Layer")
      .def(
          "__init__",
          [](L* self, const nb::bytes& conf, const std::string& name, std::uint64_t seed) {
            new (self) L(std::string(conf.c_str(), conf.size()), name, seed);
          },
          nb::arg("conf"), nb::arg("name"), nb::arg("seed"))
      .def("forward", &L::forward, nb::arg("inputs"), nb::arg("phase"), nb::arg("step"),
           nb::sig("def forward(self, inputs: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], phase: str, "
                   "step: int) -> None"))
      .def("backward", &L::backward, nb::arg("gradient").none(),
           nb::sig("def backward(self, gradient: numpy.typing.NDArray[typing.Any] | None) -> None"))
      .def(
          "update",
          [](L& self, const nb::bytes& updater, std::int64_t step) {
            self.update(std::string(updater.c_str(), updater.size()), step);
          },
          nb::arg("updater"), nb::arg("step"))
      .def("output", &L::output, nb::arg("index"),
           nb::sig("def output(self, index: int) -> numpy.typing.NDArray[typing.Any]"))
      .def("input_gradient", &L::input_gradient, nb::arg("index"),
           nb::sig("def input_gradient(self, index: int) -> numpy.typing.NDArray[typing.Any]"))
      .def("metrics", &L::metrics)
      .def("metric", &L::metric, nb::arg("index"))
      .def("parameters", &L::parameters, nb::arg("gradients") = false,
           nb::sig("def parameters(self, gradients: bool = False) -> dict[str, numpy.typing.NDArray[typing.Any]]"));
}

}  // namespace pleiad::python
