#include "nn/own_layer.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "nn/tensors.h"
#include "pleiad/error.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

nb::list shape_list(const nn::Shapes& shapes) {
  nb::list all;
  for (const Shape& shape : shapes) {
    nb::list lengths;
    for (const std::int64_t length : shape) lengths.append(length);
    all.append(nb::tuple(lengths));
  }
  return all;
}

Shape shape_from(nb::handle tuple) {
  const auto lengths = nb::cast<std::vector<std::int64_t>>(tuple);
  if (lengths.size() > Shape::kMaxRank)
    throw InvalidArgument(
        fmt::format("expected a shape of at most {} axes; received {}", Shape::kMaxRank, lengths.size()));
  return Shape(std::span(lengths));
}

nb::tuple rect_tuple(const Rect& rect) { return nb::make_tuple(rect.h.begin, rect.h.end, rect.w.begin, rect.w.end); }

/// Runs body with the GIL held. Throws InvalidArgument if a result has the wrong type.
template <class Body>
auto with_python(const char* what, Body&& body) {
  const nb::gil_scoped_acquire lock;
  try {
    return body();
  } catch (const nb::cast_error&) {
    throw InvalidArgument(fmt::format("{} returned a value of an unexpected type", what));
  }
}

class PythonLayer final : public nn::Layer, public nn::SpatialLayer, public nn::ScoringLayer {
 public:
  PythonLayer(nb::object object, std::optional<nn::TilePlace> place) : object_(std::move(object)), place_(place) {
    kind_ = nb::cast<std::string>(object_.attr("kind"));
    spatial_ = nb::cast<bool>(object_.attr("spatial"));
    scores_ = nb::cast<std::vector<std::string>>(object_.attr("metrics"));
    of_places_ = nb::cast<bool>(object_.attr("of_places"));
    has_loss_ = nb::cast<bool>(object_.attr("has_loss"));
    takes_weights_ = nb::cast<bool>(object_.attr("takes_weights"));
    takes_integers_ = nb::cast<bool>(object_.attr("takes_integers"));
    if (!spatial_) return;
    using Side = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
    const auto [height, width] = nb::cast<std::pair<Side, Side>>(object_.attr("windows"));
    const auto window = [](const Side& side) {
      const auto [size, stride, pad] = side;
      return SlidingWindow{.size = size, .stride = stride, .pad_begin = pad, .pad_end = pad};
    };
    windows_[0] = window(height);
    windows_[1] = window(width);
  }
  ~PythonLayer() override {
    const nb::gil_scoped_acquire lock;
    object_.reset();
  }
  PythonLayer(const PythonLayer&) = delete;
  PythonLayer& operator=(const PythonLayer&) = delete;

