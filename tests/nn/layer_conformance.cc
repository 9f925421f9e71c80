// Requirements of every layer: its gradients agree with finite differences in double precision, float agrees with
// double, and its outputs depend on no input outside of the interval that it declares. A new layer needs one line in
// kCases.
#include <gtest/gtest.h>

#include "pleiad/error.h"
#include "tests/nn/layer_bench.h"

namespace pleiad::nn {
namespace {

struct Case {
  const char* name;
  const char* kind;
  LayerFields fields;
  /// Returns the shapes of random inputs, with the batch.
  Shapes (*shapes)(std::mt19937&);
  double keep_away = 0;    ///< inputs are at least this far from 0, where the function is not differentiable
  bool estimates = false;  ///< its gradients are estimates, not those of its first output; its own test checks them
};

Shapes flat(std::mt19937& r) { return {{pick(r, 1, 5), pick(r, 1, 9)}}; }
Shapes image(std::mt19937& r) { return {{pick(r, 1, 3), pick(r, 5, 8), pick(r, 5, 8), pick(r, 1, 5)}}; }
Shapes even_image(std::mt19937& r) { return {{pick(r, 1, 3), pick(r, 6, 8), pick(r, 6, 8), 2 * pick(r, 1, 3)}}; }
Shapes batch(std::mt19937& r) { return {{pick(r, 3, 6), pick(r, 2, 3), pick(r, 2, 3), pick(r, 1, 4)}}; }
Shapes two(std::mt19937& r) {
  const Shape shape = flat(r)[0];
  return {shape, shape};
}
Shapes unlike(std::mt19937& r) {
  const std::int64_t rows = pick(r, 1, 4);
  return {{rows, pick(r, 1, 4), 3}, {rows, pick(r, 1, 4), 3}, {rows, 2, 3}};
}
Shapes wide(std::mt19937& r) { return {{pick(r, 1, 4), pick(r, 3, 9)}}; }
Shapes six(std::mt19937& r) { return {{pick(r, 1, 3), pick(r, 1, 4), 6}}; }
Shapes labelled(std::mt19937& r) {
  const std::int64_t rows = pick(r, 1, 5);
  return {{rows, pick(r, 2, 6)}, {rows}};
}

Shapes sequence(std::mt19937& r) { return {{pick(r, 1, 4), pick(r, 1, 5), pick(r, 1, 4)}}; }
Shapes begun(std::mt19937& r) {
  const std::int64_t rows = pick(r, 1, 4);
  return {{rows, pick(r, 1, 5), pick(r, 1, 4)}, {rows, pick(r, 1, 3), 3}};
}
Shapes indices(std::mt19937& r) { return {{pick(r, 1, 4), pick(r, 2, 5)}}; }

Shapes labelled_places(std::mt19937& r) {
  const std::int64_t rows = pick(r, 1, 4), places = pick(r, 1, 3);
  return {{rows, places, pick(r, 2, 6)}, {rows, places}};
}

const Case kCases[] = {
    {"Dense", "dense", {{"out", "7"}}, flat},
    {"DenseTanh", "dense", {{"out", "3"}, {"activation", "tanh"}}, image},
    {"DenseTransposed", "dense", {{"out", "4"}, {"transposed", "true"}, {"activation", "sigmoid"}}, flat},
    {"DenseNoBias", "dense", {{"out", "4"}, {"bias", "false"}}, flat},
    {"Convolution", "convolution", {{"filters", "4"}, {"kernel", "3"}, {"pad", "1"}}, image},
    {"ConvolutionEven", "convolution", {{"filters", "3"}, {"kernel", "4"}, {"activation", "tanh"}}, image},
    {"ConvolutionStride", "convolution", {{"filters", "2"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}}, image},
    {"ConvolutionDilated", "convolution", {{"filters", "2"}, {"kernel", "2"}, {"dilation", "3"}, {"pad", "2"}}, image},
    {"ConvolutionGroups", "convolution", {{"filters", "4"}, {"kernel", "3"}, {"groups", "2"}}, even_image},
    {"ConvolutionOneSided",
     "convolution",
     {{"filters", "2"}, {"kernel_h", "2"}, {"kernel_w", "5"}, {"pad_top", "1"}, {"pad_right", "3"}, {"bias", "false"}},
     image},
    {"MaxPooling", "pooling", {{"type", "max"}, {"kernel", "3"}, {"stride", "2"}}, image},
    {"MaxPoolingPadded", "pooling", {{"type", "max"}, {"kernel", "2"}, {"stride", "1"}, {"pad", "1"}}, image},
    {"AveragePooling", "pooling", {{"type", "average"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}}, image},
    {"AveragePoolingInside",
     "pooling",
     {{"type", "average"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}, {"count_padding", "false"}},
     image},
    {"L2Pooling", "pooling", {{"type", "l2"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}}, image},
    {"PoolingOfOtherWidth",
     "pooling",
     {{"kernel", "3"}, {"stride", "2"}, {"pad", "1"}, {"kernel_w", "2"}, {"stride_w", "1"}, {"pad_w", "0"}},
     image},
    {"CrossMapPooling", "cross_map_pooling", {{"maps", "3"}}, image},
    {"LocalConvolution",
     "local_convolution",
     {{"filters", "3"}, {"kernel_h", "3"}, {"kernel_w", "2"}, {"stride", "2"}, {"pad", "1"}, {"bias", "true"}},
     image},
    {"LocalConvolutionTanh", "local_convolution", {{"filters", "2"}, {"kernel", "4"}, {"activation", "tanh"}}, image},
    {"LocalConvolutionTransposed",
     "local_convolution",
     {{"filters", "3"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}, {"transposed", "true"}, {"bias", "true"}},
     image},
    {"LocalContrast", "local_contrast", {{"size", "3"}}, image},
    {"LocalContrastWide", "local_contrast", {{"size", "7"}}, image},
    {"LocalContrastSubtract", "local_contrast", {{"size", "5"}, {"part", "subtract"}}, image},
    {"LocalContrastDivide", "local_contrast", {{"size", "3"}, {"part", "divide"}}, image},
    {"LocalContrastBox", "local_contrast", {{"type", "box"}, {"size", "3"}, {"alpha", "0.8"}, {"beta", "0.7"}}, image},
    {"Lrn", "lrn", {{"size", "3"}, {"alpha", "0.7"}}, image},
    {"LrnEven", "lrn", {{"size", "4"}, {"beta", "0.6"}, {"k", "2"}}, image},
    {"LrnHalf", "lrn", {{"size", "5"}, {"beta", "0.5"}}, image},
    {"BatchNorm", "batch_norm", {{"scale.init", "gaussian"}, {"scale.std", "1"}, {"scale.value", "1"}}, batch},
    {"Dropout", "dropout", {{"ratio", "0.4"}}, image},
    {"Relu", "activation", {{"function", "relu"}}, image, 0.01},
    {"Leaky", "activation", {{"function", "leaky"}, {"slope", "0.2"}}, flat, 0.01},
    {"Sigmoid", "activation", {{"function", "sigmoid"}}, image},
    {"Tanh", "activation", {{"function", "tanh"}}, flat},
    {"Stanh", "activation", {{"function", "stanh"}}, flat},
    {"Softplus", "activation", {{"function", "softplus"}}, flat},
    {"Linear", "activation", {{"function", "linear"}}, flat},
    {"Softmax", "activation", {{"function", "softmax"}}, flat},
    {"Flatten", "flatten", {}, image},
    {"Slice", "slice", {{"axis", "1"}, {"parts", "3"}}, wide},
    {"SliceSizes", "slice", {{"axis", "2"}, {"sizes", "3,1,2"}}, six},
    {"Concat", "concat", {{"axis", "1"}}, unlike},
    {"Split", "split", {{"copies", "3"}}, flat},
    {"Sum", "sum", {}, two},
    {"DenseLastAxis", "dense", {{"out", "3"}, {"last_axis", "true"}, {"activation", "tanh"}}, image},
    {"Rbm", "rbm", {{"hidden", "6"}, {"k", "2"}}, flat, 0, true},
    {"RbmChains", "rbm", {{"hidden", "6"}, {"chains", "4"}, {"sample", "none"}}, flat, 0, true},
    {"Rnn", "rnn", {{"hidden", "3"}}, sequence},
    {"RnnSigmoid", "rnn", {{"hidden", "4"}, {"activation", "sigmoid"}, {"bias", "false"}, {"carry", "true"}}, sequence},
    {"Gru", "gru", {{"hidden", "3"}}, sequence},
    {"GruFlat", "gru", {{"hidden", "3"}}, flat},
    {"GruBegun", "gru", {{"hidden", "3"}}, begun},
    {"RnnBegun", "rnn", {{"hidden", "3"}, {"bias", "false"}}, begun},
    {"GruNoBias", "gru", {{"hidden", "4"}, {"bias", "false"}, {"carry", "true"}}, sequence},
    {"Lstm", "lstm", {{"hidden", "3"}, {"carry", "true"}}, sequence},
    {"Embedding", "embedding", {{"words", "4"}, {"width", "3"}}, indices},
    {"OneHot", "one_hot", {{"words", "3"}}, indices},
    {"CharRnn", "char_rnn", {}, indices},
    {"RnnLabel", "rnn_label", {}, indices},
    {"Argsort", "argsort", {{"top_k", "2"}}, wide, 0, true},
    {"Accuracy", "accuracy", {{"top_k", "2"}}, labelled, 0, true},
    {"CsvOutput", "csv_output", {{"path", "/dev/null"}}, image},
    {"RecordOutput", "record_output", {{"path", "/dev/null"}}, image},
    {"ImagePreprocess", "image_preprocess", {{"crop", "4"}, {"mirror", "true"}, {"scale", "0.5"}}, image},
    {"Bridge", "bridge", {}, image},
    {"Branch", "branch", {{"copies", "2"}}, flat},
    {"Dummy", "dummy", {}, image},
    {"DummyNumbers", "dummy", {{"shape", "2,3"}}, flat},
    {"SoftmaxLossPlaces", "softmax_loss", {}, labelled_places},
    {"SoftmaxLoss", "softmax_loss", {{"top_k", "2"}, {"scale", "1.5"}}, labelled},
    {"SumLoss", "sum_loss", {{"scale", "0.3"}}, image},
    {"SigmoidLoss", "sigmoid_loss", {}, two},
    {"EuclideanLoss", "euclidean_loss", {}, two},
};

Bench bench_of(const Case& c, const Shapes& shapes, DType dtype, unsigned seed) {
  return {c.kind, c.fields, shapes, dtype, seed, c.keep_away};
}

class EveryLayer : public testing::TestWithParam<Case> {};

void expect_finite_differences(Bench& bench, const Tensor& at, const Tensor& gradient, const std::string& what) {
  constexpr double kStep = 1e-6;
  for (std::int64_t i = 0; i < at.count(); ++i) {
    double& v = at.values<double>()[static_cast<std::size_t>(i)];
    const double before = v;
    v = before + kStep;
    const double above = bench.value();
    v = before - kStep;
    const double below = bench.value();
    v = before;
    const double expected = (above - below) / (2 * kStep);
    ASSERT_NEAR(gradient.at(i), expected, 2e-5 * std::max(1.0, std::fabs(expected))) << what << " element " << i;
  }
}

TEST_P(EveryLayer, GradientsMatchFiniteDifferences) {
  if (GetParam().estimates) return;
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    const Shapes shapes = GetParam().shapes(random);
    Bench bench = bench_of(GetParam(), shapes, DType::float64, seed);
    bench.gradients();
    for (std::size_t i = 0; i < bench.pass.dx.size(); ++i) {
      if (bench.pass.dx[i].empty()) continue;
      expect_finite_differences(bench, bench.pass.x[i], bench.pass.dx[i].clone(), "input " + std::to_string(i));
    }
    for (std::size_t i = 0; i < bench.pass.gradient.size(); ++i) {
      expect_finite_differences(bench, bench.pass.parameter[i], bench.pass.gradient[i].clone(),
                                "parameter " + std::to_string(i));
    }
  }
}

TEST_P(EveryLayer, FloatAgreesWithDouble) {
  for (unsigned seed = 10; seed < 16; ++seed) {
    std::mt19937 random(seed);
    const Shapes shapes = GetParam().shapes(random);
    Bench single = bench_of(GetParam(), shapes, DType::float32, seed);
    Bench twice = bench_of(GetParam(), shapes, DType::float64, seed);
    single.gradients();
    twice.gradients();
    for (std::size_t k = 0; k < single.pass.y.size(); ++k) expect_close(single.pass.y[k], twice.pass.y[k], "output");
    for (std::size_t i = 0; i < single.pass.dx.size(); ++i) {
      if (!single.pass.dx[i].empty()) expect_close(single.pass.dx[i], twice.pass.dx[i], "input gradient");
    }
    for (std::size_t i = 0; i < single.pass.gradient.size(); ++i) {
      expect_close(single.pass.gradient[i], twice.pass.gradient[i], "parameter gradient");
    }
  }
}

/// A spatial plan sends the input gradients between the two parts of a backward pass.
TEST_P(EveryLayer, BackwardInTwoPartsEqualsBackward) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    std::mt19937 random(20);
    const Shapes shapes = GetParam().shapes(random);
    Bench whole = bench_of(GetParam(), shapes, dtype, 20);
    Bench parts = bench_of(GetParam(), shapes, dtype, 20);
    TwoStageLayer* const stages = two_stages_of(*parts.layer);
    EXPECT_TRUE(stages != nullptr || parts.layer->kind() != "convolution");
    if (stages == nullptr) return;
    whole.gradients();
    (void)parts.value();
    for (std::size_t k = 0; k < parts.pass.dy.size(); ++k) parts.pass.dy[k].copy_from(parts.weights[k]);
    stages->backward_inputs(parts.pass);
    for (std::size_t i = 0; i < parts.pass.dx.size(); ++i) {
      if (parts.pass.dx[i].empty()) continue;
      expect_close(parts.pass.dx[i], whole.pass.dx[i], "input gradient", 0);
      parts.pass.dx[i].fill(7);
    }
    stages->backward_parameters(parts.pass);
    for (const Tensor& dx : parts.pass.dx) {
      for (std::int64_t i = 0; !dx.empty() && i < dx.count(); ++i) ASSERT_EQ(dx.at(i), 7);
    }
    for (std::size_t i = 0; i < parts.pass.gradient.size(); ++i) {
      expect_close(parts.pass.gradient[i], whole.pass.gradient[i], "parameter gradient", 0);
    }
  }
}

