// Checks of layer inputs and options. The errors say what was expected and what was received.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "pleiad/error.h"
#include "pleiad/nn/layer.h"

namespace pleiad::nn {

inline void expect_inputs(const Shapes& in, std::size_t count) {
  if (in.size() != count) {
    throw InvalidArgument(fmt::format("expected {} input{}; received {}", count, count == 1 ? "" : "s", in.size()));
  }
}

/// Requires one input of shape (batch, height, width, channels).
inline const Shape& expect_image(const Shapes& in) {
  expect_inputs(in, 1);
  if (in[0].rank() != 4) {
    throw InvalidArgument(fmt::format("expected images (batch, height, width, channels); received {}", in[0].text()));
  }
  return in[0];
}

/// Returns why the outputs of a layer with these parameters cannot be split, or an empty text.
inline std::string param_obstacle(std::initializer_list<const Param*> params) {
  for (const Param* param : params) {
    if (!param->share.empty()) return "it shares a parameter";
    if (param->norm != 0) return "its filters have a fixed norm";
  }
  return {};
}

struct Padding {
  std::int64_t begin;
  std::int64_t end;
};
/// Returns how far the window over the output positions `out` reaches beyond the input positions `in` that are present.
inline Padding padding_of(const SlidingWindow& window, Interval out, Interval in) {
  const Interval need = window.input(out);
  if (in.empty()) return {need.size(), 0};
  return {in.begin - need.begin, need.end - in.end};
}

inline void expect_at_least(std::string_view name, std::int64_t value, std::int64_t least) {
  if (value < least) throw InvalidArgument(fmt::format("expected {} >= {}; received {}", name, least, value));
}

}  // namespace pleiad::nn
