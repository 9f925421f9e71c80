#include "plan/split_layer.h"

#include <algorithm>
#include <utility>

#include "kernel/elementwise.h"
#include "nn/layer_proxy.h"

namespace pleiad {

OutputSplit OutputSplit::of(std::int64_t outputs, int ranks) {
  OutputSplit cut;
  for (int r = 0; r <= ranks; ++r) {
    cut.begin.push_back(outputs / ranks * r + std::min<std::int64_t>(r, outputs % ranks));
  }
  return cut;
}

namespace {

class SplitLayer final : public nn::LayerProxy {
 public:
  SplitLayer(const nn::Layer& whole, nn::LayerPtr own, OutputSplit cut, std::shared_ptr<Communicator> comm)
      : nn::LayerProxy(std::move(own)), cut_(std::move(cut)), comm_(std::move(comm)), ranks_(comm_->size()) {
    set_options(whole.options());
  }

  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    nn::Shapes out = whole_->outputs(in);
    out[0].set(out[0].rank() - 1, cut_.begin.back());
    return out;
  }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    std::vector<nn::ParamSpec> all = whole_->parameters(in);
    for (nn::ParamSpec& spec : all) spec.pieces = false;
    return all;
  }
  [[nodiscard]] double products(const nn::Shapes& in) const override { return whole_->products(all_samples(in)); }

  void prepare(const nn::Shapes& in, DType dtype) override {
    const nn::Shapes all = all_samples(in);
    whole_->prepare(all, dtype);
    const Shape y = whole_->outputs(all)[0];
    Shape padded = y;
    padded.set(y.rank() - 1, cut_.widest());
    pass_.x = {Tensor(dtype, all[0])};
    pass_.y = {Tensor(dtype, y)};
    pass_.dy = {Tensor(dtype, y)};
    pass_.dx = {Tensor()};
    pass_.workspace.clear();
    for (const Shape& shape : whole_->workspace(all)) pass_.workspace.emplace_back(dtype, shape);
    sent_ = Tensor(dtype, padded);
    received_ = Tensor(dtype, {ranks_ * padded.count()});
    gradients_ = Tensor(dtype, {y.count() / y[y.rank() - 1] * cut_.begin.back()});
  }

  void forward(nn::Pass& pass) override {
    bind_pass(pass);
    comm_->gather(pass.x[0].view(), pass_.x[0].view());
    whole_->forward(pass_);
    // Every rank receives the outputs of all ranks and keeps those of its own samples.
    const std::int64_t own = cut_.length(comm_->rank());
    move({sent_, 0, cut_.widest(), 0}, {pass_.y[0], 0, own, 0}, own, rows(pass_.y[0], own));
    comm_->gather(sent_.view(), received_.view());
    const std::int64_t mine = rows(pass.y[0], cut_.begin.back());
    for (int r = 0; r < ranks_; ++r) {
      move({pass.y[0], 0, cut_.begin.back(), cut_.begin[static_cast<std::size_t>(r)]},
           {received_, r * sent_.count() + comm_->rank() * mine * cut_.widest(), cut_.widest(), 0}, cut_.length(r),
           mine);
    }
  }

  void backward(nn::Pass& pass) override {
    bind_pass(pass);
    if (!pass.dx[0].empty() && pass_.dx[0].empty()) pass_.dx[0] = Tensor(pass.x[0].dtype(), pass_.x[0].shape());
    comm_->gather(pass.dy[0].view(), gradients_.view());
    const std::int64_t own = cut_.length(comm_->rank());
    move({pass_.dy[0], 0, own, 0},
         {gradients_, 0, cut_.begin.back(), cut_.begin[static_cast<std::size_t>(comm_->rank())]}, own,
         rows(pass_.dy[0], own));
    whole_->backward(pass_);
    if (!pass.dx[0].empty()) comm_->scatter_sum(pass_.dx[0].view(), pass.dx[0].view());
  }

 private:
  /// The rows of a matrix of `width` columns that starts at element `at`, from column `column` on.
  struct Columns {
    const Tensor& tensor;
    std::int64_t at;
    std::int64_t width;
    std::int64_t column;
    [[nodiscard]] std::byte* first() const {
      return static_cast<std::byte*>(tensor.raw()) + static_cast<std::size_t>(at + column) * size_of(tensor.dtype());
    }
  };
  static void move(const Columns& to, const Columns& from, std::int64_t columns, std::int64_t rows) {
    const std::size_t size = size_of(to.tensor.dtype());
    const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * size; };
    kernel::copy_strided(to.first(), bytes(to.width), from.first(), bytes(from.width), bytes(columns), rows);
  }
  static std::int64_t rows(const Tensor& tensor, std::int64_t width) { return tensor.count() / width; }

  [[nodiscard]] nn::Shapes all_samples(const nn::Shapes& in) const {
    nn::Shapes all = in;
    all[0].set(0, in[0][0] * ranks_);
    return all;
  }
  void bind_pass(const nn::Pass& pass) {
    pass_.parameter = pass.parameter;
    pass_.gradient = pass.gradient;
    pass_.update = pass.update;
    pass_.phase = pass.phase;
    pass_.name = pass.name;
    pass_.seed = pass.seed;
    pass_.step = pass.step;
  }

  const OutputSplit cut_;
  const std::shared_ptr<Communicator> comm_;
  const int ranks_;
  nn::Pass pass_;     // passes of the layer with this rank's outputs: the samples of all ranks, this rank's outputs
  Tensor sent_;       // this rank's outputs, padded to the width of the widest rank
  Tensor received_;   // sent_ of all ranks
  Tensor gradients_;  // gradients by all outputs of all samples
};

}  // namespace

nn::LayerPtr split_layer(const nn::Layer& whole, nn::LayerPtr own, OutputSplit cut,
                         std::shared_ptr<Communicator> comm) {
  return std::make_unique<SplitLayer>(whole, std::move(own), std::move(cut), std::move(comm));
}

}  // namespace pleiad
