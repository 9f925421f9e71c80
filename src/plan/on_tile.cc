#include "plan/on_tile.h"

#include "kernel/elementwise.h"

namespace pleiad {

nn::Shapes whole_shapes(const TiledWork& work, const nn::Shapes& in) {
  nn::Shapes all = in;
  for (Shape& shape : all) {
    shape.set(1, work.in_h);
    shape.set(2, work.in_w);
  }
  return all;
}

nn::Shapes on_tile_outputs(const nn::Layer& whole, const TiledWork& work, std::size_t tile, const nn::Shapes& in) {
  nn::Shapes all = whole.outputs(whole_shapes(work, in));
  for (Shape& shape : all) shape = image_shape(shape[0], work.out[tile], shape[3]);
  return all;
}

std::vector<nn::ParamSpec> on_tile_parameters(const nn::Layer& whole, const TiledWork& work, std::size_t tile,
                                              const nn::Shapes& in) {
  std::vector<nn::ParamSpec> all = whole.parameters(whole_shapes(work, in));
  const bool spreads = whole.capabilities().spreading != nullptr;
  const Rect& places = spreads ? work.own[tile] : work.out[tile];
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].pieces = false;
    if (!nn::of_places(whole, i)) continue;
    all[i].shape.set(0, places.h.size());
    all[i].shape.set(1, places.w.size());
  }
  return all;
}

nn::LayerPtr on_region(const nn::Layer& whole, const TiledWork& work, const Rect& in, const Rect& out) {
  return nn::on_tile(
      whole, {.in = in, .out = out, .in_h = work.in_h, .in_w = work.in_w, .out_h = work.out_h, .out_w = work.out_w});
}

Shape image_shape(std::int64_t batch, const Rect& rect, std::int64_t channels) {
  return {batch, rect.h.size(), rect.w.size(), channels};
}

Tensor rows_of(const Tensor& tensor, Interval samples) {
  if (tensor.empty()) return {};
  Shape shape = tensor.shape();
  const auto bytes = static_cast<std::size_t>(shape.count(1, shape.rank())) * size_of(tensor.dtype());
  shape.set(0, samples.size());
  return {tensor.dtype(), shape,
          static_cast<std::byte*>(tensor.raw()) + static_cast<std::size_t>(samples.begin) * bytes};
}

void copy_step_info(nn::Pass& inner, const nn::Pass& outer) {
  inner.phase = outer.phase;
  inner.seed = outer.seed;
  inner.step = outer.step;
  inner.first_sample = outer.first_sample;
  inner.parts = outer.parts;
}

void share_parameters(nn::Pass& inner, const nn::Pass& outer) {
  inner.name = outer.name;
  inner.parameter = outer.parameter;
  inner.gradient = outer.gradient;
  inner.state = outer.state;
  inner.update.assign(outer.update.size(), nullptr);
}

void allocate_own_gradients(nn::Pass& inner) {
  for (Tensor& gradient : inner.gradient) {
    if (!gradient.empty()) gradient = Tensor(gradient.dtype(), gradient.shape());
  }
}

void add_gradients(const nn::Pass& outer, const nn::Pass& inner) {
  for (std::size_t i = 0; i < outer.gradient.size(); ++i) {
    if (!outer.gradient[i].empty()) kernel::add(outer.gradient[i], inner.gradient[i]);
  }
}

}  // namespace pleiad
