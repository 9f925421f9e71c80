#include <fmt/format.h>

#include <cstdio>

#include "job/singa_layers.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

class TextOutput final : public nn::Layer {
 public:
  explicit TextOutput(std::string vocabulary) : vocabulary_(std::move(vocabulary)) {}
  [[nodiscard]] std::string kind() const override { return "text_output"; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] bool takes(std::size_t, DType given, DType net) const override {
    return given == DType::int32 || given == net;
  }
  [[nodiscard]] DType output_type(std::size_t, DType) const override { return DType::int32; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    if (in.size() != 1 || in[0].rank() < 1)
      throw InvalidArgument("expected symbols: (batch), (batch, steps) or with answers");
    return {{in[0][0]}};
  }

  void forward(nn::Pass& pass) override {
    const Shape& shape = pass.x[0].shape();
    const std::int64_t steps = shape.rank() > 1 ? shape[1] : 1;
    const std::int64_t wide = pass.x[0].count() / (shape[0] * steps);  // takes the first of several answers
    text_.clear();
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::int64_t n = 0; n < shape[0]; ++n) text_ += letter(pass.x[0].at((n * steps + t) * wide));
    }
    std::fwrite(text_.data(), 1, text_.size(), stdout);
    std::fflush(stdout);
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      pass.y[0].values<std::int32_t>()[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(steps);
    }
  }
  void backward(nn::Pass&) override {}

 private:
  [[nodiscard]] char letter(double symbol) const {
    if (!(symbol >= 0) || symbol >= static_cast<double>(vocabulary_.size())) {
      throw InvalidArgument(
          fmt::format("the vocabulary has {} characters; received the symbol {}", vocabulary_.size(), symbol));
    }
    return vocabulary_[static_cast<std::size_t>(symbol)];
  }

  const std::string vocabulary_;
  std::string text_;
};

}  // namespace

nn::LayerPtr text_output(std::string vocabulary) { return std::make_unique<TextOutput>(std::move(vocabulary)); }

}  // namespace pleiad::job
