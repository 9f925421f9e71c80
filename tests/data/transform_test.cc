#include "data/transform.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;
using data::Sample;
using data::Transform;

struct Made {
  std::vector<std::uint8_t> memory;
  std::unique_ptr<Store> store;
};

Made make_store(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Made made;
  const std::string text = images(kRecords, channels * height * width);
  made.memory.assign(text.begin(), text.end());
  made.store = open_arrays({{{"data", FieldType::uint8, {channels, height, width}}, bytes_of(made.memory)}});
  return made;
}

std::vector<float> apply(const Store& store, const TransformOptions& options, Sample sample, std::uint64_t seed = 5) {
  const Transform transform(store, 0, options, seed);
  std::vector<float> out(static_cast<std::size_t>(transform.output().count()), -99);
  std::vector<std::byte> scratch;
  transform.apply(sample, scratch, out.data());
  return out;
}

/// The slow reference: pads, crops, mirrors and normalises the whole image one step after another.
std::vector<float> oracle(const Store& store, const TransformOptions& options, std::int64_t record, std::int64_t top,
                          std::int64_t left, bool mirror) {
  const auto& shape = store.fields()[0].shape;
  const auto stored = numbers(store, 0, {record});
  const std::int64_t height = options.crop_height == 0 ? shape[1] + 2 * options.pad : options.crop_height;
  const std::int64_t width = options.crop_width == 0 ? shape[2] + 2 * options.pad : options.crop_width;
  const auto pick = [&](const std::vector<float>& from, std::int64_t c, std::int64_t i, float absent) {
    if (from.empty()) return absent;
    if (from.size() == 1) return from[0];
    return from[static_cast<std::size_t>(from.size() == static_cast<std::size_t>(shape[0]) ? c : i)];
  };
  std::vector<float> out;
  for (std::int64_t c = 0; c < shape[0]; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t from_y = top + y - options.pad;
        const std::int64_t from_x = left + (mirror ? width - 1 - x : x) - options.pad;
        if (from_y < 0 || from_x < 0 || from_y >= shape[1] || from_x >= shape[2]) {
          out.push_back(0);
          continue;
        }
        const std::int64_t i = (c * shape[1] + from_y) * shape[2] + from_x;
        const auto value = static_cast<float>(stored[static_cast<std::size_t>(i)]);
        const auto factor = static_cast<float>(options.scale / static_cast<double>(pick(options.deviation, c, i, 1)));
        out.push_back((value - pick(options.mean, c, i, 0)) * factor);
      }
    }
  }
  return out;
}

TEST(Transform, AtTheCentreIsExact) {
  const Made made = make_store(3, 6, 7);
  for (const std::size_t count : {0, 1, 3, 126}) {
    for (const std::int64_t pad : {0, 2}) {
      for (const std::int64_t crop : {0, 4}) {
        TransformOptions options{.scale = 0.5, .pad = pad, .crop_height = crop, .crop_width = crop == 0 ? 0 : 5};
        for (std::size_t i = 0; i < count; ++i) {
          options.mean.push_back(static_cast<float>(i) * 0.3F + 1);
          options.deviation.push_back(1 + static_cast<float>(i % 5));
        }
        const std::int64_t top = crop == 0 ? 0 : (6 + 2 * pad - 4) / 2;
        const std::int64_t left = crop == 0 ? 0 : (7 + 2 * pad - 5) / 2;
        EXPECT_EQ(apply(*made.store, options, {.record = 4}), oracle(*made.store, options, 4, top, left, false))
            << count << " " << pad << " " << crop;
      }
    }
  }
}

