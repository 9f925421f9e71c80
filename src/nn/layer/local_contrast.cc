#include "core/text.h"
#include "kernel/contrast.h"
#include "nn/layer/check.h"
#include "nn/layer/cropped.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class LocalContrast final : public Layer, public SpatialLayer {
 public:
  explicit LocalContrast(const LocalContrastOptions& o)
      : o_(o),
        box_(o.type == ContrastType::box),
        subtracts_(o.part != ContrastPart::divide),
        divides_(o.part != ContrastPart::subtract),
        window_{.size = o.size},
        contrast_{.size = o.size, .alpha = o.alpha, .beta = o.beta} {
    expect_at_least("size", o.size, 1);
    if (o.size % 2 == 0) throw InvalidArgument(fmt::format("expected an odd size; received {}", o.size));
    if (box_ && o.part != ContrastPart::both) throw InvalidArgument("part: the type \"box\" supports only \"both\"");
    if (o.alpha < 0) throw InvalidArgument(fmt::format("expected alpha >= 0; received {}", o.alpha));
  }
  [[nodiscard]] std::string kind() const override { return "local_contrast"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override { return {expect_image(in)}; }
  /// gaussian: v and the norms. box: the differences from the means, and s.
  [[nodiscard]] Shapes workspace(const Shapes& in) const override {
    if (box_) return {in[0], in[0]};
    return {in[0], {in[0][0], in[0][1], in[0][2]}};
  }
  /// Subtraction and division each read a window around the position.
  [[nodiscard]] Interval input_interval(Interval out, int) const override {
    if (out.empty()) return {};
    const std::int64_t reach = o_.size / 2 * (subtracts_ && divides_ ? 2 : 1);
    return {out.begin - reach, out.end + reach};
  }
  [[nodiscard]] LayerPtr on_tile(const TilePlace& place) const override { return cropped(local_contrast(o_), place); }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{} {}x{}{}", o_.type.text(), o_.size, o_.size,
                       o_.part == ContrastPart::both ? "" : fmt::format(", {}", o_.part.text()));
  }
  void forward(Pass& pass) override {
    if (box_) return kernel::box_contrast(contrast_, pass.x[0], pass.y[0], pass.workspace[0], pass.workspace[1]);
    if (!divides_) return kernel::subtract_mean(window_, pass.x[0], pass.y[0]);
    if (subtracts_) kernel::subtract_mean(window_, pass.x[0], pass.workspace[0]);
    kernel::divide_by_norm(window_, divided(pass), pass.y[0], pass.workspace[1]);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    if (box_) {
      return kernel::box_contrast_backward(contrast_, pass.x[0], pass.workspace[0], pass.workspace[1], pass.dy[0],
                                           pass.dx[0]);
    }
    if (!divides_) return kernel::subtract_mean_backward(window_, pass.dy[0], pass.dx[0]);
    kernel::divide_by_norm_backward(window_, divided(pass), pass.workspace[1], pass.dy[0], pass.dx[0]);
    if (subtracts_) kernel::subtract_mean_backward(window_, pass.dx[0], pass.dx[0]);
  }

 private:
  [[nodiscard]] const Tensor& divided(const Pass& pass) const { return subtracts_ ? pass.workspace[0] : pass.x[0]; }
  const LocalContrastOptions o_;
  const bool box_;
  const bool subtracts_;
  const bool divides_;
  const kernel::GaussianWindow window_;
  const kernel::BoxContrast contrast_;
};

const Fields<LocalContrastOptions>& local_contrast_fields() {
  using O = LocalContrastOptions;
  static const Fields<O> all = {field("type", &O::type, "gaussian or box"),
                                field("part", &O::part, "gaussian only: both, subtract or divide"),
                                field("size", &O::size, "side of the window"),
                                field("alpha", &O::alpha, "box only: factor of the sum, divided by size^2"),
                                field("beta", &O::beta, "box only: the exponent")};
  return all;
}

}  // namespace

LayerPtr local_contrast(const LocalContrastOptions& options) {
  return with_options(std::make_unique<LocalContrast>(options), local_contrast_fields(), options);
}
LayerPtr local_contrast_from(const LayerFields& text) {
  return local_contrast(read_fields(local_contrast_fields(), text));
}

}  // namespace pleiad::nn
