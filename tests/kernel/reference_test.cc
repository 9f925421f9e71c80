// Compares every layer and loss, forward and backward, with the plain loops of kernel/ref on random shapes and options.
// The loops compute in the layer's own type. In single precision, results may differ by the order of sums.
#include <gtest/gtest.h>

#include "core/threads.h"
#include "kernel/ref/embedding.h"
#include "kernel/ref/layers.h"
#include "kernel/ref/loss.h"
#include "kernel/types.h"
#include "tests/nn/layer_bench.h"

namespace pleiad::nn {
namespace {

namespace ref = kernel::ref;
using kernel::by_type;

std::string text(std::int64_t number) { return std::to_string(number); }

class Reference : public testing::TestWithParam<DType> {
 protected:
  static constexpr unsigned kDraws = 24;
  void SetUp() override { set_compute_threads(2); }
  [[nodiscard]] DType dtype() const { return GetParam(); }
  [[nodiscard]] double tolerance() const { return dtype() == DType::float32 ? 1e-4 : 1e-10; }
  [[nodiscard]] Tensor like(const Tensor& t) const { return {dtype(), t.shape()}; }
  void close(const Tensor& ours, const Tensor& expected, const std::string& what) const {
    expect_close(ours, expected, what, tolerance());
  }
  /// Calls body(random generator, seed) many times.
  template <class Body>
  void draws(Body&& body) {
    for (unsigned seed = 0; seed < kDraws && !HasFatalFailure(); ++seed) {
      SCOPED_TRACE("draw " + std::to_string(seed));
      std::mt19937 random(seed);
      body(random, seed);
    }
  }
};

const char* function_of(std::mt19937& random) {
  const char* const names[] = {"linear", "relu", "sigmoid", "tanh", "stanh", "softplus", "leaky"};
  return names[pick(random, 0, 6)];
}
kernel::Activation activation_named(const std::string& name) { return {.function = kernel::function_named(name)}; }

TEST_P(Reference, Dense) {
  draws([&](std::mt19937& r, unsigned seed) {
    const bool large = seed % 6 == 5;  // several tiles
    const kernel::Dense d{.batch = large ? pick(r, 240, 272) : pick(r, 1, 33),
                          .in = pick(r, 1, large ? 40 : 90),
                          .out = large ? pick(r, 310, 700) : pick(r, 1, 90),
                          .transposed = pick(r, 0, 1) == 1,
                          .activation = activation_named("tanh")};
    const std::string f = function_of(r);
    const bool bias = pick(r, 0, 2) > 0;
    kernel::Dense wanted = d;
    wanted.activation = activation_named(f);
    Bench b("dense",
            {{"out", text(d.out)},
             {"transposed", d.transposed ? "true" : "false"},
             {"activation", f},
             {"bias", bias ? "true" : "false"}},
            {{d.batch, d.in}}, dtype(), seed);
    b.gradients();
    const Tensor none, y = like(b.pass.y[0]), dx = like(b.pass.x[0]), dw = like(b.pass.parameter[0]);
    const Tensor& given = bias ? b.pass.parameter[1] : none;
    const Tensor db = bias ? like(given) : none;
    by_type(dtype(), [&]<class T>(T) {
      ref::dense_forward<T>(wanted, b.pass.x[0], b.pass.parameter[0], given, y);
      ref::dense_backward<T>(wanted, b.pass.x[0], b.pass.parameter[0], given, b.weights[0], dx, dw, db);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
    close(b.pass.gradient[0], dw, "dw");
    if (bias) close(b.pass.gradient[1], db, "db");
  });
}

TEST_P(Reference, Convolution) {
  draws([&](std::mt19937& r, unsigned seed) {
    kernel::Conv c;
    c.batch = pick(r, 1, 3);
    c.in_h = pick(r, 5, 11);
    c.in_w = pick(r, 5, 11);
    c.groups = pick(r, 1, 2);
    c.in_c = c.groups * pick(r, 1, 9);
    c.out_c = c.groups * pick(r, 1, 9);
    for (auto* w : {&c.h, &c.w}) {
      *w = {.size = pick(r, 1, 4),
            .stride = pick(r, 1, 3),
            .pad_begin = pick(r, 0, 2),
            .pad_end = pick(r, 0, 2),
            .dilation = pick(r, 1, 2)};
    }
    c.out_h = c.h.output(c.in_h);
    c.out_w = c.w.output(c.in_w);
    if (c.out_h < 1 || c.out_w < 1) return;
    c.bias = pick(r, 0, 2) > 0;
    const std::string f = function_of(r);
    c.activation = activation_named(f);
    Bench b("convolution",
            {{"filters", text(c.out_c)},
             {"kernel_h", text(c.h.size)},
             {"kernel_w", text(c.w.size)},
             {"stride_h", text(c.h.stride)},
             {"stride_w", text(c.w.stride)},
             {"pad_top", text(c.h.pad_begin)},
             {"pad_bottom", text(c.h.pad_end)},
             {"pad_left", text(c.w.pad_begin)},
             {"pad_right", text(c.w.pad_end)},
             {"dilation_h", text(c.h.dilation)},
             {"dilation_w", text(c.w.dilation)},
             {"groups", text(c.groups)},
             {"activation", f},
             {"bias", c.bias ? "true" : "false"}},
            {{c.batch, c.in_h, c.in_w, c.in_c}}, dtype(), seed);
    b.gradients();
    const Tensor none, y = like(b.pass.y[0]), dx = like(b.pass.x[0]), dw = like(b.pass.parameter[0]);
    const Tensor& bias = c.bias ? b.pass.parameter[1] : none;
    const Tensor db = c.bias ? like(bias) : none;
    ASSERT_EQ(y.shape(), (Shape{c.batch, c.out_h, c.out_w, c.out_c}));
    by_type(dtype(), [&]<class T>(T) {
      ref::conv_forward<T>(c, b.pass.x[0], b.pass.parameter[0], bias, y);
      ref::conv_backward<T>(c, b.pass.x[0], b.pass.parameter[0], bias, b.weights[0], dx, dw, db);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
    close(b.pass.gradient[0], dw, "dw");
    if (c.bias) close(b.pass.gradient[1], db, "db");
  });
}

TEST_P(Reference, Pooling) {
  draws([&](std::mt19937& r, unsigned seed) {
    const auto draw = [&] {
      const std::int64_t size = pick(r, 1, 4), pad = pick(r, 0, size - 1);
      return decltype(kernel::Pool::h){.size = size, .stride = pick(r, 1, 3), .pad_begin = pad, .pad_end = pad};
    };
    const auto h = draw(), w = pick(r, 0, 1) == 0 ? h : draw();
    const std::int64_t type = pick(r, 0, 2);
    const kernel::Pool p{.max = type == 1, .l2 = type == 2, .h = h, .w = w, .count_padding = pick(r, 0, 1) == 1};
    Bench b("pooling",
            {{"type", p.l2    ? "l2"
                      : p.max ? "max"
                              : "average"},
             {"kernel", text(h.size)},
             {"stride", text(h.stride)},
             {"pad", text(h.pad_begin)},
             {"kernel_w", text(w.size)},
             {"stride_w", text(w.stride)},
             {"pad_w", text(w.pad_begin)},
             {"count_padding", p.count_padding ? "true" : "false"}},
            {{pick(r, 1, 3), pick(r, 4, 13), pick(r, 4, 13), pick(r, 1, 40)}}, dtype(), seed);
    if (pick(r, 0, 2) == 0) {  // many equal values: only the first maximum has a gradient
      by_type(dtype(), [&]<class T>(T) {
        for (T& v : b.pass.x[0].values<T>()) v = std::round(v);
      });
    }
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::pool_forward<T>(p, b.pass.x[0], y);
      ref::pool_backward<T>(p, b.pass.x[0], y, b.weights[0], dx);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
  });
}

TEST_P(Reference, Lrn) {
  draws([&](std::mt19937& r, unsigned seed) {
    const double betas[] = {0.5, 0.75, 1, 0.6};
    const kernel::Lrn l{.size = pick(r, 1, 7),
                        .alpha = 0.1 * static_cast<double>(pick(r, 1, 20)),
                        .beta = betas[pick(r, 0, 3)],
                        .k = 1 + 0.5 * static_cast<double>(pick(r, 0, 2))};
    Bench b("lrn",
            {{"size", text(l.size)},
             {"alpha", fmt::format("{}", l.alpha)},
             {"beta", fmt::format("{}", l.beta)},
             {"k", fmt::format("{}", l.k)}},
            {{pick(r, 1, 3), pick(r, 1, 5), pick(r, 1, 5), pick(r, 1, 40)}}, dtype(), seed);
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::lrn_forward<T>(l, b.pass.x[0], y);
      ref::lrn_backward<T>(l, b.pass.x[0], b.weights[0], dx);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
  });
}

TEST_P(Reference, BatchNorm) {
  draws([&](std::mt19937& r, unsigned seed) {
    const Shape shape = pick(r, 0, 1) == 0 ? Shape{pick(r, 4, 60), pick(r, 1, 70)}
                                           : Shape{pick(r, 2, 5), pick(r, 2, 5), pick(r, 2, 5), pick(r, 1, 70)};
    Bench b("batch_norm", {{"epsilon", "0.001"}}, {shape}, dtype(), seed);
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]), m = like(b.pass.parameter[0]), v = like(m);
    const Tensor dscale = like(m), dshift = like(m);
    by_type(dtype(), [&]<class T>(T) {
      ref::batch_norm<T>(b.pass.x[0], 0.001, b.pass.parameter[0], b.pass.parameter[1], y, m, v, b.weights[0], dx,
                         dscale, dshift);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
    close(b.pass.gradient[0], dscale, "dscale");
    close(b.pass.gradient[1], dshift, "dshift");
    close(b.pass.workspace[0], m, "mean");
    close(b.pass.workspace[1], v, "variance");
    b.pass.state[0].copy_from(
        m);  // with running averages equal to the batch's, the test phase gives the training phase's result
    b.pass.state[1].copy_from(v);
    b.pass.phase = Phase::test;
    b.layer->forward(b.pass);
    close(b.pass.y[0], y, "y in a test");
  });
}

TEST_P(Reference, Activations) {
  draws([&](std::mt19937& r, unsigned seed) {
    const std::string f = function_of(r);
    const kernel::Activation activation{.function = kernel::function_named(f), .slope = 0.3};
    Bench b("activation", {{"function", f}, {"slope", "0.3"}}, {{pick(r, 1, 9), pick(r, 1, 999)}}, dtype(), seed, 0.01);
    by_type(dtype(), [&]<class T>(T) {
      for (T& v : b.pass.x[0].values<T>()) v *= 3;  // up to where the functions are flat
    });
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::activate<T>(activation, b.pass.x[0], y);
      ref::activate_backward<T>(activation, b.pass.x[0], b.weights[0], dx);
    });
    close(b.pass.y[0], y, f + " y");
    close(b.pass.dx[0], dx, f + " dx");
  });
}

TEST_P(Reference, Softmax) {
  draws([&](std::mt19937& r, unsigned seed) {
    Bench b("activation", {{"function", "softmax"}}, {{pick(r, 1, 9), pick(r, 1, 60)}}, dtype(), seed);
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::softmax<T>(b.pass.x[0], y);
      ref::softmax_backward<T>(y, b.weights[0], dx);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
  });
}

TEST_P(Reference, Losses) {
  draws([&](std::mt19937& r, unsigned seed) {
    const std::int64_t rows = pick(r, 1, 40), columns = pick(r, 2, 200), top = pick(r, 1, 3);
    Bench softmax("softmax_loss", {{"top_k", text(top)}}, {{rows, columns}, {rows}}, dtype(), seed);
    Bench sigmoid("sigmoid_loss", {}, {{rows, columns}, {rows, columns}}, dtype(), seed);
    Bench euclidean("euclidean_loss", {}, {{rows, columns}, {rows, columns}}, dtype(), seed);
    by_type(dtype(), [&]<class T>(T) {
      for (T& t : sigmoid.pass.x[1].values<T>()) t = ref::value(activation_named("sigmoid"), t);  // targets in 0 to 1
    });
    for (Bench* b : {&softmax, &sigmoid, &euclidean}) {
      b->gradients();
      const Tensor dx = like(b->pass.x[0]);
      ref::LossResult expected;
      by_type(dtype(), [&]<class T>(T) {
        if (b == &softmax) expected = ref::softmax_loss<T>(b->pass.x[0], b->pass.x[1], top, dx);
        if (b == &sigmoid) expected = ref::sigmoid_loss<T>(b->pass.x[0], b->pass.x[1], dx);
        if (b == &euclidean) expected = ref::euclidean_loss<T>(b->pass.x[0], b->pass.x[1], dx);
      });
      EXPECT_NEAR(b->pass.y[0].at(0), expected.loss, tolerance() * std::max(1.0, expected.loss)) << b->layer->kind();
      if (b->pass.y.size() > 1) {
        EXPECT_NEAR(b->pass.y[1].at(0), expected.metric, tolerance() * std::max(1.0, expected.metric));
      }
      close(b->pass.dx[0], dx, b->layer->kind());
    }
  });
}

TEST_P(Reference, LayersOfIndices) {
  draws([&](std::mt19937& r, unsigned seed) {
    const std::int64_t words = pick(r, 1, 40), width = pick(r, 1, 50);
    const Shape shape{pick(r, 1, 9), pick(r, 1, 12)};
    Bench embedding("embedding", {{"words", text(words)}, {"width", text(width)}}, {shape}, dtype(), seed);
    Bench one_hot("one_hot", {{"words", text(words)}}, {shape}, dtype(), seed);
    for (Bench* b : {&embedding, &one_hot}) {
      for (auto& index : b->pass.x[0].values<std::int32_t>()) {
        index = static_cast<std::int32_t>(pick(r, 0, words - 1));
      }
      b->pass.y[0].fill(7);  // the layer must overwrite all of it
      b->gradients();
    }
    const Tensor y = like(embedding.pass.y[0]), table = like(embedding.pass.gradient[0]), hot = like(one_hot.pass.y[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::embed<T>(embedding.pass.x[0], embedding.pass.parameter[0], y);
      ref::embed_backward<T>(embedding.pass.x[0], embedding.weights[0], table);
      ref::one_hot<T>(one_hot.pass.x[0], words, hot);
    });
    for (std::int64_t i = 0; i < y.count(); ++i) ASSERT_EQ(embedding.pass.y[0].at(i), y.at(i));
    for (std::int64_t i = 0; i < hot.count(); ++i) ASSERT_EQ(one_hot.pass.y[0].at(i), hot.at(i));
    close(embedding.pass.gradient[0], table, "gradient");
  });
}

TEST_P(Reference, CrossMapPooling) {
  draws([&](std::mt19937& r, unsigned seed) {
    const Shape shape{pick(r, 1, 5), pick(r, 1, 12), pick(r, 1, 12), pick(r, 1, 40)};
    Bench b("cross_map_pooling", {{"maps", text(pick(r, 1, 40))}}, {shape}, dtype(), seed);
    b.gradients();
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]), dw = like(b.pass.parameter[0]);
    by_type(dtype(), [&]<class T>(T) {
      ref::cross_map_pooling<T>(b.pass.x[0], b.pass.parameter[0], y);
      ref::cross_map_pooling_backward<T>(b.pass.x[0], b.pass.parameter[0], b.weights[0], dx, dw);
    });
    close(b.pass.y[0], y, "y");
    close(b.pass.dx[0], dx, "dx");
    close(b.pass.gradient[0], dw, "dw");
  });
}

/// Layers that only move values: every output equals the input that the definition names.
TEST_P(Reference, LayersThatMoveValues) {
  draws([&](std::mt19937& r, unsigned seed) {
    const Shape shape{pick(r, 1, 5), pick(r, 3, 20), pick(r, 1, 9)};
    Bench dropout("dropout", {{"ratio", "0.3"}}, {shape}, dtype(), seed);
    dropout.gradients();
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const double mask = dropout.pass.workspace[0].at(i);
      ASSERT_TRUE(mask == 0 || std::fabs(mask - 1 / 0.7) < 1e-6);
      ASSERT_NEAR(dropout.pass.y[0].at(i), mask * dropout.pass.x[0].at(i), 1e-6);
      ASSERT_NEAR(dropout.pass.dx[0].at(i), mask * dropout.weights[0].at(i), 1e-6);
    }
    Bench slice("slice", {{"axis", "1"}, {"parts", "3"}}, {shape}, dtype(), seed);
    slice.gradients();
    const std::int64_t row = shape[1] * shape[2];
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      std::int64_t place = i % row / shape[2];
      std::size_t part = 0;
      while (place >= slice.pass.y[part].shape()[1]) place -= slice.pass.y[part++].shape()[1];
      const std::int64_t inside = (i / row * slice.pass.y[part].shape()[1] + place) * shape[2] + i % shape[2];
      ASSERT_EQ(slice.pass.y[part].at(inside), slice.pass.x[0].at(i));
      ASSERT_EQ(slice.pass.dx[0].at(i), slice.weights[part].at(inside));
    }
    Bench split("split", {{"copies", "3"}}, {shape}, dtype(), seed);
    Bench sum("sum", {}, {shape, shape, shape}, dtype(), seed);
    Bench flatten("flatten", {}, {shape}, dtype(), seed);
    for (Bench* b : {&split, &sum, &flatten}) b->gradients();
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      double all = 0, given = 0;
      for (const Tensor& y : split.pass.y) ASSERT_EQ(y.at(i), split.pass.x[0].at(i));
      for (const Tensor& w : split.weights) given += w.at(i);
      ASSERT_NEAR(split.pass.dx[0].at(i), given, 1e-5);
      for (std::size_t k = 0; k < 3; ++k) {
        all += sum.pass.x[k].at(i);
        ASSERT_EQ(sum.pass.dx[k].at(i), sum.weights[0].at(i));
      }
      ASSERT_NEAR(sum.pass.y[0].at(i), all, 1e-5);
      ASSERT_EQ(flatten.pass.y[0].at(i), flatten.pass.x[0].at(i));
      ASSERT_EQ(flatten.pass.dx[0].at(i), flatten.weights[0].at(i));
    }
    const Shape other{shape[0], pick(r, 1, 6), shape[2]};
    Bench concat("concat", {{"axis", "1"}}, {shape, other}, dtype(), seed);
    concat.gradients();
    for (std::int64_t i = 0; i < concat.pass.y[0].count(); ++i) {
      const std::int64_t length = shape[1] + other[1], place = i / shape[2] % length, n = i / (length * shape[2]);
      const std::size_t part = place < shape[1] ? 0 : 1;
      const Shape& own = part == 0 ? shape : other;
      const std::int64_t at = (n * own[1] + place - (part == 0 ? 0 : shape[1])) * shape[2] + i % shape[2];
      ASSERT_EQ(concat.pass.y[0].at(i), concat.pass.x[part].at(at));
      ASSERT_EQ(concat.pass.dx[part].at(at), concat.weights[0].at(i));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, Reference, testing::Values(DType::float32, DType::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace pleiad::nn
