#include "train/event_log.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "pleiad/events.h"
#include "pleiad/train.h"

namespace pleiad {

namespace {

constexpr std::int64_t kMostTiles = 64;

/// Arranges images in a nearly square grid with lines of the darkest value between them.
class Mosaic {
 public:
  Mosaic(std::int64_t count, std::int64_t height, std::int64_t width, std::int64_t channels)
      : height_(height), width_(width), channels_(channels) {
    columns_ = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    rows_ = (count + columns_ - 1) / columns_;
    pixels_.resize(static_cast<std::size_t>(channels_ * whole_height() * whole_width()));
  }

  [[nodiscard]] std::int64_t whole_height() const { return rows_ * (height_ + 1) - 1; }
  [[nodiscard]] std::int64_t whole_width() const { return columns_ * (width_ + 1) - 1; }

  void put(std::int64_t tile, std::int64_t y, std::int64_t x, std::int64_t c, double share) {
    const std::int64_t row = tile / columns_ * (height_ + 1) + y;
    const std::int64_t column = tile % columns_ * (width_ + 1) + x;
    pixels_[static_cast<std::size_t>((c * whole_height() + row) * whole_width() + column)] =
        static_cast<std::uint8_t>(std::clamp(std::lround(share * 255), 0L, 255L));
  }
  void log(EventLog& to, const std::string& tag, std::int64_t step) const {
    to.image(tag, step, pixels_, channels_, whole_height(), whole_width());
  }

 private:
  std::int64_t height_, width_, channels_, columns_, rows_;
  std::vector<std::uint8_t> pixels_;
};

/// Returns the side of a square with this number of pixels, or 0 if there is none greater than 1.
std::int64_t side_of(std::int64_t places) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(places))));
  return side > 1 && side * side == places ? side : 0;
}

}  // namespace

bool makes_pictures(const Shape& shape) { return shape.rank() == 4 || (shape.rank() == 2 && side_of(shape[1]) > 0); }

bool log_pictures(EventLog& log, const std::string& tag, const Tensor& numbers, std::int64_t step) {
  if (!makes_pictures(numbers.shape())) return false;
  const std::int64_t side = numbers.shape().rank() == 2 ? side_of(numbers.shape()[1]) : 0;
  const Tensor images = side == 0 ? numbers : numbers.reshaped({numbers.shape()[0], side, side, 1});
  const Shape& shape = images.shape();
  const std::int64_t height = shape[1];
  const std::int64_t width = shape[2];
  // Channels other than red, green and blue are shown as separate images.
  const bool colours = shape[3] == 3;
  const std::int64_t maps = colours ? 1 : shape[3];
  const std::int64_t tiles = std::min(kMostTiles, shape[0] * maps);
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  const auto each = [&](const auto& visit) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          for (std::int64_t c = 0; c < (colours ? 3 : 1); ++c) {
            const std::int64_t channel = colours ? c : tile % maps;
            const double value = images.at(((tile / maps * height + y) * width + x) * shape[3] + channel);
            if (std::isfinite(value)) visit(tile, y, x, c, value);
          }
        }
      }
    }
  };
  each([&](std::int64_t, std::int64_t, std::int64_t, std::int64_t, double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  });
  const double range = greatest > least ? greatest - least : 1;
  Mosaic mosaic(tiles, height, width, colours ? 3 : 1);
  each([&](std::int64_t tile, std::int64_t y, std::int64_t x, std::int64_t c, double value) {
    mosaic.put(tile, y, x, c, (value - least) / range);
  });
  mosaic.log(log, tag, step);
  return true;
}

void log_parameters(EventLog& log, const nn::Net& net, std::int64_t step) {
  std::vector<double> numbers;
  for (const nn::Parameter& parameter : net.parameters()) {
    numbers.resize(static_cast<std::size_t>(parameter.value.count()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = parameter.value.at(static_cast<std::int64_t>(i));
    log.histogram("parameters/" + parameter.name, step, numbers);
    // Skips biases and 1x1 filters, which make no useful image.
    const Shape& shape = parameter.value.shape();
    if (shape.rank() == 2 || (shape.rank() == 4 && shape[1] * shape[2] > 1)) {
      log_pictures(log, "filters/" + parameter.name, parameter.value, step);
    }
  }
}

}  // namespace pleiad
