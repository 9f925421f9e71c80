#include "plan/bands.h"

#include "core/kernels.h"
#include "plan/on_tile.h"
#include "spatial/block.h"

namespace pleiad {
namespace {

/// Returns the positions of `out` whose inputs are all in `own`.
Interval inner(const nn::SpatialLayer& layer, int axis, Interval out, Interval own, std::int64_t length) {
  const auto inside = [&](std::int64_t at) {
    const Interval needs = intersect(layer.input_interval({at, at + 1}, axis), {0, length});
    return needs.empty() || intersect(needs, own) == needs;
  };
  while (!out.empty() && !inside(out.begin)) ++out.begin;
  while (!out.empty() && !inside(out.end - 1)) --out.end;
  return out;
}

ImageBlock block(const Tensor& tensor, const Rect& rect) {
  return {static_cast<char*>(tensor.raw()), rect,
          static_cast<std::size_t>(tensor.shape()[3]) * size_of(tensor.dtype())};
}

/// Computes to += from over the region of `from`.
void add_part(const Tensor& to, const Rect& to_rect, const Tensor& from, const Rect& rect) {
  const ImageBlock target = block(to, to_rect);
  const ImageBlock source = block(from, rect);
  const auto count = static_cast<std::size_t>(rect.w.size() * to.shape()[3]);
  for (std::int64_t n = 0; n < to.shape()[0]; ++n) {
    for (std::int64_t h = rect.h.begin; h < rect.h.end; ++h) {
      add_to(to.dtype(), target.at(n, h, rect.w.begin), source.at(n, h, rect.w.begin), count);
    }
  }
}

Rect middle_of(const nn::SpatialLayer& whole, const TileWork& work, std::size_t tile) {
  return {inner(whole, 1, work.out[tile].h, work.own[tile].h, work.in_h),
          inner(whole, 2, work.out[tile].w, work.own[tile].w, work.in_w)};
}

/// Returns true if the layer can run over its own positions alone, with wrong results only at outputs that need a halo.
/// This requires that every own position is needed and that the first and last window overlap own positions.
bool can_run_alone(const nn::SpatialLayer& layer, const Rect& out, const Rect& own, const Rect& need) {
  const auto along = [&](int axis, Interval to, Interval have, Interval all) {
    const auto meets = [&](std::int64_t at) {
      return !intersect(layer.input_interval({at, at + 1}, axis), have).empty();
    };
    return intersect(have, all) == have && meets(to.begin) && meets(to.end - 1);
  };
  return along(1, out.h, own.h, need.h) && along(2, out.w, own.w, need.w);
}

}  // namespace

bool Bands::pay(const nn::Layer& whole, const TileWork& work) {
  const nn::SpatialLayer* const spatial = whole.capabilities().spatial;
  if (spatial == nullptr || spatial->of_places(0)) return false;
  for (std::size_t m = 0; m < work.out.size(); ++m) {
    if (2 * middle_of(*spatial, work, m).places() < work.out[m].places()) return false;
  }
  return true;
}

std::unique_ptr<Bands> Bands::make(const nn::Layer& whole, const TileWork& work, std::size_t tile, const nn::Shapes& in,
                                   DType dtype) {
  const Rect& own = work.own[tile];
  const Rect& out = work.out[tile];
  const nn::Capabilities has = whole.capabilities();
  if (own.empty() || out.empty() || has.spatial == nullptr) return nullptr;
  const nn::SpatialLayer& spatial = *has.spatial;
  const Rect middle = middle_of(spatial, work, tile);
  const nn::Shapes images = whole_shapes(work, in);
  const std::size_t parameters = whole.parameters(images).size();
  for (std::size_t i = 0; i < parameters; ++i) {
    if (spatial.of_places(i)) return nullptr;
  }
  if (middle.empty() || middle == out) return nullptr;
  auto all = std::make_unique<Bands>();
  all->need_ = work.need[tile];
  all->out_ = out;
  all->forward_only_ = has.two_stage != nullptr && whole.workspace(images).empty();
  const bool as_it_lies = all->forward_only_ && can_run_alone(spatial, out, own, all->need_);
  const nn::Shapes outputs = whole.outputs(images);
  for (const Rect& part :
       {Rect{{out.h.begin, middle.h.begin}, out.w}, Rect{{middle.h.end, out.h.end}, out.w},
        Rect{middle.h, {out.w.begin, middle.w.begin}}, Rect{middle.h, {middle.w.end, out.w.end}}, middle}) {
    if (part.empty()) continue;
    Band& band = all->bands_.emplace_back();
    band.border = part != middle;
    band.as_it_lies = as_it_lies && !band.border;
    band.out = band.as_it_lies ? out : part;
    band.in = band.as_it_lies ? own
                              : Rect{intersect(spatial.input_interval(part.h, 1), {0, work.in_h}),
                                     intersect(spatial.input_interval(part.w, 2), {0, work.in_w})};
    if (band.in.empty()) return nullptr;  // the band reads padding only
    band.layer = on_region(whole, work, band.in, band.out);
    nn::Shapes shapes;
    for (const Shape& shape : in) shapes.push_back(image_shape(shape[0], band.in, shape[3]));
    band.layer->prepare(shapes, dtype);
    if (band.as_it_lies) continue;
    for (const Shape& shape : shapes) band.pass.x.emplace_back(dtype, shape);
    for (const Shape& shape : outputs) band.pass.y.emplace_back(dtype, image_shape(shape[0], part, shape[3]));
    for (const Shape& shape : band.layer->workspace(shapes)) band.pass.workspace.emplace_back(dtype, shape);
  }
  return all;
}

void Bands::bind(const nn::Pass& pass) {
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    nn::Pass& own = bands_[b].pass;
    share_parameters(own, pass);
    if (bands_[b].as_it_lies) {
      own.x = pass.x;
      own.y = pass.y;
    }
    if (forward_only_) continue;
    if (b > 0) allocate_own_gradients(own);
    own.dx.assign(pass.dx.size(), {});
    own.dy.clear();
    for (std::size_t i = 0; i < pass.dx.size(); ++i) {
      if (!pass.dx[i].empty()) own.dx[i] = Tensor(own.x[i].dtype(), own.x[i].shape());
    }
    for (const Tensor& y : own.y) own.dy.emplace_back(y.dtype(), y.shape());
  }
}

