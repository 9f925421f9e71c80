#include "plan/tile_layer.h"

#include <algorithm>

namespace pleiad {
bool overlaps(const Plan& plan, const Communicator& comm) {
  if (plan.overlap != Overlap::automatic) return plan.overlap == Overlap::always;
  if (plan.halo_delay > 0) return true;
  const Session& session = comm.session();
  for (int rank = 0; rank < plan.ranks; ++rank) {  // checks all groups, so that all ranks decide alike
    const int first = plan.grid.group_of(rank) * plan.grid.tiles();
    if (session.ranks().host_of(rank) != session.ranks().host_of(first)) return true;
  }
  return false;
}

TileLayer::TileLayer(nn::LayerPtr whole, std::string name, TileWork work, const Plan& of,
                     std::shared_ptr<Communicator> comm)
    : nn::LayerProxy(std::move(whole)),
      name_(std::move(name)),
      work_(std::move(work)),
      grid_(of.grid),
      delay_(of.halo_delay),
      comm_(std::move(comm)),
      overlap_(overlaps(of, *comm_)),
      tile_(static_cast<std::size_t>(of.grid.tile_of(comm_->rank()))) {
  exchanged_ = work_.own != work_.need;
}

TileLayer::~TileLayer() = default;

void TileLayer::followed_by(TileLayer& next, bool alone) {
  next_.push_back(&next);
  if (!alone) return;
  ended_here_.push_back(&next);
  next.left_to_last_ = true;
}

nn::Shapes TileLayer::outputs(const nn::Shapes& in) const { return on_tile_outputs(*whole_, work_, tile_, in); }

std::vector<nn::ParamSpec> TileLayer::parameters(const nn::Shapes& in) const {
  return on_tile_parameters(*whole_, work_, tile_, in);
}

double TileLayer::products(const nn::Shapes& in) const {
  const double share = static_cast<double>(work_.out[tile_].places()) / static_cast<double>(work_.out_h * work_.out_w);
  return whole_->products(full_shapes(in)) * share;
}

void TileLayer::prepare(const nn::Shapes& in, DType dtype) {
  bound_ = false;
  begun_ = finished_ = 0;
  const std::int64_t batch = in[0][0];
  const Rect& need = work_.need[tile_];
  const Rect& out = work_.out[tile_];
  // All ranks must split the batch alike. Whether a rank divides its tile into bands concerns only itself.
  const bool coupled = whole_->capabilities().coupled != nullptr;
  const bool halves = overlap_ && !coupled && !(exchanged_ && Bands::pay(*whole_, work_));
  const int count = halves ? static_cast<int>(std::min<std::int64_t>(2, batch)) : 1;
  bands_.reset();
  if (exchanged_ && overlap_ && count == 1 && !coupled) {
    bands_ = Bands::make(*whole_, work_, tile_, in, dtype);
  }
  halos_.clear();
  x_.clear();
  dx_.clear();
  for (std::size_t i = 0; exchanged_ && i < in.size(); ++i) {
    HaloSpec spec{.name = name_, .teams = grid_.teams(), .own = work_.own, .need = work_.need};
    spec.batch = batch;
    spec.channels = in[i][3];
    spec.dtype = dtype;
    spec.pieces = count;
    spec.delay = delay_;
    halos_.push_back(std::make_unique<HaloExchange>(comm_->session(), spec));
    x_.emplace_back(dtype, image_shape(batch, need, in[i][3]));
    dx_.emplace_back();
  }
  micro_batches_.clear();
  for (int p = 0; p < count; ++p) {
    MicroBatch& micro_batch = micro_batches_.emplace_back();
    micro_batch.samples = part_of(batch, count, p);
    if (bands_ != nullptr && !bands_->forward_only()) continue;
    // such a layer needs all ranks, including those with empty tiles
    if (out.empty() && !coupled) continue;
    micro_batch.layer = on_region(*whole_, work_, need, out);
    nn::Shapes shapes;
    for (const Shape& shape : in) shapes.push_back(image_shape(micro_batch.samples.size(), need, shape[3]));
    micro_batch.stages = nn::two_stages_of(*micro_batch.layer);
    micro_batch.layer->prepare(shapes, dtype);
    for (const Shape& shape : micro_batch.layer->workspace(shapes))
      micro_batch.pass.workspace.emplace_back(dtype, shape);
  }
}

void TileLayer::bind(nn::Pass& pass) {
  for (MicroBatch& micro_batch : micro_batches_) {
    copy_step_info(micro_batch.pass, pass);
    micro_batch.pass.first_sample += micro_batch.samples.begin;
  }
  if (bound_) return;
  bound_ = true;
  tile_x_ = pass.x;
  tile_dx_ = pass.dx;
  for (std::size_t i = 0; i < dx_.size(); ++i) {
    if (!pass.dx[i].empty()) dx_[i] = Tensor(x_[i].dtype(), x_[i].shape());
  }
  if (bands_ != nullptr) bands_->bind(pass);
  const auto cut = [](const std::vector<Tensor>& all, Interval samples) {
    std::vector<Tensor> parts;
    for (const Tensor& tensor : all) parts.push_back(rows_of(tensor, samples));
    return parts;
  };
  for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
    MicroBatch& micro_batch = micro_batches_[p];
    share_parameters(micro_batch.pass, pass);
    if (p > 0) allocate_own_gradients(micro_batch.pass);
    micro_batch.pass.x = cut(exchanged_ ? x_ : pass.x, micro_batch.samples);
    micro_batch.pass.dx = cut(exchanged_ ? dx_ : pass.dx, micro_batch.samples);
    micro_batch.pass.y = cut(pass.y, micro_batch.samples);
    micro_batch.pass.dy = cut(pass.dy, micro_batch.samples);
  }
}