TEST(Transform, MeanOfOneKindAndDeviationOfAnother) {
  const Made made = make_store(2, 2, 2);
  TransformOptions options{.mean = {1, 2, 3, 4, 5, 6, 7, 8}, .deviation = {2, 4}};
  EXPECT_EQ(apply(*made.store, options, {}), oracle(*made.store, options, 0, 0, 0, false));
  options = {.mean = {3, 4}, .deviation = {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_EQ(apply(*made.store, options, {}), oracle(*made.store, options, 0, 0, 0, false));
}

TEST(Transform, RandomCropsAndMirrorsReachEveryPositionAndAreExact) {
  const Made made = make_store(2, 5, 6);
  const TransformOptions options{
      .mean = {1, 2}, .pad = 1, .crop_height = 5, .crop_width = 7, .random_crop = true, .mirror = true};
  std::vector<int> seen(3 * 2 * 2);
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto out = apply(*made.store, options, {.record = 3, .epoch = epoch});
    int matches = 0;
    for (std::size_t place = 0; place < seen.size(); ++place) {
      const auto top = static_cast<std::int64_t>(place / 4);
      const auto left = static_cast<std::int64_t>(place / 2 % 2);
      if (out != oracle(*made.store, options, 3, top, left, place % 2 == 1)) continue;
      ++matches;
      ++seen[place];
    }
    ASSERT_EQ(matches, 1) << "epoch " << epoch;
  }
  for (const int count : seen) EXPECT_GT(count, 4);
}

TEST(Transform, DrawsDependOnSeedEpochAndRecordAlone) {
  const Made made = make_store(1, 20, 20);
  const TransformOptions options{.crop_height = 8, .crop_width = 8, .random_crop = true, .mirror = true};
  const auto first = apply(*made.store, options, {.record = 2, .epoch = 3});
  EXPECT_EQ(apply(*made.store, options, {.record = 2, .epoch = 3}), first);
  EXPECT_NE(apply(*made.store, options, {.record = 2, .epoch = 4}), first);
  EXPECT_NE(apply(*made.store, options, {.record = 2, .epoch = 3}, 6), first);
}

TEST(Transform, TilesOfAnyGridMakeUpTheImage) {
  const Made made = make_store(2, 9, 8);
  TransformOptions options{
      .mean = {4, 5}, .scale = 0.1, .pad = 2, .crop_height = 9, .crop_width = 8, .random_crop = true, .mirror = true};
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    options.tile.reset();
    const auto whole = apply(*made.store, options, {.record = 1, .epoch = epoch});
    for (const std::int64_t rows : {1, 2, 4}) {
      for (const std::int64_t cols : {1, 3, 8}) {
        std::vector<float> joined(whole.size(), -1);
        for (std::int64_t tile = 0; tile < rows * cols; ++tile) {
          const std::int64_t r = tile / cols;
          const std::int64_t c = tile % cols;
          const Window window{.top = 9 * r / rows,
                              .left = 8 * c / cols,
                              .height = 9 * (r + 1) / rows - 9 * r / rows,
                              .width = 8 * (c + 1) / cols - 8 * c / cols};
          options.tile = window;
          const auto part = apply(*made.store, options, {.record = 1, .epoch = epoch});
          std::size_t at = 0;
          for (std::int64_t channel = 0; channel < 2; ++channel) {
            for (std::int64_t y = 0; y < window.height; ++y) {
              for (std::int64_t x = 0; x < window.width; ++x) {
                joined[static_cast<std::size_t>((channel * 9 + window.top + y) * 8 + window.left + x)] = part[at++];
              }
            }
          }
        }
        EXPECT_EQ(joined, whole) << rows << " x " << cols;
      }
    }
  }
}

TEST(Transform, OfVectorsOnlyNormalises) {
  const std::vector<double> x = {1, 2, 3, 4};
  const auto store = open_arrays({{{"data", FieldType::float64, {2}}, bytes_of(x)}});
  EXPECT_EQ(apply(*store, {.mean = {1, 0}, .scale = 2}, {.record = 1}), (std::vector<float>{4, 8}));
  expect_error<InvalidArgument>([&] { (void)apply(*store, {.mirror = true}, {}); }, {"\"data\" [2]", "need images"});
}

TEST(Transform, RefusesWhatDoesNotFit) {
  const Made made = make_store(3, 4, 4);
  const auto refuses = [&](const TransformOptions& options, const std::vector<std::string>& words) {
    expect_error<InvalidArgument>([&] { (void)apply(*made.store, options, {}); }, words);
  };
  refuses({.mean = {1, 2}}, {"\"data\" [3, 4, 4]", "mean of 1, 3 (channels) or 48 (pixels)", "received 2"});
  refuses({.deviation = {1, 0, 1}}, {"deviations above 0", "value 1"});
  refuses({.mean = {NAN}}, {"value 0 is nan"});
  refuses({.scale = INFINITY}, {"finite scale"});
  refuses({.pad = -1}, {"pad"});
  refuses({.pad = 1, .crop_height = 7}, {"at most 6 x 6", "received 7 x 6"});
  refuses({.crop_height = 2, .crop_width = 2, .tile = Window{.top = 1, .left = 0, .height = 2, .width = 1}},
          {"tile within 2 x 2"});
}

}  // namespace