void Bands::forward(bool border, nn::Pass& pass, const std::vector<Tensor>& x, const Rect& rect) {
  for (Band& band : bands_) {
    if (band.border != border) continue;
    const Interval samples{0, pass.y[0].shape()[0]};
    for (std::size_t i = 0; !band.as_it_lies && i < x.size(); ++i) {
      copy_part(block(band.pass.x[i], band.in), block(x[i], rect), band.in, samples);
    }
    copy_step_info(band.pass, pass);
    band.layer->forward(band.pass);
    for (std::size_t k = 0; !band.as_it_lies && k < pass.y.size(); ++k) {
      copy_part(block(pass.y[k], out_), block(band.pass.y[k], band.out), band.out, samples);
    }
  }
}

void Bands::backward(bool border, nn::Pass& pass, const std::vector<Tensor>& dx) {
  for (std::size_t i = 0; border && i < dx.size(); ++i) {
    if (!dx[i].empty()) dx[i].fill(0);
  }
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    Band& band = bands_[b];
    if (band.border != border) continue;
    for (std::size_t k = 0; k < pass.dy.size(); ++k) {
      copy_part(block(band.pass.dy[k], band.out), block(pass.dy[k], out_), band.out, {0, pass.dy[k].shape()[0]});
    }
    band.layer->backward(band.pass);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (!band.pass.dx[i].empty()) add_part(dx[i], need_, band.pass.dx[i], band.in);
    }
    if (b > 0) add_gradients(pass, band.pass);
  }
}

}  // namespace pleiad
