#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.h"
#include "job/singa_layers.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

/// Source positions of the pixels of a distorted image: an offset for each pixel, in pixels of the result.
struct DisplacementField {
  std::vector<float> y;
  std::vector<float> x;
};

class ElasticDistortion final : public nn::Layer {
 public:
  explicit ElasticDistortion(const MnistProto& conf) : conf_(conf) {
    // A separable Gaussian window.
    const int reach = conf.kernel() / 2;
    const double sigma = conf.sigma() > 0 ? conf.sigma() : 1;
    double sum = 0;
    for (int i = -reach; i <= reach; ++i) sum += window_.emplace_back(std::exp(-i * i / (2 * sigma * sigma)));
    for (double& weight : window_) weight /= sum;
  }

  [[nodiscard]] std::string kind() const override { return "elastic"; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    if (in.size() != 1 || in[0].rank() != 4) {
      throw InvalidArgument(
          fmt::format("expected images (batch, height, width, channels); received {}", in.empty() ? "" : in[0].text()));
    }
    Shape out = in[0];
    if (conf_.resize() > 0) {
      out.set(1, conf_.resize());
      out.set(2, conf_.resize());
    }
    return {out};
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("field {} of {}, turn {}, size {}%", conf_.alpha(), conf_.kernel(), conf_.beta(), conf_.gamma());
  }

  void forward(nn::Pass& pass) override {
    const Shape& in = pass.x[0].shape();
    const Shape& out = pass.y[0].shape();
    const RandomStream stream(pass.seed, pass.name);
    const bool draws = pass.phase == nn::Phase::train;
    const std::int64_t every = std::max(conf_.elastic_freq(), 1);
    DisplacementField field;
    std::int64_t drawn = -1;
    for (std::int64_t n = 0; n < in[0]; ++n) {
      const std::int64_t number = (pass.first_sample + n) / every;
      if (number != drawn) field = draws ? draw(stream, number, pass.step, out[1], out[2]) : still(out[1], out[2]);
      drawn = number;
      move(pass, n, field);
    }
  }
  void backward(nn::Pass&) override {}

 private:
  static DisplacementField still(std::int64_t height, std::int64_t width) {
    const auto count = static_cast<std::size_t>(height * width);
    return {.y = std::vector<float>(count), .x = std::vector<float>(count)};
  }

  [[nodiscard]] DisplacementField draw(const RandomStream& stream, std::int64_t number, std::uint32_t step,
                                       std::int64_t height, std::int64_t width) const {
    DisplacementField field = still(height, width);
    const auto sample = static_cast<std::uint32_t>(number);
    const auto count = static_cast<std::uint64_t>(height * width);
    const auto between = [&](std::uint64_t element) { return 2 * stream.uniform(element, sample, step) - 1; };
    if (conf_.kernel() > 0 && conf_.alpha() != 0) {
      for (std::uint64_t i = 0; i < count; ++i) {
        field.y[i] = static_cast<float>(between(4 + i));
        field.x[i] = static_cast<float>(between(4 + count + i));
      }
      for (std::vector<float>* axis : {&field.y, &field.x}) {
        smooth(*axis, height, width);
        for (float& offset : *axis) offset *= conf_.alpha();
      }
    }
    const double turn = between(0) * conf_.beta() * std::numbers::pi / 180;
    const double shear = std::tan(between(1) * conf_.beta() * std::numbers::pi / 180);
    const double tall = 1 / (1 + between(2) * conf_.gamma() / 100);
    const double wide = 1 / (1 + between(3) * conf_.gamma() / 100);
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        const double y = static_cast<double>(i) - static_cast<double>(height - 1) / 2;
        const double x = static_cast<double>(j) - static_cast<double>(width - 1) / 2;
        const auto at = static_cast<std::size_t>(i * width + j);
        field.y[at] += static_cast<float>((std::cos(turn) * y + std::sin(turn) * x) * tall - y);
        field.x[at] += static_cast<float>((std::cos(turn) * x - std::sin(turn) * y + shear * y) * wide - x);
      }
    }
    return field;
  }

  void smooth(std::vector<float>& numbers, std::int64_t height, std::int64_t width) const {
    const auto reach = static_cast<std::int64_t>(window_.size() / 2);
    std::vector<float> other(numbers.size());
    for (const bool down : {true, false}) {
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          double sum = 0;
          for (std::int64_t k = -reach; k <= reach; ++k) {
            const std::int64_t y = down ? i + k : i, x = down ? j : j + k;
            if (y < 0 || y >= height || x < 0 || x >= width) continue;
            sum += window_[static_cast<std::size_t>(k + reach)] * numbers[static_cast<std::size_t>(y * width + x)];
          }
          other[static_cast<std::size_t>(i * width + j)] = static_cast<float>(sum);
        }
      }
      numbers.swap(other);
    }
  }

  /// Resamples sample n by bilinear interpolation. Positions beyond the border take the nearest pixel.
  static void move(const nn::Pass& pass, std::int64_t n, const DisplacementField& field) {
    const Shape& in = pass.x[0].shape();
    const Shape& out = pass.y[0].shape();
    const float* x = pass.x[0].values<float>().data() + n * in[1] * in[2] * in[3];
    float* y = pass.y[0].values<float>().data() + n * out[1] * out[2] * out[3];
    const auto along = [](double place, std::int64_t from, std::int64_t to) {
      const double scaled = (place + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
      return std::clamp(scaled, 0.0, static_cast<double>(from - 1));
    };
    for (std::int64_t i = 0; i < out[1]; ++i) {
      for (std::int64_t j = 0; j < out[2]; ++j) {
        const auto at = static_cast<std::size_t>(i * out[2] + j);
        const double row = along(static_cast<double>(i) + field.y[at], in[1], out[1]);
        const double column = along(static_cast<double>(j) + field.x[at], in[2], out[2]);
        const auto top = static_cast<std::int64_t>(row), left = static_cast<std::int64_t>(column);
        const std::int64_t bottom = std::min(top + 1, in[1] - 1), right = std::min(left + 1, in[2] - 1);
        const double down = row - static_cast<double>(top), over = column - static_cast<double>(left);
        for (std::int64_t c = 0; c < in[3]; ++c) {
          const auto pixel = [&](std::int64_t a, std::int64_t b) { return double{x[(a * in[2] + b) * in[3] + c]}; };
          y[(i * out[2] + j) * in[3] + c] =
              static_cast<float>((1 - down) * ((1 - over) * pixel(top, left) + over * pixel(top, right)) +
                                 down * ((1 - over) * pixel(bottom, left) + over * pixel(bottom, right)));
        }
      }
    }
  }

  const MnistProto conf_;
  std::vector<double> window_;
};

}  // namespace

bool distorts(const MnistProto& conf) {
  return conf.kernel() != 0 || conf.alpha() != 0 || conf.beta() != 0 || conf.gamma() != 0 || conf.resize() != 0;
}

nn::LayerPtr elastic_distortion(const MnistProto& conf) { return std::make_unique<ElasticDistortion>(conf); }

}  // namespace pleiad::job
