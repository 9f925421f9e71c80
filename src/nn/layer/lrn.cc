#include "kernel/lrn.h"

#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class LocalResponse final : public Layer, public SpatialLayer {
 public:
  explicit LocalResponse(const LrnOptions& o) : lrn_{.size = o.size, .alpha = o.alpha, .beta = o.beta, .k = o.k} {
    expect_at_least("size", o.size, 1);
    if (o.k <= 0 || o.alpha < 0) {
      throw InvalidArgument(fmt::format("expected k > 0 and alpha >= 0; received {} and {}", o.k, o.alpha));
    }
  }
  [[nodiscard]] std::string kind() const override { return "lrn"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override { return {expect_image(in)}; }
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return {in[0]}; }
  [[nodiscard]] std::string summary() const override { return fmt::format("over {} maps", lrn_.size); }
  void forward(Pass& pass) override { kernel::lrn_forward(lrn_, pass.x[0], pass.y[0], pass.workspace[0]); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) {
      kernel::lrn_backward(lrn_, pass.x[0], pass.y[0], pass.workspace[0], pass.dy[0], pass.dx[0]);
    }
  }

 private:
  const kernel::Lrn lrn_;
};

const Fields<LrnOptions>& lrn_fields() {
  using O = LrnOptions;
  static const Fields<O> all = {field("size", &O::size, "number of neighbouring maps"),
                                field("alpha", &O::alpha, "factor of the sum, divided by size"),
                                field("beta", &O::beta, "the power"), field("k", &O::k, "added to the sum")};
  return all;
}

}  // namespace

LayerPtr lrn(const LrnOptions& options) {
  return with_options(std::make_unique<LocalResponse>(options), lrn_fields(), options);
}
LayerPtr lrn_from(const LayerFields& text) { return lrn(read_fields(lrn_fields(), text)); }

}  // namespace pleiad::nn
