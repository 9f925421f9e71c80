// Initial values of parameters, and schedules of their learning rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/tensor.h"

namespace pleiad::nn {

/// constant: value. gaussian: value * N(mean, std). uniform: value * U(low, high). gaussian_sqrt_fan_in: gaussian over
/// sqrt(fan_in). uniform_sqrt_fan_in: uniform over sqrt(fan_in / 3). uniform_sqrt_fan_in_out: uniform over
/// sqrt(fan_in + fan_out). node_normalized: U(-1, 1) * scale * sqrt(6 / (fan_in + fan_out)). auto_uniform: U(-1, 1) /
/// sqrt(fan_in). he: N(0, 1) * sqrt(2 / fan_in).
struct Init {
  std::string type = "gaussian";
  double value = 1;
  double mean = 0;
  double std = 0.01;
  double low = -1;
  double high = 1;
  double scale = 1;
};
[[nodiscard]] PLEIAD_API std::vector<std::string> init_names();
/// Fills `to` with values that depend only on the seed, the name and the index of the element. An unknown type is an
/// InvalidArgument.
PLEIAD_API void initialise(const Tensor& to, const Init& init, std::int64_t fan_in, std::int64_t fan_out,
                           std::uint64_t seed, const std::string& name);

/// The learning rate of a step, where s is the step and f is freq. fixed: base. linear: (1 - s/f) * base + s/f * final.
/// exponential: base / 2^(s/f). inverse: base * (1 + gamma*s)^-power. inverse_t: base / (1 + s/final). step: base *
/// gamma^floor(s/f). fixed_step: rates[i] from steps[i] on. epochs: base * gamma^floor((s+1)/f), where s is the epoch
/// (neon; a trainer passes the step). momentum: rises linearly from base at `start` to final at `freq` (neon's
/// linear_monotone). cosine: final + (base - final) * (1 + cos(pi * min(s/f, 1))) / 2. With `warmup` = w > 0, the rate
/// rises linearly from `warmup_from` to that of step 0 in w steps, and s counts from there.
struct Schedule {
  std::string type = "fixed";
  double base = 0.01;
  double final = 0;
  double gamma = 1;
  double power = 0;
  std::int64_t freq = 1;
  std::int64_t start = 0;
  std::vector<std::int64_t> steps = {};
  std::vector<double> rates = {};
  std::int64_t warmup = 0;
  double warmup_from = 0;
};
[[nodiscard]] PLEIAD_API std::vector<std::string> schedule_names();
/// Throws an InvalidArgument that names the field if the schedule is invalid.
PLEIAD_API void check(const Schedule& schedule);
[[nodiscard]] PLEIAD_API double rate_at(const Schedule& schedule, std::int64_t step);

}  // namespace pleiad::nn
