// Layers that only move or add values: flatten, slice, concat, split, branch, bridge, dummy, sum.
#include <functional>
#include <numeric>

#include "core/random.h"
#include "kernel/elementwise.h"
#include "kernel/types.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Flatten final : public Layer, public FlatteningLayer {
 public:
  [[nodiscard]] std::string kind() const override { return "flatten"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return {{in[0][0], in[0].count(1, in[0].rank())}};
  }
  void forward(Pass& pass) override { kernel::copy(pass.y[0], pass.x[0]); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) kernel::copy(pass.dx[0], pass.dy[0]);
  }
};

std::size_t checked_axis(std::int64_t axis, const Shape& shape) {
  if (axis < 0 || axis >= shape.rank()) {
    throw InvalidArgument(fmt::format("axis {} is out of range for a tensor of shape {}", axis, shape.text()));
  }
  return static_cast<std::size_t>(axis);
}

/// Copies between a tensor and its parts along an axis. Skips parts without memory.
void copy_parts(const Tensor& whole, const std::vector<Tensor>& parts, int axis, bool into_parts) {
  const std::size_t size = size_of(whole.dtype());
  const auto bytes = [&](const Tensor& t) {
    return static_cast<std::size_t>(t.shape().count(axis, t.shape().rank())) * size;
  };
  const std::size_t stride = bytes(whole);
  std::size_t offset = 0;
  for (const Tensor& part : parts) {
    const std::size_t piece = bytes(part);
    if (!part.empty()) {
      auto* inside = static_cast<std::byte*>(whole.raw()) + offset;
      const std::int64_t rows = whole.shape().count(0, axis);
      into_parts ? kernel::copy_strided(part.raw(), piece, inside, stride, piece, rows)
                 : kernel::copy_strided(inside, stride, part.raw(), piece, piece, rows);
    }
    offset += piece;
  }
}

class Slice final : public Layer {
 public:
  explicit Slice(const SliceOptions& options) : options_(options) { expect_at_least("parts", options.parts, 1); }
  [[nodiscard]] std::string kind() const override { return "slice"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    const int axis = static_cast<int>(checked_axis(options_.axis, in[0]));
    std::vector<std::int64_t> sizes = options_.sizes;
    const std::int64_t length = in[0][axis];
    for (std::int64_t i = 0; options_.sizes.empty() && i < options_.parts; ++i) {
      sizes.push_back(length / options_.parts + (i < length % options_.parts ? 1 : 0));
    }
    if (std::reduce(sizes.begin(), sizes.end()) != length || std::ranges::min(sizes) < 1) {
      throw InvalidArgument(fmt::format("axis {} of shape {} cannot be split into sizes {}", axis, in[0].text(),
                                        fmt::join(sizes, " + ")));
    }
    Shapes out(sizes.size(), in[0]);
    for (std::size_t i = 0; i < sizes.size(); ++i) out[i].set(axis, sizes[i]);
    return out;
  }
  void forward(Pass& pass) override { copy_parts(pass.x[0], pass.y, static_cast<int>(options_.axis), true); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) copy_parts(pass.dx[0], pass.dy, static_cast<int>(options_.axis), false);
  }

 private:
  const SliceOptions options_;
};

class Concat final : public Layer {
 public:
  explicit Concat(const ConcatOptions& options) : options_(options) {}
  [[nodiscard]] std::string kind() const override { return "concat"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    if (in.empty()) throw InvalidArgument("expected inputs; received none");
    const int axis = static_cast<int>(checked_axis(options_.axis, in[0]));
    Shape out = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) {
      Shape other = in[i];
      if (other.rank() == out.rank()) other.set(axis, out[axis]);
      if (other != out) {
        throw InvalidArgument(fmt::format("expected inputs that differ only in axis {}; received {} and {}", axis,
                                          in[0].text(), in[i].text()));
      }
      out.set(axis, out[axis] + in[i][axis]);
    }
    return {out};
  }
  void forward(Pass& pass) override { copy_parts(pass.y[0], pass.x, static_cast<int>(options_.axis), false); }
  void backward(Pass& pass) override {
    for (std::size_t i = 0; i < pass.dx.size(); ++i) {  // an input without a gradient still occupies its position
      parts_.push_back(pass.dx[i].empty() ? Tensor(pass.x[i].dtype(), pass.x[i].shape(), nullptr) : pass.dx[i]);
    }
    copy_parts(pass.dy[0], parts_, static_cast<int>(options_.axis), true);
    parts_.clear();
  }

 private:
  const ConcatOptions options_;
  std::vector<Tensor> parts_;  // a member so that its memory is reused in every step
};

/// Copies its input to each output.
class Split final : public Layer, public SpatialLayer {
 public:
  Split(const char* kind, const SplitOptions& options) : kind_(kind), copies_(options.copies) {
    expect_at_least("copies", copies_, 1);
  }
  [[nodiscard]] std::string kind() const override { return kind_; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return Shapes(static_cast<std::size_t>(copies_), in[0]);
  }
  void forward(Pass& pass) override {
    for (const Tensor& y : pass.y) kernel::copy(y, pass.x[0]);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::copy(pass.dx[0], pass.dy[0]);
    for (std::size_t i = 1; i < pass.dy.size(); ++i) kernel::add(pass.dx[0], pass.dy[i]);
  }

