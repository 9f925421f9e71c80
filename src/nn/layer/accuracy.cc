// Layers that evaluate scores: argsort returns the indices of the largest ones, accuracy compares them with labels.
#include "core/threads.h"
#include "kernel/embedding.h"
#include "kernel/loss.h"
#include "kernel/types.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Argsort final : public Layer {
 public:
  explicit Argsort(const ArgsortOptions& options) : top_k_(options.top_k) { expect_at_least("top_k", top_k_, 1); }
  [[nodiscard]] std::string kind() const override { return "argsort"; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] DType output_type(std::size_t, DType) const override { return DType::int32; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    Shape out = in[0];
    const int last = out.rank() - 1;
    if (last < 1 || out[last] < top_k_) {
      throw InvalidArgument(fmt::format("expected (batch, at least {} scores); received {}", top_k_, in[0].text()));
    }
    out.set(last, top_k_);
    return {out};
  }
  void forward(Pass& pass) override { kernel::argsort(pass.x[0], pass.y[0]); }
  void backward(Pass&) override {}

 private:
  const std::int64_t top_k_;
};

class Accuracy final : public Layer, public ScoringLayer {
 public:
  explicit Accuracy(const ArgsortOptions& options) : top_k_(options.top_k) { expect_at_least("top_k", top_k_, 1); }
  [[nodiscard]] std::string kind() const override { return "accuracy"; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"accuracy"}; }
  [[nodiscard]] bool has_loss() const override { return false; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] DType input_type(std::size_t i, DType net) const override { return i == 1 ? DType::int32 : net; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 2);
    const std::int64_t classes = in[0].rank() < 2 ? 0 : in[0][in[0].rank() - 1];
    if (classes < 1 || in[1].count() * classes != in[0].count()) {
      throw InvalidArgument(fmt::format("expected scores (batch, classes) and a label for each; received {} and {}",
                                        in[0].text(), in[1].text()));
    }
    return {{1}};
  }
  void forward(Pass& pass) override {
    const std::int64_t rows = pass.x[1].count();
    const std::int64_t classes = pass.x[0].count() / rows;
    kernel::check_indices(pass.x[1], classes);
    std::int64_t right = 0;
    kernel::by_type(pass.x[0].dtype(), [&]<class T>(T) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* row = kernel::data<T>(pass.x[0]) + r * classes;
        const std::int32_t label = kernel::data<std::int32_t>(pass.x[1])[r];
        right += kernel::among_top(row, classes, label, top_k_) ? 1 : 0;
      }
    });
    pass.y[0].fill(static_cast<double>(right) / static_cast<double>(rows));
  }
  void backward(Pass&) override {}

 private:
  const std::int64_t top_k_;
};

const Fields<ArgsortOptions>& answers_fields() {
  static const Fields<ArgsortOptions> all = {
      field("top_k", &ArgsortOptions::top_k, "number of largest scores to consider")};
  return all;
}

}  // namespace

LayerPtr argsort(const ArgsortOptions& options) {
  return with_options(std::make_unique<Argsort>(options), answers_fields(), options);
}
LayerPtr accuracy(const ArgsortOptions& options) {
  return with_options(std::make_unique<Accuracy>(options), answers_fields(), options);
}
LayerPtr argsort_from(const LayerFields& text) { return argsort(read_fields(answers_fields(), text)); }
LayerPtr accuracy_from(const LayerFields& text) { return accuracy(read_fields(answers_fields(), text)); }

}  // namespace pleiad::nn
