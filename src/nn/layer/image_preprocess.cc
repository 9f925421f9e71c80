#include "core/random.h"
#include "core/threads.h"
#include "kernel/types.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

/// In training, draws a random crop and a random mirroring for each sample. In the other phases, takes the centre crop
/// without mirroring.
class ImagePreprocess final : public Layer {
 public:
  explicit ImagePreprocess(const ImagePreprocessOptions& options) : o_(options) { expect_at_least("crop", o_.crop, 0); }
  [[nodiscard]] std::string kind() const override { return "image_preprocess"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    Shape y = expect_image(in);
    if (o_.crop == 0) return {y};
    if (o_.crop > y[1] || o_.crop > y[2]) {
      throw InvalidArgument(fmt::format("crops of {0}x{0} do not fit in images of shape {1}", o_.crop, y.text()));
    }
    y.set(1, o_.crop);
    y.set(2, o_.crop);
    return {y};
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("crop {}{}, times {}", o_.crop, o_.mirror ? ", mirror" : "", o_.scale);
  }
  void forward(Pass& pass) override {
    each_row(pass, [&]<class T>(T factor, std::int64_t from, std::int64_t to, std::int64_t width, std::int64_t channels,
                                bool mirrored) {
      const T* x = kernel::data<T>(pass.x[0]) + from;
      T* y = kernel::data<T>(pass.y[0]) + to;
      for (std::int64_t i = 0; i < width * channels; ++i) y[i] = factor * x[place(i, width, channels, mirrored)];
    });
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    pass.dx[0].fill(0);
    each_row(pass, [&]<class T>(T factor, std::int64_t from, std::int64_t to, std::int64_t width, std::int64_t channels,
                                bool mirrored) {
      T* dx = kernel::data<T>(pass.dx[0]) + from;
      const T* dy = kernel::data<T>(pass.dy[0]) + to;
      for (std::int64_t i = 0; i < width * channels; ++i) dx[place(i, width, channels, mirrored)] = factor * dy[i];
    });
  }

 private:
  static std::int64_t place(std::int64_t i, std::int64_t width, std::int64_t channels, bool mirrored) {
    return mirrored ? (width - 1 - i / channels) * channels + i % channels : i;
  }
  /// Calls body(scale, offset of the crop's row in x, offset in y, width, channels, mirrored) for each row of each
  /// sample.
  template <class Body>
  void each_row(const Pass& pass, Body&& body) const {
    const Shape& in = pass.x[0].shape();
    const Shape& out = pass.y[0].shape();
    const RandomStream stream(pass.seed, pass.name);
    const bool draws = pass.phase == Phase::train;
    kernel::by_type(pass.x[0].dtype(), [&]<class T>(T) {
      parallel_for(in[0], 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const Philox::Block words = stream.words(0, static_cast<std::uint32_t>(pass.first_sample + n), pass.step);
          const auto offset = [&](std::uint32_t word, std::int64_t room) {
            return draws ? below(word, static_cast<std::uint32_t>(room + 1)) : room / 2;
          };
          const std::int64_t top = offset(words[0], in[1] - out[1]);
          const std::int64_t left = offset(words[1], in[2] - out[2]);
          const bool mirrored = draws && o_.mirror && (words[2] >> 31) != 0;
          for (std::int64_t i = 0; i < out[1]; ++i) {
            body(static_cast<T>(o_.scale), ((n * in[1] + top + i) * in[2] + left) * in[3],
                 (n * out[1] + i) * out[2] * out[3], out[2], out[3], mirrored);
          }
        }
      });
    });
  }
  const ImagePreprocessOptions o_;
};

const Fields<ImagePreprocessOptions>& image_preprocess_fields() {
  using O = ImagePreprocessOptions;
  static const Fields<O> all = {field("crop", &O::crop, "side of the crops; 0 keeps whole images"),
                                field("mirror", &O::mirror, "mirror half of the images at random"),
                                field("scale", &O::scale, "factor for all values")};
  return all;
}

}  // namespace

LayerPtr image_preprocess(const ImagePreprocessOptions& options) {
  return with_options(std::make_unique<ImagePreprocess>(options), image_preprocess_fields(), options);
}
LayerPtr image_preprocess_from(const LayerFields& text) {
  return image_preprocess(read_fields(image_preprocess_fields(), text));
}

}  // namespace pleiad::nn
