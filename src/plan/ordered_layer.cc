#include "plan/ordered_layer.h"

#include <algorithm>

#include "nn/layer_proxy.h"
#include "plan/on_tile.h"
#include "pleiad/spatial.h"
#include "spatial/block.h"

namespace pleiad {
namespace {

Interval hull(Interval a, Interval b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// Returns the positions in [0, length) whose reach overlaps `with`.
template <class Regions>
Interval touching(std::int64_t length, Interval with, Regions&& reach) {
  Interval all{};
  for (std::int64_t i = 0; i < length && !with.empty(); ++i) {
    if (!intersect(reach(Interval{i, i + 1}), with).empty()) all = hull(all, {i, i + 1});
  }
  return all;
}

/// Returns `interval`, extended to the nearest position of `some` if it has no connection to the other side. Windows
/// may be in the padding entirely, but no layer accepts an empty image.
Interval reaching(Interval interval, Interval some) {
  if (some.empty()) return interval;
  return hull(interval,
              interval.begin < some.begin ? Interval{some.begin, some.begin + 1} : Interval{some.end - 1, some.end});
}

/// The regions that each rank works on: its own positions and all that depend on them or that they depend on.
struct Regions {
  std::vector<Rect> in;
  std::vector<Rect> out;
};

Interval axis_of(const Rect& rect, int axis) { return axis == 1 ? rect.h : rect.w; }

Regions regions_of(const nn::Layer& layer, const TiledWork& work) {
  const nn::Capabilities has = layer.capabilities();
  Regions all;
  for (std::size_t m = 0; m < work.own.size(); ++m) {
    Interval in[2];
    Interval out[2];
    for (const int axis : {1, 2}) {
      const std::int64_t in_length = axis == 1 ? work.in_h : work.in_w;
      const std::int64_t out_length = axis == 1 ? work.out_h : work.out_w;
      // An empty tile works on one position, so that its rank joins the collective calls. The result is not used.
      const Interval own = work.own[m].empty() ? Interval{} : axis_of(work.own[m], axis);
      const Interval made = work.out[m].empty() ? Interval{} : axis_of(work.out[m], axis);
      Interval& wide_in = in[axis - 1];
      Interval& wide_out = out[axis - 1];
      if (has.spreading != nullptr) {
        const auto reached = [&](Interval from) { return has.spreading->output_interval(from, axis); };
        wide_in = hull(own, touching(in_length, made, reached));
        if (wide_in.empty()) wide_in = {0, 1};
        wide_out = intersect(reached(wide_in), {0, out_length});
        if (wide_out.empty()) {
          wide_in = reaching(wide_in, touching(in_length, {0, out_length}, reached));
          wide_out = intersect(reached(wide_in), {0, out_length});
        }
      } else {
        const auto needed = [&](Interval to) { return has.spatial->input_interval(to, axis); };
        wide_out = hull(made, touching(out_length, own, needed));
        if (wide_out.empty()) wide_out = {0, 1};
        wide_in = intersect(needed(wide_out), {0, in_length});
        if (wide_in.empty()) {
          wide_out = reaching(wide_out, touching(out_length, {0, in_length}, needed));
          wide_in = intersect(needed(wide_out), {0, in_length});
        }
      }
    }
    all.in.push_back({in[0], in[1]});
    all.out.push_back({out[0], out[1]});
  }
  return all;
}

class OrderedLayer final : public nn::LayerProxy {
 public:
  OrderedLayer(nn::LayerPtr whole, std::string name, TiledWork work, const Plan& of, std::shared_ptr<Communicator> comm)
      : nn::LayerProxy(std::move(whole)),
        name_(std::move(name)),
        work_(std::move(work)),
        grid_(of.grid),
        comm_(std::move(comm)),
        tile_(static_cast<std::size_t>(of.grid.tile_of(comm_->rank()))) {
    // works position by position, with sums over all ranks, including those with empty tiles
    if (whole_->capabilities().coupled != nullptr) {
      regions_ = {work_.own, work_.out};
    } else {
      regions_ = regions_of(*whole_, work_);
    }
    independent_ = regions_.in == work_.own && regions_.out == work_.out;
  }

  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    return on_tile_outputs(*whole_, work_, tile_, in);
  }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    return on_tile_parameters(*whole_, work_, tile_, in);
  }

