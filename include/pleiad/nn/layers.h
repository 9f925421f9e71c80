// The layers and losses that come with Pleiad: an options struct and a factory each. make_layer builds them from text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/nn/layer.h"

namespace pleiad::nn {

/// y = f(x * weight^T + bias). x is flattened after its batch.
struct DenseOptions {
  std::int64_t out = 0;
  std::string activation = "linear";  ///< linear, relu, leaky, sigmoid, tanh, stanh or softplus
  bool bias = true;
  bool transposed = false;  ///< the weight is in x out: with `share`, that of another layer tied
  Param weight_param = {};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr dense(const DenseOptions& options);

/// y = f(filters over x + bias); the weight is (filters, height, width, channels / groups). Lengths round down.
struct ConvolutionOptions {
  std::int64_t filters = 0;
  std::int64_t kernel_h = 3, kernel_w = 3;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  std::string activation = "linear";
  bool bias = true;
  Param weight_param = {};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr convolution(const ConvolutionOptions& options);
/// Square: the same kernel, stride and padding in both directions.
[[nodiscard]] PLEIAD_API ConvolutionOptions square(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1,
                                                   std::int64_t pad = 0);

/// Over windows of each map. The average divides by the window clipped to the padded image (SINGA), or by what lies
/// inside the image where count_padding is false.
struct PoolingOptions {
  std::string type = "max";  ///< max or average
  std::int64_t kernel = 3;
  std::int64_t stride = 2;
  std::int64_t pad = 0;
  bool count_padding = true;
};
[[nodiscard]] PLEIAD_API LayerPtr pooling(const PoolingOptions& options);

/// y = x * (k + alpha / size * sum of x^2 over `size` maps)^-beta.
struct LrnOptions {
  std::int64_t size = 5;
  double alpha = 1;
  double beta = 0.75;
  double k = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr lrn(const LrnOptions& options);

/// Each channel (last axis) to mean 0 and variance 1 over the batch, then * scale + shift; by running averages outside
/// of training.
struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< of the running averages: r = (1 - m) * r + m * new
  Param scale_param = {.init = {.type = "constant", .value = 1}};
  Param shift_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr batch_norm(const BatchNormOptions& options = {});

/// In training zeroes a share `ratio` of x and scales the rest by 1 / (1 - ratio).
struct DropoutOptions {
  double ratio = 0.5;
};
[[nodiscard]] PLEIAD_API LayerPtr dropout(const DropoutOptions& options = {});

struct ActivationOptions {
  std::string function = "relu";  ///< those of dense, and softmax over the last axis
  double slope = 0.01;            ///< leaky
};
[[nodiscard]] PLEIAD_API LayerPtr activation(const ActivationOptions& options);

/// (batch, everything else).
[[nodiscard]] PLEIAD_API LayerPtr flatten();
/// Cuts an axis into `parts` outputs, the first ones one longer where it does not divide; or into the given sizes.
struct SliceOptions {
  std::int64_t axis = 1;
  std::int64_t parts = 2;
  std::vector<std::int64_t> sizes = {};
};
[[nodiscard]] PLEIAD_API LayerPtr slice(const SliceOptions& options);
/// Joins its inputs along an axis.
struct ConcatOptions {
  std::int64_t axis = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr concat(const ConcatOptions& options = {});
/// `copies` outputs equal to the input.
struct SplitOptions {
  std::int64_t copies = 2;
};
[[nodiscard]] PLEIAD_API LayerPtr split(const SplitOptions& options = {});
/// The sum of its inputs.
[[nodiscard]] PLEIAD_API LayerPtr sum();

/// Inputs: scores (batch, classes), labels (batch) as int32. The mean of -log softmax(scores)[label], times scale.
/// Metric "accuracy": the share of labels among the top_k scores.
struct SoftmaxLossOptions {
  std::int64_t top_k = 1;
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr softmax_loss(const SoftmaxLossOptions& options = {});
/// Inputs: scores before the sigmoid, targets in [0, 1]. Summed over a sample, mean over the batch.
[[nodiscard]] PLEIAD_API LayerPtr sigmoid_loss();
/// Inputs: predictions, targets. Half the squared distance of a sample, mean over the batch, so the gradient is d /
/// batch. Metric "se": the whole squared distance (what SINGA reports).
[[nodiscard]] PLEIAD_API LayerPtr euclidean_loss();

/// A layer by its kind, options by name ("filters", "weight.std"): for job files and bindings. An unknown kind or
/// option is an InvalidArgument that lists the known ones.
[[nodiscard]] PLEIAD_API LayerPtr make_layer(const std::string& kind, const LayerFields& fields = {});
[[nodiscard]] PLEIAD_API std::vector<std::string> layer_kinds();

}  // namespace pleiad::nn
