// Samples from stores: which samples reach a net, and in which order, on any number of ranks.
#include <gtest/gtest.h>

#include <map>

#include "pleiad/error.h"
#include "tests/file/folder.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;

/// Twenty-five images of 3 x 2 x 4 whose elements encode image, channel and position, with the index of the image as
/// label.
class Numbered {
 public:
  static constexpr std::int64_t kCount = 25;
  Numbered() {
    for (int n = 0; n < kCount; ++n) {
      for (int i = 0; i < 24; ++i) pixels_.push_back(static_cast<float>(n * 100 + i));
      labels_.push_back(n);
    }
  }
  [[nodiscard]] std::shared_ptr<const Store> store() const {
    return open_arrays({{.field = {.name = "data", .type = FieldType::float32, .shape = {3, 2, 4}},
                         .bytes = std::as_bytes(std::span(pixels_))},
                        {.field = {.name = "label", .type = FieldType::int32, .shape = {}},
                         .bytes = std::as_bytes(std::span(labels_))}});
  }

 private:
  std::vector<float> pixels_;
  std::vector<std::int32_t> labels_;
};

nn::Net taker(const Shape& sample, DType dtype = DType::float32, std::int64_t batch = 4) {
  nn::Net net({.dtype = dtype});
  net.input("label", {}, DType::int32).input("x", sample);
  net.add("flat", nn::flatten());
  net.prepare(batch);
  return net;
}

std::vector<std::int32_t> labels_in(const nn::Net& net) {
  const auto values = net.input_tensor("label").values<std::int32_t>();
  return {values.begin(), values.end()};
}

TEST(StoreSamples, ComeWithTheirChannelsLast) {
  const Numbered data;
  for (const DType dtype : {DType::float32, DType::float64}) {
    nn::Net net = taker({2, 4, 3}, dtype);
    const auto samples = store_samples(data.store(), {.shuffle = false});
    EXPECT_EQ(samples->count(), 25);
    samples->fill(net, 4, 4);
    EXPECT_EQ(labels_in(net), (std::vector<std::int32_t>{4, 5, 6, 7}));
    const Tensor x = net.input_tensor("x");
    for (std::int64_t n = 0; n < 4; ++n) {
      for (std::int64_t p = 0; p < 8; ++p) {
        for (std::int64_t c = 0; c < 3; ++c) {
          ASSERT_EQ(x.at(n * 24 + p * 3 + c), static_cast<double>((n + 4) * 100 + c * 8 + p));
        }
      }
    }
  }
  nn::Net flat = taker({24});  // flat inputs keep the file's order of values
  store_samples(data.store(), {.shuffle = false})->fill(flat, 0, 4);
  EXPECT_EQ(flat.input_tensor("x").at(25), 101);
}

TEST(StoreSamples, OfAPositionAreTheSameInAnyOrderAndOnAnyRank) {
  const Numbered data;
  const auto sequence = [&](int ranks) {
    std::vector<std::int32_t> all;
    std::vector<std::unique_ptr<Samples>> of_rank;
    for (int r = 0; r < ranks; ++r) {
      of_rank.push_back(store_samples(data.store(), {.seed = 5, .threads = 2}));
      of_rank.back()->expect(8, r, ranks);
    }
    nn::Net net = taker({24}, DType::float32, 8 / ranks);
    for (std::int64_t step = 0; step < 10; ++step) {  // three passes over the 25 samples
      for (int r = 0; r < ranks; ++r) {
        of_rank[static_cast<std::size_t>(r)]->fill(net, step * 8 + r * (8 / ranks), 8 / ranks);
        for (const std::int32_t label : labels_in(net)) all.push_back(label);
      }
    }
    return all;
  };
  const std::vector<std::int32_t> alone = sequence(1);
  EXPECT_EQ(sequence(2), alone);
  EXPECT_EQ(sequence(4), alone);
  // Every epoch contains every sample once, in a different order.
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> sorted(alone.begin() + epoch * 25, alone.begin() + (epoch + 1) * 25);
    std::ranges::sort(sorted);
    for (int n = 0; n < 25; ++n) ASSERT_EQ(sorted[static_cast<std::size_t>(n)], n);
  }
  EXPECT_FALSE(std::equal(alone.begin(), alone.begin() + 25, alone.begin() + 25));
  // The same step gives the same samples again.
  const auto again = store_samples(data.store(), {.seed = 5});
  nn::Net net = taker({24}, DType::float32, 8);
  for (const std::int64_t step : {7, 2, 3, 0}) {
    again->fill(net, step * 8, 8);
    EXPECT_TRUE(std::equal(alone.begin() + step * 8, alone.begin() + step * 8 + 8, labels_in(net).begin())) << step;
  }
}

TEST(StoreSamples, ThatDoNotFitAreNamed) {
  const Numbered data;
  nn::Net net = taker({3, 2, 4});
  const auto samples = store_samples(data.store());
  expect_error<InvalidArgument>([&] { samples->fill(net, 0, 4); }, {"\"x\"", "(3, 2, 4)", "channels first"});
  expect_error<InvalidArgument>([&] { (void)store_samples(data.store(), {.inputs = {{"x", "pixels"}}}); },
                                {"pixels", "data"});
  expect_error<InvalidArgument>([] { (void)store_samples(nullptr); }, {"none"});
}

TEST(StoreSamples, TrainTheSameNetOnOneTwoAndFourRanks) {
  const auto all = images();
  std::vector<float> pixels;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t p = 0; p < 64; ++p) pixels.push_back(all[0].second.values<float>()[n * 128 + p * 2 + c]);
    }
  }
  const auto labels = all[1].second.values<std::int32_t>();
  const auto open = [&] {
    std::shared_ptr<const Store> store = open_arrays(
        {{.field = {.name = "data", .type = FieldType::float32, .shape = {2, 8, 8}},
          .bytes = std::as_bytes(std::span(pixels))},
         {.field = {.name = "label", .type = FieldType::int32, .shape = {}}, .bytes = std::as_bytes(labels)}});
    return store_samples(store, {.transform = {.mirror = true}});
  };
  std::map<int, std::vector<double>> traces;
  for (const int ranks : {1, 2, 4}) {
    run_cluster(ranks, [&](Session& session) {
      nn::Net net = cnn(4, true);  // batch normalisation over the samples of all ranks
      {
        Trainer trainer(net, options("momentum", "auto"), session);
        const std::vector<double> mine = trace(trainer, *open());
        if (session.rank() == 0) traces[ranks] = mine;
      }
      session.shutdown();
    });
    ASSERT_EQ(traces[ranks].size(), 20U);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(traces[ranks][i], traces[1][i], 1e-5 * std::max(1.0, traces[1][i])) << ranks << " ranks, step " << i;
  }
}

}  // namespace
}  // namespace pleiad