TEST_P(EveryLayer, OutputsDependOnlyOnTheirInterval) {
  std::mt19937 random(3);
  const Shapes shapes = GetParam().shapes(random);
  Bench bench = bench_of(GetParam(), shapes, DType::float64, 3);
  const SpatialLayer* const spatial = bench.layer->capabilities().spatial;
  if (spatial == nullptr || shapes[0].rank() != 4 || std::string(GetParam().kind) == "batch_norm") return;
  (void)bench.value();
  const Tensor y = bench.pass.y[0].clone();
  const Tensor& x = bench.pass.x[0];
  for (const int axis : {1, 2}) {
    for (std::int64_t place = 0; place < x.shape()[axis]; ++place) {
      const Tensor kept = x.clone();
      for (std::int64_t i = 0; i < x.count(); ++i) {
        const std::int64_t at =
            axis == 1 ? i / (x.shape()[2] * x.shape()[3]) % x.shape()[1] : i / x.shape()[3] % x.shape()[2];
        if (at == place) x.values<double>()[static_cast<std::size_t>(i)] += 100;
      }
      (void)bench.value();
      x.copy_from(kept);
      const Tensor& changed = bench.pass.y[0];
      for (std::int64_t i = 0; i < y.count(); ++i) {
        const Shape& s = y.shape();
        const std::int64_t out = axis == 1 ? i / (s[2] * s[3]) % s[1] : i / s[3] % s[2];
        const Interval needs = spatial->input_interval({out, out + 1}, axis);
        if (place >= needs.begin && place < needs.end) continue;
        ASSERT_EQ(changed.at(i), y.at(i)) << "output " << out << " of axis " << axis << " changed with input " << place;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(LayerList, EveryKindHasACase) {
  for (const std::string& kind : layer_kinds()) {
    EXPECT_TRUE(std::ranges::any_of(kCases, [&](const Case& c) { return kind == c.kind; })) << kind;
  }
}

TEST(LayerList, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)make_layer("convolutoin");
    FAIL();
  } catch (const InvalidArgument& mistake) {
    EXPECT_NE(std::string(mistake.what()).find("did you mean \"convolution\"?"), std::string::npos) << mistake.what();
  }
  EXPECT_THROW((void)make_layer("dense", {{"outs", "3"}}), InvalidArgument);
  EXPECT_THROW((void)make_layer("dense", {{"out", "many"}}), InvalidArgument);
  EXPECT_THROW((void)make_layer("dense", {{"out", "0"}}), InvalidArgument);
  EXPECT_THROW((void)make_layer("slice", {{"sizes", "2,,1"}}), InvalidArgument);
  EXPECT_THROW((void)make_layer("flatten", {{"axis", "1"}}), InvalidArgument);
}

}  // namespace
}  // namespace pleiad::nn
