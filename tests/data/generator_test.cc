#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "file/checksum.h"
#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

TEST(Generator, GivesTheSameBytesEverywhere) {
  const Folder folder;
  generate_cifar10(folder.path(), {.train = 52, .test = 10, .seed = 3});
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}));
  std::string all;
  for (const std::string& name : folder.names()) all += slurp(folder / name);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(all))), 1551829419U);
  EXPECT_EQ(open_dataset({.name = "cifar10", .folder = folder.path()})->size(), 52);
  EXPECT_EQ(open_dataset({.name = "cifar10", .part = "test", .folder = folder.path()})->size(), 10);
}

TEST(Generator, RefusesSetsWithoutPictures) {
  const Folder folder;
  expect_error<InvalidArgument>([&] { generate_cifar10(folder.path(), {.train = 4}); }, {"at least 5", "received 4"});
  spit(folder / "file", "");
  expect_error<FileError>([&] { generate_cifar10(folder / "file/sub"); }, {folder / "file/sub"});
}

/// Images as a linear model sees them: raw pixels, or pooled responses of random 5 x 5 filters, which every
/// convolutional net can compute.
class Features {
 public:
  Features(const std::string& folder, const std::string& part, bool filtered) {
    Loader loader(open_dataset({.name = "cifar10", .part = part, .folder = folder}),
                  {.batch = 1, .epochs = 1, .transform = {.mean = {128}, .scale = 1.0 / 64}});
    while (const auto batch = loader.next()) {
      labels.push_back(batch->ints(1)[0]);
      const auto image = batch->floats(0);
      rows.push_back(filtered ? answers(image) : std::vector<float>(image.begin(), image.end()));
    }
  }

  std::vector<std::vector<float>> rows;
  std::vector<int> labels;

 private:
  /// The maximum and the mean absolute response of every filter over the whole image.
  static std::vector<float> answers(std::span<const float> image) {
    constexpr std::size_t kFilters = 32;
    static const std::vector<float> kWeights = [] {
      std::vector<float> weights;
      for (std::uint32_t i = 0; i < kFilters * 75; ++i) {
        weights.push_back(static_cast<float>(Philox::seeded(11)({i, 0, 0, 0})[0]) / 2147483648.0F - 1);
      }
      return weights;
    }();
    std::vector<float> gray(1024);
    for (std::size_t i = 0; i < 3072; ++i) gray[i % 1024] += image[i] / 3;
    std::vector<float> result;
    for (std::size_t f = 0; f < kFilters; ++f) {
      float most = 0;
      float sum = 0;
      const float* w = kWeights.data() + f * 25;
      const float middle = std::accumulate(w, w + 25, 0.0F) / 25;
      for (std::size_t y = 0; y + 5 <= 32; ++y) {
        for (std::size_t x = 0; x + 5 <= 32; ++x) {
          float answer = 0;
          for (std::size_t k = 0; k < 25; ++k) answer += (w[k] - middle) * gray[(y + k / 5) * 32 + x + k % 5];
          most = std::max(most, std::abs(answer));
          sum += std::abs(answer);
        }
      }
      result.push_back(most / 4);
      result.push_back(sum / 784);
    }
    return result;
  }
};

/// Returns the test accuracy of a softmax regression.
double accuracy(const Features& train, const Features& test, int epochs, float rate) {
  const std::size_t inputs = train.rows[0].size();
  std::vector<float> weights(10 * (inputs + 1));
  const auto scores = [&](const std::vector<float>& row) {
    std::vector<float> result(10);
    for (std::size_t c = 0; c < 10; ++c) {
      const float* w = weights.data() + c * (inputs + 1);
      result[c] = std::inner_product(row.begin(), row.end(), w, w[inputs]);
    }
    return result;
  };
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::size_t i = 0; i < train.rows.size(); ++i) {
      auto s = scores(train.rows[i]);
      const float top = *std::ranges::max_element(s);
      float sum = 0;
      for (float& value : s) sum += value = std::exp(value - top);
      for (std::size_t c = 0; c < 10; ++c) {
        const float step = rate * (s[c] / sum - (train.labels[i] == static_cast<int>(c) ? 1.0F : 0.0F));
        float* w = weights.data() + c * (inputs + 1);
        for (std::size_t k = 0; k < inputs; ++k) w[k] -= step * train.rows[i][k];
        w[inputs] -= step;
      }
    }
  }
  int right = 0;
  for (std::size_t i = 0; i < test.rows.size(); ++i) {
    const auto s = scores(test.rows[i]);
    right += std::ranges::max_element(s) - s.begin() == test.labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.rows.size());
}

TEST(Generator, ShapesAreLearntFromFiltersAndHardlyFromPixels) {
  const Folder folder;
  generate_cifar10(folder.path(), {.train = 1000, .test = 300});
  const double pixels = accuracy({folder.path(), "train", false}, {folder.path(), "test", false}, 3, 1e-3F);
  const double filters = accuracy({folder.path(), "train", true}, {folder.path(), "test", true}, 30, 0.02F);
  RecordProperty("pixels", std::to_string(pixels));
  RecordProperty("filters", std::to_string(filters));
  EXPECT_LT(pixels, 0.35) << "too easy: pixels alone tell the classes apart";
  EXPECT_GT(filters, 0.5);
}

}  // namespace
