#include "data/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "data/pixels.h"
#include "data/streams.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

[[noreturn]] void fail_transform(const Field& field, const std::string& what) {
  throw InvalidArgument(
      fmt::format("[Loader] transform of \"{}\" [{}]: {}", field.name, fmt::join(field.shape, ", "), what));
}

}  // namespace

Transform::Transform(const Store& store, std::size_t field, const TransformOptions& options, std::uint64_t seed)
    : store_(store),
      field_(field),
      seed_(seed),
      output_(store.fields()[field]),
      image_(output_.shape.size() == 3),
      random_crop_(options.random_crop),
      mirror_(options.mirror) {
  check_geometry(options);
  check_numbers(options);
  output_.type = FieldType::float32;
  if (image_) output_.shape = {channels_, tile_.height, tile_.width};
}

void Transform::check_geometry(const TransformOptions& options) {
  if (!image_) {
    const bool moves = options.pad != 0 || options.crop_height != 0 || options.crop_width != 0 || options.mirror ||
                       options.random_crop || options.tile;
    if (moves) fail_transform(output_, "pad, crop, mirror and tile need images of [channels, height, width]");
    width_ = output_.count();
    return;
  }
  channels_ = output_.shape[0];
  height_ = output_.shape[1];
  width_ = output_.shape[2];
  pad_ = options.pad;
  constexpr std::int64_t kMaxPad = 1 << 20;
  if (pad_ < 0 || pad_ > kMaxPad)
    fail_transform(output_, fmt::format("expected a pad of 0 to {}; received {}", kMaxPad, pad_));
  const std::int64_t padded_height = height_ + 2 * pad_;
  const std::int64_t padded_width = width_ + 2 * pad_;
  crop_height_ = options.crop_height == 0 ? padded_height : options.crop_height;
  crop_width_ = options.crop_width == 0 ? padded_width : options.crop_width;
  if (crop_height_ < 1 || crop_height_ > padded_height || crop_width_ < 1 || crop_width_ > padded_width) {
    fail_transform(output_, fmt::format("expected a crop of at most {} x {}; received {} x {}", padded_height,
                                        padded_width, crop_height_, crop_width_));
  }
  tile_ = options.tile.value_or(Window{.top = 0, .left = 0, .height = crop_height_, .width = crop_width_});
  if (tile_.top < 0 || tile_.left < 0 || tile_.height < 0 || tile_.width < 0 || tile_.top > crop_height_ ||
      tile_.left > crop_width_ || tile_.height > crop_height_ - tile_.top || tile_.width > crop_width_ - tile_.left) {
    fail_transform(output_, fmt::format("expected a tile within {} x {}; received {} x {} at {}, {}", crop_height_,
                                        crop_width_, tile_.height, tile_.width, tile_.top, tile_.left));
  }
}

void Transform::check_numbers(const TransformOptions& options) {
  const auto all = static_cast<std::size_t>(channels_ * height_ * width_);
  const auto channels = static_cast<std::size_t>(channels_);
  const auto check_size = [&](const std::vector<float>& numbers, const char* what) {
    if (numbers.size() > 1 && numbers.size() != channels && numbers.size() != all) {
      fail_transform(output_, fmt::format("expected a {} of 1, {} (channels) or {} (pixels) values; received {}", what,
                                          channels, all, numbers.size()));
    }
  };
  check_size(options.mean, "mean");
  check_size(options.deviation, "deviation");
  const std::size_t widest = std::max(options.mean.size(), options.deviation.size());
  each_ = widest > channels;
  const std::size_t count = each_ ? all : channels;
  const auto number = [&](const std::vector<float>& numbers, std::size_t i, float absent) {
    if (numbers.empty()) return absent;
    if (numbers.size() == 1) return numbers[0];
    return numbers.size() == count ? numbers[i] : numbers[i / (all / channels)];
  };
  if (!std::isfinite(options.scale))
    fail_transform(output_, fmt::format("expected a finite scale; received {}", options.scale));
  for (std::size_t i = 0; i < count; ++i) {
    const float mean = number(options.mean, i, 0.0F);
    const float deviation = number(options.deviation, i, 1.0F);
    if (!std::isfinite(mean)) fail_transform(output_, fmt::format("expected finite means; value {} is {}", i, mean));
    if (!std::isfinite(deviation) || deviation <= 0) {
      fail_transform(output_, fmt::format("expected deviations above 0; value {} is {}", i, deviation));
    }
    mean_.push_back(mean);
    factor_.push_back(static_cast<float>(options.scale / static_cast<double>(deviation)));
  }
}

void Transform::apply(const Sample& sample, std::vector<std::byte>& scratch, float* out) const {
  const Field& stored = store_.fields()[field_];
  PixelJob job{.type = stored.type,
               .channels = channels_,
               .out = out,
               .mean = mean_.data(),
               .factor = factor_.data(),
               .each = each_,
               .mean_row = width_,
               .mean_plane = height_ * width_};
  if (!image_) {
    scratch.resize(stored.bytes());
    store_.read(field_, {&sample.record, 1}, scratch);
    job.rows = 1;
    job.cols = width_;
    job.in = scratch.data();
    convert_pixels(job);
    return;
  }
  std::int64_t top = (height_ + 2 * pad_ - crop_height_) / 2;
  std::int64_t left = (width_ + 2 * pad_ - crop_width_) / 2;
  if (random_crop_ || mirror_) {
    const auto bits = Philox::seeded(seed_)({static_cast<std::uint32_t>(sample.record),
                                             static_cast<std::uint32_t>(sample.record >> 32),
                                             static_cast<std::uint32_t>(sample.epoch), kAugmentStream});
    if (random_crop_) {
      top = below(bits[0], static_cast<std::uint32_t>(height_ + 2 * pad_ - crop_height_ + 1));
      left = below(bits[1], static_cast<std::uint32_t>(width_ + 2 * pad_ - crop_width_ + 1));
    }
    job.mirror = mirror_ && (bits[2] & 1) != 0;
  }
  // The position of the tile in the stored image, and the part of the tile inside the image; the rest is padding.
  top += tile_.top - pad_;
  left += (job.mirror ? crop_width_ - tile_.left - tile_.width : tile_.left) - pad_;
  Window window{.top = std::max<std::int64_t>(top, 0), .left = std::max<std::int64_t>(left, 0)};
  window.height = std::max<std::int64_t>(std::min(top + tile_.height, height_) - window.top, 0);
  window.width = std::max<std::int64_t>(std::min(left + tile_.width, width_) - window.left, 0);
  if (window.height < tile_.height || window.width < tile_.width) std::fill_n(out, output_.count(), 0.0F);
  if (window.height == 0 || window.width == 0) return;

  scratch.resize(static_cast<std::size_t>(channels_ * window.height * window.width) * size_of(stored.type));
  store_.read_window(field_, {&sample.record, 1}, window, scratch);
  const std::int64_t right_margin = left + tile_.width - window.left - window.width;
  job.in = scratch.data();
  job.rows = window.height;
  job.cols = window.width;
  job.out_row = tile_.width;
  job.out_plane = tile_.height * tile_.width;
  job.out += (window.top - top) * tile_.width + (job.mirror ? right_margin : window.left - left);
  if (each_) {
    job.mean += window.top * width_ + window.left;
    job.factor += window.top * width_ + window.left;
  }
  // Contiguous rows are processed as one row.
  if (!job.mirror && window.width == tile_.width && (!each_ || window.width == width_)) {
    job.cols *= job.rows;
    job.rows = 1;
  }
  convert_pixels(job);
}

}  // namespace pleiad::data