 private:
  const char* const kind_;
  const std::int64_t copies_;
};

/// Outputs random values that depend on the step, the sample and the element.
class Dummy final : public Layer {
 public:
  explicit Dummy(const DummyOptions& options) : shape_(std::span<const std::int64_t>(options.shape)) {
    for (const std::int64_t length : options.shape) expect_at_least("shape", length, 1);
  }
  [[nodiscard]] std::string kind() const override { return "dummy"; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return {shape_.with_batch(in[0][0])};
  }
  void forward(Pass& pass) override {
    const RandomStream stream(pass.seed, pass.name);
    const std::int64_t row = shape_.count();
    kernel::by_type(pass.y[0].dtype(), [&]<class T>(T) {
      for (std::int64_t i = 0; i < pass.y[0].count(); ++i) {
        kernel::data<T>(pass.y[0])[i] = static_cast<T>(stream.uniform(
            static_cast<std::uint64_t>(i % row), static_cast<std::uint32_t>(pass.first_sample + i / row), pass.step));
      }
    });
  }
  void backward(Pass&) override {}

 private:
  const Shape shape_;
};

class Sum final : public Layer, public SpatialLayer {
 public:
  [[nodiscard]] std::string kind() const override { return "sum"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    if (in.empty()) throw InvalidArgument("expected inputs; received none");
    for (const Shape& shape : in) {
      if (shape != in[0]) {
        throw InvalidArgument(
            fmt::format("expected inputs of one shape; received {} and {}", in[0].text(), shape.text()));
      }
    }
    return {in[0]};
  }
  void forward(Pass& pass) override {
    kernel::copy(pass.y[0], pass.x[0]);
    for (std::size_t i = 1; i < pass.x.size(); ++i) kernel::add(pass.y[0], pass.x[i]);
  }
  void backward(Pass& pass) override {
    for (const Tensor& dx : pass.dx) {
      if (!dx.empty()) kernel::copy(dx, pass.dy[0]);
    }
  }
};

const Fields<SliceOptions>& slice_fields() {
  static const Fields<SliceOptions> all = {
      field("axis", &SliceOptions::axis, "axis to split"), field("parts", &SliceOptions::parts, "number of outputs"),
      field("sizes", &SliceOptions::sizes, "sizes of the outputs, instead of parts")};
  return all;
}
const Fields<ConcatOptions>& concat_fields() {
  static const Fields<ConcatOptions> all = {
      field("axis", &ConcatOptions::axis, "axis along which the inputs are joined")};
  return all;
}
const Fields<DummyOptions>& dummy_fields() {
  static const Fields<DummyOptions> all = {field("shape", &DummyOptions::shape, "shape of a sample")};
  return all;
}
const Fields<SplitOptions>& split_fields() {
  static const Fields<SplitOptions> all = {field("copies", &SplitOptions::copies, "number of outputs")};
  return all;
}

}  // namespace

LayerPtr flatten() { return std::make_unique<Flatten>(); }
LayerPtr sum() { return std::make_unique<Sum>(); }
LayerPtr slice(const SliceOptions& options) {
  return with_options(std::make_unique<Slice>(options), slice_fields(), options);
}
LayerPtr concat(const ConcatOptions& options) {
  return with_options(std::make_unique<Concat>(options), concat_fields(), options);
}
LayerPtr split(const SplitOptions& options) {
  return with_options(std::make_unique<Split>("split", options), split_fields(), options);
}
LayerPtr branch(const SplitOptions& options) {
  return with_options(std::make_unique<Split>("branch", options), split_fields(), options);
}
LayerPtr bridge() { return std::make_unique<Split>("bridge", SplitOptions{.copies = 1}); }
LayerPtr dummy(const DummyOptions& options) {
  if (options.shape.empty()) return std::make_unique<Split>("dummy", SplitOptions{.copies = 1});
  return with_options(std::make_unique<Dummy>(options), dummy_fields(), options);
}

LayerPtr flatten_from(const LayerFields& text) { return read_no_fields(text), flatten(); }
LayerPtr sum_from(const LayerFields& text) { return read_no_fields(text), sum(); }
LayerPtr slice_from(const LayerFields& text) { return slice(read_fields(slice_fields(), text)); }
LayerPtr concat_from(const LayerFields& text) { return concat(read_fields(concat_fields(), text)); }
LayerPtr split_from(const LayerFields& text) { return split(read_fields(split_fields(), text)); }
LayerPtr branch_from(const LayerFields& text) { return branch(read_fields(split_fields(), text)); }
LayerPtr bridge_from(const LayerFields& text) { return read_no_fields(text), bridge(); }
LayerPtr dummy_from(const LayerFields& text) { return dummy(read_fields(dummy_fields(), text)); }

}  // namespace pleiad::nn
