// Initialisers, schedules and random numbers, compared with their formulas and known values.
#include <gtest/gtest.h>

#include <cmath>

#include "pleiad/error.h"
#include "pleiad/nn/init.h"

namespace pleiad::nn {
namespace {

struct Moments {
  double mean = 0, deviation = 0, low = 1e9, high = -1e9;
};
Moments moments(const Init& init, std::int64_t fan_in, std::int64_t fan_out) {
  const Tensor t(DType::float64, {40000});
  initialise(t, init, fan_in, fan_out, 7, "w");
  Moments m;
  for (const double v : t.values<double>()) {
    m.mean += v / 40000;
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  for (const double v : t.values<double>()) m.deviation += (v - m.mean) * (v - m.mean) / 40000;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(Init, HasTheMomentsOfItsFormula) {
  EXPECT_EQ(moments({.type = "constant", .value = 3}, 1, 1).low, 3);
  const Moments gaussian = moments({.type = "gaussian", .value = 2, .mean = 1, .std = 0.5}, 9, 9);
  EXPECT_NEAR(gaussian.mean, 2, 0.03);
  EXPECT_NEAR(gaussian.deviation, 1, 0.02);
  EXPECT_NEAR(moments({.type = "gaussian_sqrt_fan_in", .std = 1}, 25, 9).deviation, 0.2, 0.004);
  const Moments uniform = moments({.type = "uniform", .low = -0.5, .high = 1.5}, 9, 9);
  EXPECT_NEAR(uniform.low, -0.5, 1e-3);
  EXPECT_NEAR(uniform.high, 1.5, 1e-3);
  EXPECT_NEAR(uniform.mean, 0.5, 0.02);
  EXPECT_NEAR(moments({.type = "uniform_sqrt_fan_in"}, 12, 9).high, 0.5, 1e-3);
  EXPECT_NEAR(moments({.type = "uniform_sqrt_fan_in_out"}, 60, 40).high, 0.1, 1e-3);
  EXPECT_NEAR(moments({.type = "node_normalized", .scale = 2}, 20, 4).high, 1, 1e-3);
  EXPECT_NEAR(moments({.type = "auto_uniform"}, 16, 4).low, -0.25, 1e-3);
  EXPECT_NEAR(moments({.type = "he"}, 8, 4).deviation, 0.5, 0.01);
  EXPECT_THROW((void)moments({.type = "gauss"}, 1, 1), InvalidArgument);
}

TEST(Init, DependsOnSeedAndName) {
  const auto first = [](std::uint64_t seed, const char* name) {
    const Tensor t(DType::float64, {1});
    initialise(t, {}, 1, 1, seed, name);
    return t.at(0);
  };
  EXPECT_EQ(first(1, "a/weight"), first(1, "a/weight"));
  EXPECT_NE(first(1, "a/weight"), first(2, "a/weight"));
  EXPECT_NE(first(1, "a/weight"), first(1, "b/weight"));
}

TEST(Schedule, FollowsItsFormula) {
  EXPECT_DOUBLE_EQ(rate_at({.type = "fixed", .base = 0.3}, 99), 0.3);
  EXPECT_DOUBLE_EQ(rate_at({.type = "linear", .base = 1, .final = 0, .freq = 10}, 4), 0.6);
  EXPECT_DOUBLE_EQ(rate_at({.type = "exponential", .base = 8, .freq = 10}, 20), 2);
  EXPECT_DOUBLE_EQ(rate_at({.type = "inverse", .base = 6, .gamma = 0.5, .power = 1}, 4), 2);
  EXPECT_DOUBLE_EQ(rate_at({.type = "inverse_t", .base = 6, .final = 2}, 4), 2);
  EXPECT_DOUBLE_EQ(rate_at({.type = "step", .base = 1, .gamma = 0.5, .freq = 60}, 119), 0.5);
  EXPECT_DOUBLE_EQ(rate_at({.type = "step", .base = 1, .gamma = 0.5, .freq = 60}, 120), 0.25);
  EXPECT_DOUBLE_EQ(rate_at({.type = "epochs", .base = 1, .gamma = 0.5, .freq = 2}, 1), 0.5);
  const Schedule table{.type = "fixed_step", .steps = {0, 10, 20}, .rates = {1, 0.1, 0.01}};
  EXPECT_DOUBLE_EQ(rate_at(table, 9), 1);
  EXPECT_DOUBLE_EQ(rate_at(table, 10), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(table, 500), 0.01);
  EXPECT_DOUBLE_EQ(rate_at({.type = "momentum", .base = 0.5, .final = 0.9, .freq = 12, .start = 2}, 7), 0.7);
  EXPECT_DOUBLE_EQ(rate_at({.type = "cosine", .base = 1, .final = 0.2, .freq = 10}, 0), 1);
  EXPECT_DOUBLE_EQ(rate_at({.type = "cosine", .base = 1, .final = 0.2, .freq = 10}, 5), 0.6);
  EXPECT_DOUBLE_EQ(rate_at({.type = "cosine", .base = 1, .final = 0.2, .freq = 10}, 25), 0.2);
  const Schedule warm{.type = "step", .base = 1, .gamma = 0.5, .freq = 10, .warmup = 4, .warmup_from = 0.2};
  EXPECT_DOUBLE_EQ(rate_at(warm, 0), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(warm, 2), 0.6);
  EXPECT_DOUBLE_EQ(rate_at(warm, 4), 1);
  EXPECT_DOUBLE_EQ(rate_at(warm, 14), 0.5);
  EXPECT_THROW(check({.type = "fixed", .warmup = -1}), InvalidArgument);
  EXPECT_THROW(check({.type = "steps"}), InvalidArgument);
  EXPECT_THROW(check({.type = "step", .freq = 0}), InvalidArgument);
  EXPECT_THROW(check({.type = "fixed_step", .steps = {1}, .rates = {}}), InvalidArgument);
}

}  // namespace
}  // namespace pleiad::nn