  void prepare(const nn::Shapes& in, DType dtype) override {
    const nn::Shapes whole_in = full_shapes(in);
    const nn::Shapes whole_out = whole_->outputs(whole_in);
    const std::int64_t batch = in[0][0];
    part_ = on_region(*whole_, work_, regions_.in[tile_], regions_.out[tile_]);
    part_->set_deterministic(true);
    nn::Shapes shapes;
    for (const Shape& shape : in) shapes.push_back(image_shape(batch, regions_.in[tile_], shape[3]));
    part_->prepare(shapes, dtype);
    pass_ = {};
    for (const Shape& shape : part_->workspace(shapes)) pass_.workspace.emplace_back(dtype, shape);
    inputs_.clear();
    outputs_.clear();
    filters_.clear();
    for (const Shape& shape : in) inputs_.push_back(exchange("inputs", work_.own, regions_.in, batch, shape[3], dtype));
    for (const Shape& shape : whole_out) {
      outputs_.push_back(exchange("gradients", work_.out, regions_.out, batch, shape[3], dtype));
    }
    const std::vector<nn::ParamSpec> specs = whole_->parameters(whole_in);
    const bool spreads = whole_->capabilities().spreading != nullptr;
    shared_ = false;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      filters_.emplace_back();
      if (!nn::of_places(*whole_, i)) {
        shared_ = true;
        continue;
      }
      const std::vector<Rect>& have = spreads ? work_.own : work_.out;
      const std::vector<Rect>& want = spreads ? regions_.in : regions_.out;
      const std::int64_t channels = specs[i].shape.count(2, specs[i].shape.rank());
      filters_.back() = exchange("filters", have, want, 1, channels, dtype);
    }
    memory_ready_ = false;
  }

  void forward(nn::Pass& pass) override {
    bind(pass);
    if (independent_) return part_->forward(pass_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->forward(pass.x[i].raw(), pass_.x[i].raw());
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      if (filters_[i] != nullptr) filters_[i]->forward(pass.parameter[i].raw(), pass_.parameter[i].raw());
    }
    part_->forward(pass_);
    for (std::size_t k = 0; k < outputs_.size(); ++k) take(*outputs_[k], pass_.y[k], pass.y[k]);
  }

