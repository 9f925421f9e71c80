#include <optional>

#include "kernel/elementwise.h"
#include "kernel/norm.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

/// The layer's name selects the random stream, so two dropout layers of one net draw different masks.
class Dropout final : public Layer, public SpatialLayer {
 public:
  explicit Dropout(const DropoutOptions& options) : ratio_(options.ratio) {
    if (!(ratio_ >= 0 && ratio_ < 1))
      throw InvalidArgument(fmt::format("expected 0 <= ratio < 1; received {}", ratio_));
  }
  [[nodiscard]] std::string kind() const override { return "dropout"; }
  [[nodiscard]] std::string summary() const override { return fmt::format("{}", ratio_); }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return in;
  }
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return {in[0]}; }
  [[nodiscard]] LayerPtr on_tile(const TilePlace& place) const override {
    auto part = std::make_unique<Dropout>(DropoutOptions{.ratio = ratio_});
    part->tile_ = place.in;
    part->width_ = place.in_w;
    return part;
  }
  void forward(Pass& pass) override {
    if (pass.phase != Phase::train) {
      kernel::copy(pass.y[0], pass.x[0]);
      return;
    }
    if (tile_) {
      kernel::dropout_tile(RandomStream(pass.seed, pass.name), pass.step, pass.first_sample, ratio_, *tile_, width_,
                           pass.x[0], pass.y[0], pass.workspace[0]);
      return;
    }
    kernel::dropout(RandomStream(pass.seed, pass.name), pass.step, pass.first_sample, ratio_, pass.x[0], pass.y[0],
                    pass.workspace[0]);
  }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) kernel::multiply(pass.dy[0], pass.workspace[0], pass.dx[0]);
  }

 private:
  const double ratio_;
  std::optional<Rect> tile_;  // region of the image, if this layer works on a tile
  std::int64_t width_ = 0;    // width of the whole image
};

const Fields<DropoutOptions>& dropout_fields() {
  static const Fields<DropoutOptions> all = {
      field("ratio", &DropoutOptions::ratio, "fraction of the elements that is zeroed")};
  return all;
}

}  // namespace

LayerPtr dropout(const DropoutOptions& options) {
  return with_options(std::make_unique<Dropout>(options), dropout_fields(), options);
}
LayerPtr dropout_from(const LayerFields& text) { return dropout(read_fields(dropout_fields(), text)); }

}  // namespace pleiad::nn
