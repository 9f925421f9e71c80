// Deterministic mode on random shapes: every layer that works on tiles is bit-identical on every grid.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/random.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;

/// The random values of one case.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool coin() { return (*this)(0, 1) == 1; }
  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>((*this)(0, static_cast<std::int64_t>(words.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

/// Makes a layer for images of this height and width.
using TiledLayerMaker = std::function<nn::LayerPtr(Draw&, std::int64_t h, std::int64_t w)>;

const nn::Param kWide{.init = {.type = "he"}};

std::int64_t kernel_for(Draw& draw, std::int64_t length) { return draw(1, std::min<std::int64_t>(length, 4)); }

const std::vector<std::pair<std::string, TiledLayerMaker>>& tiled_layers() {
  static const std::vector<std::pair<std::string, TiledLayerMaker>> all = {
      {"convolution",
       [](Draw& draw, std::int64_t h, std::int64_t w) {
         nn::ConvolutionOptions o;
         o.filters = 2 * draw(1, 2);
         o.groups = draw(1, 2);
         o.kernel_h = kernel_for(draw, h);
         o.kernel_w = kernel_for(draw, w);
         o.stride_h = draw(1, 2);
         o.stride_w = draw(1, 2);
         o.pad_top = draw(0, 5);
         o.pad_bottom = draw(0, 5);
         o.pad_left = draw(0, 5);
         o.pad_right = draw(0, 5);
         o.bias = draw.coin();
         o.activation = draw.one_of({"linear", "tanh"});
         o.weight_param = kWide;
         return nn::convolution(o);
       }},
      {"local_convolution",
       [](Draw& draw, std::int64_t h, std::int64_t w) {
         nn::LocalConvolutionOptions o;
         o.filters = draw(1, 3);
         o.kernel_h = kernel_for(draw, h);
         o.kernel_w = kernel_for(draw, w);
         o.stride_h = draw(1, 2);
         o.stride_w = draw(1, 2);
         o.pad_h = draw(0, 5);
         o.pad_w = draw(0, 5);
         o.bias = draw.coin();
         o.activation = draw.one_of({"linear", "tanh"});
         o.weight_param = kWide;
         return nn::local_convolution(o);
       }},
      {"local_convolution transposed",
       [](Draw& draw, std::int64_t, std::int64_t) {
         nn::LocalConvolutionOptions o;
         o.filters = draw(1, 3);
         o.transposed = true;
         o.kernel_h = draw(1, 4);
         o.kernel_w = draw(1, 4);
         o.stride_h = draw(1, 2);
         o.stride_w = draw(1, 2);
         o.bias = draw.coin();
         o.weight_param = kWide;
         return nn::local_convolution(o);
       }},
      {"cross_map_pooling",
       [](Draw& draw, std::int64_t, std::int64_t) {
         return nn::cross_map_pooling({.maps = draw(1, 5), .weight_param = kWide});
       }},
      {"pooling",
       [](Draw& draw, std::int64_t h, std::int64_t w) {
         nn::PoolingOptions o;
         o.type = draw.one_of({"max", "average", "l2"});
         o.kernel = kernel_for(draw, std::min(h, w));
         o.stride = draw(1, 3);
         o.pad = draw(0, o.kernel - 1);
         o.count_padding = draw.coin();
         return nn::pooling(o);
       }},
      {"batch_norm", [](Draw&, std::int64_t, std::int64_t) { return nn::batch_norm(); }},
      {"lrn",
       [](Draw& draw, std::int64_t, std::int64_t) { return nn::lrn({.size = 2 * draw(0, 2) + 1, .alpha = 0.1}); }},
      {"local_contrast",
       [](Draw& draw, std::int64_t, std::int64_t) {
         return nn::local_contrast({.type = draw.one_of({"gaussian", "box"}), .size = 2 * draw(1, 2) + 1});
       }},
      {"dropout", [](Draw&, std::int64_t, std::int64_t) { return nn::dropout({.ratio = 0.4}); }},
      {"activation",
       [](Draw& draw, std::int64_t, std::int64_t) {
         return nn::activation({.function = draw.one_of({"relu", "tanh", "sigmoid"})});
       }},
  };
  return all;
}

/// The layer is between a convolution, which uses the layer's input gradient, and a dense layer.
nn::Net net_around(nn::LayerPtr layer, std::int64_t h, std::int64_t w, DType dtype) {
  nn::Net net({.dtype = dtype, .seed = 5});
  net.input("label", {}, DType::int32).input("x", {h, w, 2});
  nn::ConvolutionOptions before = nn::square(2, 1);
  before.weight_param = kWide;
  net.add("before", nn::convolution(before), {.inputs = {"x"}});
  net.add("layer", std::move(layer));
  net.add("out", nn::dense({.out = 3, .weight_param = kWide}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

struct TiledOutcome {
  std::vector<double> losses;
  std::vector<std::pair<std::string, Tensor>> numbers;
};

TiledOutcome train_tiled(nn::Net& net, const std::string& grid, bool deterministic, Session* session,
                         const std::vector<std::pair<std::string, Tensor>>& arrays) {
  TrainOptions o{.batch = 2, .updater = {.rule = "sgd", .learning_rate = 0.02}, .steps = 3, .display = 1};
  o.plan = {.kind = "spatial", .grid = grid, .deterministic = deterministic};
  const auto trainer =
      session == nullptr ? std::make_unique<Trainer>(net, o) : std::make_unique<Trainer>(net, o, *session);
  TiledOutcome outcome;
  outcome.losses = trace(*trainer, *array_samples(arrays));
  const nn::Net whole = trainer->whole_net();
  for (const nn::Parameter& p : whole.parameters()) outcome.numbers.emplace_back(p.name, p.value.clone());
  for (const auto& [name, state] : whole.states()) outcome.numbers.emplace_back(name, state.clone());
  return outcome;
}

std::vector<std::pair<std::string, Tensor>> random_images(DType dtype, std::int64_t h, std::int64_t w, unsigned seed) {
  const Tensor x(dtype, {4, h, w, 2});
  const RandomStream noise(seed, "images");
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double value = noise.gaussian(static_cast<std::uint64_t>(i));
    if (dtype == DType::float32) x.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(value);
    if (dtype == DType::float64) x.values<double>()[static_cast<std::size_t>(i)] = value;
  }
  const Tensor label(DType::int32, {4});
  for (int n = 0; n < 4; ++n) label.values<std::int32_t>()[static_cast<std::size_t>(n)] = n % 3;
  return {{"x", x}, {"label", label}};
}

class DeterministicLayers : public testing::TestWithParam<std::size_t> {};

TEST_P(DeterministicLayers, AreBitIdenticalToOneRankOnRandomShapes) {
  const auto& [name, make] = tiled_layers()[GetParam()];
  constexpr int kCases = 12;
  const std::vector<std::pair<int, std::string>> grids = {{2, "1x2"}, {3, "3x1"}, {4, "2x2"}, {6, "2x3"}};
  for (int number = 0; number < kCases; ++number) {
    const unsigned seed = 100 * static_cast<unsigned>(GetParam()) + static_cast<unsigned>(number);
    const DType dtype = number % 2 == 0 ? DType::float32 : DType::float64;
    Draw shape(seed);
    const std::int64_t h = shape(1, 8);
    const std::int64_t w = shape(1, 8);  // fewer rows or columns than ranks: some tiles are empty
    const auto arrays = random_images(dtype, h, w, seed);
    const auto made = [&] {
      Draw options(seed + 7);
      return net_around(make(options, h, w), h, w, dtype);
    };
    nn::Net alone = made();
    const TiledOutcome expected = train_tiled(alone, "auto", true, nullptr, arrays);
    nn::Net usual = made();
    const TiledOutcome near = train_tiled(usual, "auto", false, nullptr, arrays);
    for (std::size_t i = 0; i < near.losses.size(); ++i) {
      ASSERT_NEAR(expected.losses[i], near.losses[i], 1e-3 * std::abs(near.losses[i])) << name << ", seed " << seed;
    }
    const auto& [ranks, grid] = grids[static_cast<std::size_t>(number) % grids.size()];
    const std::string where = fmt::format("{}, seed {}, {}x{}, grid {}", name, seed, h, w, grid);
    run_cluster(ranks, [&, g = grid](Session& session) {
      nn::Net net = made();
      const TiledOutcome got = train_tiled(net, g, true, &session, arrays);
      ASSERT_EQ(got.losses, expected.losses) << where;
      ASSERT_EQ(got.numbers.size(), expected.numbers.size());
      for (std::size_t i = 0; i < got.numbers.size(); ++i) {
        const auto& [parameter, value] = got.numbers[i];
        ASSERT_EQ(std::memcmp(value.raw(), expected.numbers[i].second.raw(), value.bytes()), 0)
            << where << ", " << parameter << ", rank " << session.rank();
      }
      session.shutdown();
    });
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, DeterministicLayers, testing::Range(std::size_t{0}, tiled_layers().size()),
                         [](const auto& tested) {
                           std::string name = tiled_layers()[tested.param].first;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace pleiad