  void backward(nn::Pass& pass) override {
    bind(pass);
    if (independent_) return part_->backward(pass_);
    const bool inputs = std::ranges::any_of(pass.dx, [](const Tensor& dx) { return !dx.empty(); });
    const bool of_places = std::ranges::any_of(filters_, [](const auto& filter) { return filter != nullptr; });
    if (inputs || of_places) {
      for (std::size_t k = 0; k < outputs_.size(); ++k) outputs_[k]->forward(pass.dy[k].raw(), pass_.dy[k].raw());
      pass_.gradient = wide_gradient_;
      pass_.dx = wide_dx_;
      part_->backward(pass_);
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (!pass.dx[i].empty()) take(*inputs_[i], pass_.dx[i], pass.dx[i]);
      }
      for (std::size_t i = 0; i < filters_.size(); ++i) {
        if (filters_[i] != nullptr) take(*filters_[i], pass_.gradient[i], pass.gradient[i]);
      }
    }
    if (!shared_) return;
    // Parameters that all ranks share get the sums over each rank's own outputs.
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      pass_.dy[k].fill(0);
      put(*outputs_[k], pass.dy[k], pass_.dy[k]);
    }
    pass_.gradient = pass.gradient;
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      if (filters_[i] != nullptr) pass_.gradient[i] = wide_gradient_[i];
    }
    pass_.dx.assign(pass.dx.size(), {});
    part_->backward(pass_);
  }

 protected:
  [[nodiscard]] nn::Shapes full_shapes(const nn::Shapes& in) const override { return whole_shapes(work_, in); }

 private:
  using Exchange = std::unique_ptr<HaloExchange>;

  [[nodiscard]] Exchange exchange(const char* what, const std::vector<Rect>& own, const std::vector<Rect>& need,
                                  std::int64_t batch, std::int64_t channels, DType dtype) const {
    HaloSpec spec{.name = name_ + ", " + what, .teams = grid_.teams(), .own = own, .need = need};
    spec.batch = batch;
    spec.channels = channels;
    spec.dtype = dtype;
    return std::make_unique<HaloExchange>(comm_->session(), spec);
  }

  void bind(nn::Pass& pass) {
    copy_step_info(pass_, pass);
    if (memory_ready_) return;
    memory_ready_ = true;
    share_parameters(pass_, pass);
    pass_.x = pass.x;
    pass_.y = pass.y;
    pass_.dx = pass.dx;
    pass_.dy = pass.dy;
    if (independent_) return;
    const auto wide = [](const HaloExchange& of, const Tensor& like) {
      return Tensor(like.dtype(), image_shape(of.spec().batch, of.need(), of.spec().channels));
    };
    for (std::size_t i = 0; i < pass.x.size(); ++i) {
      pass_.x[i] = wide(*inputs_[i], pass.x[i]);
      if (!pass.dx[i].empty()) pass_.dx[i] = wide(*inputs_[i], pass.x[i]);
    }
    for (std::size_t k = 0; k < pass.y.size(); ++k) {
      pass_.y[k] = wide(*outputs_[k], pass.y[k]);
      pass_.dy[k] = wide(*outputs_[k], pass.y[k]);
    }
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      pass_.gradient[i] = {};
      if (filters_[i] == nullptr) continue;
      Shape shape = pass.parameter[i].shape();
      shape.set(0, filters_[i]->need().h.size());
      shape.set(1, filters_[i]->need().w.size());
      pass_.parameter[i] = Tensor(pass.parameter[i].dtype(), shape);
      pass_.gradient[i] = Tensor(pass.parameter[i].dtype(), shape);
    }
    wide_gradient_ = pass_.gradient;
    wide_dx_ = pass_.dx;
  }

  /// Copies to `own` what `need` has of it, and sets the rest to 0.
  static void take(const HaloExchange& of, const Tensor& need, const Tensor& own) {
    const Rect both = intersect(of.own(), of.need());
    if (both != of.own()) own.fill(0);
    copy_part(block(of, own, of.own()), block(of, need, of.need()), both, {0, of.spec().batch});
  }
  static void put(const HaloExchange& of, const Tensor& own, const Tensor& need) {
    copy_part(block(of, need, of.need()), block(of, own, of.own()), intersect(of.own(), of.need()),
              {0, of.spec().batch});
  }
  static ImageBlock block(const HaloExchange& of, const Tensor& tensor, const Rect& rect) {
    return {static_cast<char*>(tensor.raw()), rect,
            static_cast<std::size_t>(of.spec().channels) * size_of(tensor.dtype())};
  }

  const std::string name_;
  const TiledWork work_;
  const Grid grid_;
  const std::shared_ptr<Communicator> comm_;
  const std::size_t tile_;
  Regions regions_;
  bool independent_ = false;  // on all ranks, own positions depend on themselves only
  bool shared_ = false;       // there are parameters that all ranks share
  nn::LayerPtr part_;
  nn::Pass pass_;
  std::vector<Tensor> wide_gradient_;
  std::vector<Tensor> wide_dx_;
  std::vector<Exchange> inputs_;
  std::vector<Exchange> outputs_;
  std::vector<Exchange> filters_;  // null for parameters that all ranks share
  bool memory_ready_ = false;
};

}  // namespace

nn::LayerPtr ordered_layer(nn::LayerPtr whole, const std::string& name, const TiledWork& work, const Plan& of,
                           std::shared_ptr<Communicator> comm) {
  return std::make_unique<OrderedLayer>(std::move(whole), name, work, of, std::move(comm));
}

}  // namespace pleiad
