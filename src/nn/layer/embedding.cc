// Layers whose inputs are indices: embedding, one_hot, and char_rnn and rnn_label, which split text into inputs and
// labels.
#include "kernel/embedding.h"

#include "kernel/elementwise.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

/// Base of the layers whose inputs are int32 indices.
class IndexLayer : public Layer {
 public:
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] DType input_type(std::size_t, DType) const override { return DType::int32; }

 protected:
  /// Returns the shape of the indices with an axis of length `width` appended.
  static Shape wider(const Shapes& in, std::int64_t width) {
    expect_inputs(in, 1);
    if (in[0].rank() < 1 || in[0].rank() >= Shape::kMaxRank) {
      throw InvalidArgument(fmt::format("expected indices (batch, ...); received {}", in[0].text()));
    }
    std::vector<std::int64_t> lengths(in[0].begin(), in[0].end());
    lengths.push_back(width);
    return Shape(std::span<const std::int64_t>(lengths));
  }
};

class Embedding final : public IndexLayer {
 public:
  explicit Embedding(const EmbeddingOptions& options) : o_(options) {
    expect_at_least("words", o_.words, 1);
    expect_at_least("width", o_.width, 1);
  }
  [[nodiscard]] std::string kind() const override { return "embedding"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override { return {wider(in, o_.width)}; }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes&) const override {
    return {{.name = "weight",
             .shape = {o_.words, o_.width},
             .wanted = o_.weight_param,
             .fan_in = o_.width,
             .fan_out = o_.words}};
  }
  [[nodiscard]] std::string summary() const override { return fmt::format("{} words", o_.words); }
  void forward(Pass& pass) override { kernel::embed(pass.x[0], pass.parameter[0], pass.y[0]); }
  void backward(Pass& pass) override { kernel::embed_backward(pass.x[0], pass.dy[0], pass.gradient[0]); }

 private:
  const EmbeddingOptions o_;
};

class OneHot final : public IndexLayer {
 public:
  explicit OneHot(const OneHotOptions& options) : o_(options) { expect_at_least("words", o_.words, 1); }
  [[nodiscard]] std::string kind() const override { return "one_hot"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override { return {wider(in, o_.words)}; }
  void forward(Pass& pass) override { kernel::one_hot(pass.x[0], o_.words, 1, pass.y[0]); }
  void backward(Pass&) override {}

 private:
  const OneHotOptions o_;
};

/// Takes (batch, steps + 1) indices and outputs the labels: the index that follows each step. If `both`, the first
/// output holds the first `steps` indices and the second the labels.
class NextStepLabels final : public IndexLayer {
 public:
  explicit NextStepLabels(bool both) : both_(both) {}
  [[nodiscard]] std::string kind() const override { return both_ ? "char_rnn" : "rnn_label"; }
  [[nodiscard]] DType output_type(std::size_t, DType) const override { return DType::int32; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    if (in[0].rank() != 2 || in[0][1] < 2) {
      throw InvalidArgument(fmt::format("expected (batch, steps + 1) indices; received {}", in[0].text()));
    }
    return Shapes(both_ ? 2 : 1, Shape{in[0][0], in[0][1] - 1});
  }
  void forward(Pass& pass) override {
    const Shape& shape = pass.x[0].shape();
    const auto row = static_cast<std::size_t>(shape[1]) * sizeof(std::int32_t);
    for (std::size_t k = 0; k < pass.y.size(); ++k) {
      const std::size_t skip = both_ && k == 0 ? 0 : sizeof(std::int32_t);
      kernel::copy_strided(pass.y[k].raw(), row - sizeof(std::int32_t),
                           static_cast<const std::byte*>(pass.x[0].raw()) + skip, row, row - sizeof(std::int32_t),
                           shape[0]);
    }
  }
  void backward(Pass&) override {}

 private:
  const bool both_;
};

const Fields<EmbeddingOptions>& embedding_fields() {
  using O = EmbeddingOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("words", &O::words, "number of different indices"),
                      field("width", &O::width, "length of each vector")};
    add_param_fields(list, "weight", &O::weight_param);
    return list;
  }();
  return all;
}
const Fields<OneHotOptions>& one_hot_fields() {
  static const Fields<OneHotOptions> all = {field("words", &OneHotOptions::words, "number of different indices")};
  return all;
}

}  // namespace

LayerPtr embedding(const EmbeddingOptions& options) {
  return with_options(std::make_unique<Embedding>(options), embedding_fields(), options);
}
LayerPtr one_hot(const OneHotOptions& options) {
  return with_options(std::make_unique<OneHot>(options), one_hot_fields(), options);
}
LayerPtr char_rnn() { return std::make_unique<NextStepLabels>(true); }
LayerPtr rnn_label() { return std::make_unique<NextStepLabels>(false); }
LayerPtr embedding_from(const LayerFields& text) { return embedding(read_fields(embedding_fields(), text)); }
LayerPtr one_hot_from(const LayerFields& text) { return one_hot(read_fields(one_hot_fields(), text)); }
LayerPtr char_rnn_from(const LayerFields& text) { return read_no_fields(text), char_rnn(); }
LayerPtr rnn_label_from(const LayerFields& text) { return read_no_fields(text), rnn_label(); }

}  // namespace pleiad::nn