  [[nodiscard]] std::string kind() const override { return kind_; }
  [[nodiscard]] nn::Capabilities capabilities() const override {
    nn::Capabilities has = Layer::capabilities();
    if (!spatial_) has.spatial = nullptr;
    if (scores_.empty()) has.scoring = nullptr;
    return has;
  }
  [[nodiscard]] std::vector<std::string> scores() const override { return scores_; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return has_loss_; }
  [[nodiscard]] bool has_loss() const override { return has_loss_; }
  [[nodiscard]] bool takes_weights() const override { return takes_weights_; }
  [[nodiscard]] bool takes(std::size_t i, DType given, DType net) const override {
    return given == input_type(i, net) || (takes_integers_ && (given == DType::int32 || given == DType::int64));
  }
  [[nodiscard]] bool of_places(std::size_t) const override { return of_places_; }
  [[nodiscard]] Interval input_interval(Interval out, int axis) const override {
    return windows_[axis == 1 ? 0 : 1].input(out);
  }
  [[nodiscard]] nn::LayerPtr on_tile(const nn::TilePlace& place) const override {
    return with_python("on_tile", [&] {
      auto tile = std::make_unique<PythonLayer>(object_, place);
      tile->set_options(options());
      return tile;
    });
  }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    return with_python("outputs",
                       [&]() -> nn::Shapes { return {shape_from(object_.attr("outputs")(shape_list(in)))}; });
  }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    return with_python("parameters", [&] {
      std::vector<nn::ParamSpec> all;
      for (const nb::handle spec : object_.attr("parameters")(shape_list(in))) {
        const auto number = [&](const char* name) { return nb::cast<double>(spec.attr(name)); };
        nn::ParamSpec one{.name = nb::cast<std::string>(spec.attr("name")), .shape = shape_from(spec.attr("shape"))};
        one.fan_in = nb::cast<std::int64_t>(spec.attr("fan_in"));
        one.fan_out = nb::cast<std::int64_t>(spec.attr("fan_out"));
        one.wanted.init = init_of(spec.attr("initial"));
        one.wanted.norm = number("norm");
        one.wanted.rate_scale = number("rate_scale");
        one.wanted.decay_scale = number("decay_scale");
        one.wanted.apart = nb::cast<bool>(spec.attr("apart"));
        all.push_back(std::move(one));
      }
      return all;
    });
  }
  void prepare(const nn::Shapes& in, DType dtype) override {
    Layer::prepare(in, dtype);
    with_python("prepare", [&] {
      if (!place_) {
        object_.attr("prepare")(shape_list(in), nb::none());
        return;
      }
      const nb::tuple place =
          nb::make_tuple(rect_tuple(place_->in), rect_tuple(place_->out), nb::make_tuple(place_->in_h, place_->in_w),
                         nb::make_tuple(place_->out_h, place_->out_w));
      object_ = object_.attr("on_tile")(place);
      object_.attr("prepare")(shape_list(in), place);
    });
  }
  void forward(nn::Pass& pass) override {
    with_python("forward", [&] {
      if (takes_weights_) object_.attr("sample_weight") = pass.weights.empty() ? nb::none() : array_of(pass.weights);
      object_.attr("forward")(arrays(pass.x), arrays(pass.parameter), array_of(pass.y[0]),
                              pass.phase == nn::Phase::train, pass.step);
    });
  }
  void backward(nn::Pass& pass) override {
    with_python("backward", [&] {
      object_.attr("backward")(arrays(pass.x), arrays(pass.parameter), array_of(pass.y[0]), array_of(pass.dy[0]),
                               arrays(pass.dx), arrays(pass.gradient), pass.step);
    });
  }

 private:
  /// Converts the pair of an initialiser's type and a dict of its numbers.
  static nn::Init init_of(const nb::object& pair) {
    nn::Init init{.type = nb::cast<std::string>(pair[0])};
    const std::pair<const char*, double*> fields[] = {{"value", &init.value}, {"mean", &init.mean},
                                                      {"std", &init.std},     {"low", &init.low},
                                                      {"high", &init.high},   {"scale", &init.scale}};
    const nb::dict numbers = nb::cast<nb::dict>(pair[1]);
    for (const auto& [name, field] : fields) {
      if (numbers.contains(name)) *field = nb::cast<double>(numbers[name]);
    }
    return init;
  }
  static nb::list arrays(const std::vector<Tensor>& tensors) {
    nb::list all;
    for (const Tensor& tensor : tensors) {
      if (tensor.empty()) {
        all.append(nb::none());
      } else {
        all.append(array_of(tensor));
      }
    }
    return all;
  }

  nb::object object_;
  std::optional<nn::TilePlace> place_;  // set if the layer computes a tile
  std::string kind_;
  std::vector<std::string> scores_;
  SlidingWindow windows_[2];
  bool spatial_ = false;
  bool of_places_ = false;
  bool has_loss_ = true;
  bool takes_weights_ = false;
  bool takes_integers_ = false;
};

}  // namespace

nn::LayerPtr own_layer(nb::object object, const nn::LayerFields& options) {
  auto layer = std::make_unique<PythonLayer>(std::move(object), std::nullopt);
  layer->set_options(options);
  return layer;
}

}  // namespace pleiad::python