void TileLayer::begin_until(std::int64_t end) {
  if (!bound_) return;  // the first forward has not run yet; it starts the exchange itself
  for (; begun_ < micro_batches_.size() && micro_batches_[begun_].samples.end <= end; ++begun_) {
    for (std::size_t i = 0; i < halos_.size(); ++i) {
      halos_[i]->begin_forward(static_cast<int>(begun_), tile_x_[i].raw());
    }
  }
}

void TileLayer::forward(nn::Pass& pass) {
  bind(pass);
  for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
    MicroBatch& micro_batch = micro_batches_[p];
    begin_until(micro_batch.samples.end);
    if (bands_ != nullptr) bands_->forward(false, pass, tile_x_, work_.own[tile_]);
    for (std::size_t i = 0; i < halos_.size(); ++i) {
      halos_[i]->finish_forward(static_cast<int>(p), tile_x_[i].raw(), x_[i].raw());
    }
    if (bands_ != nullptr) {
      bands_->forward(true, pass, x_, work_.need[tile_]);
    } else if (micro_batch.layer != nullptr) {
      micro_batch.layer->forward(micro_batch.pass);
    }
    for (TileLayer* next : next_) next->begin_until(micro_batch.samples.end);
  }
  begun_ = 0;
}

void TileLayer::finish_until(std::int64_t end) {
  for (; finished_ < micro_batches_.size() && micro_batches_[finished_].samples.begin < end; ++finished_) {
    for (std::size_t i = 0; i < halos_.size(); ++i) {
      if (tile_dx_[i].empty()) continue;
      halos_[i]->finish_backward(static_cast<int>(finished_), dx_[i].raw(), tile_dx_[i].raw());
    }
  }
}

void TileLayer::backward(nn::Pass& pass) {
  finished_ = 0;
  for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
    MicroBatch& micro_batch = micro_batches_[p];
    for (TileLayer* next : ended_here_) next->finish_until(micro_batch.samples.end);
    const bool in_bands = bands_ != nullptr && !bands_->forward_only();
    if (in_bands) {
      bands_->backward(true, pass, dx_);
    } else if (micro_batch.layer != nullptr) {
      const bool now = micro_batch.stages == nullptr || !overlap_;
      now ? micro_batch.layer->backward(micro_batch.pass) : micro_batch.stages->backward_inputs(micro_batch.pass);
    } else if (p == 0) {
      for (const Tensor& gradient : pass.gradient) gradient.fill(0);
    }
    for (std::size_t i = 0; i < halos_.size(); ++i) {
      if (!tile_dx_[i].empty()) halos_[i]->begin_backward(static_cast<int>(p), dx_[i].raw());
    }
    if (in_bands) bands_->backward(false, pass, dx_);
    if (micro_batch.layer == nullptr) continue;
    if (overlap_ && micro_batch.stages != nullptr) micro_batch.stages->backward_parameters(micro_batch.pass);
    if (p > 0) add_gradients(pass, micro_batch.pass);
  }
  if (!left_to_last_) finish_until(micro_batches_.back().samples.end);
}

}  // namespace pleiad
