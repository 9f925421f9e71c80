// The layers and losses that come with Pleiad: an options struct and a factory each. make_layer builds them from text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/nn/layer.h"

namespace pleiad::nn {

/// y = f(x * weight^T + bias). x is flattened after its batch; or each of its places is taken for itself.
struct DenseOptions {
  std::int64_t out = 0;
  std::string activation = "linear";  ///< linear, relu, leaky, sigmoid, tanh, stanh or softplus
  bool bias = true;
  bool transposed = false;  ///< the weight is in x out: with `share`, that of another layer tied
  bool last_axis = false;   ///< x is (batch, ..., in) and y (batch, ..., out): one product for each place
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
/// inside the image where count_padding is false. l2: sqrt(sum of x^2), whose gradient is x / norm, a norm of 0 taken
/// as 1. Lengths are of both directions, or of height alone where that of width is told.
struct PoolingOptions {
  std::string type = "max";  ///< max, average or l2
  std::int64_t kernel = 3;
  std::int64_t stride = 2;
  std::int64_t pad = 0;
  bool count_padding = true;
  std::int64_t kernel_w = 0;  ///< 0: as that of height; so with the next
  std::int64_t stride_w = 0;
  std::int64_t pad_w = -1;  ///< -1: as that of height
};
[[nodiscard]] PLEIAD_API LayerPtr pooling(const PoolingOptions& options);

/// Each output map is a weighted sum of the input maps, place by place (neon): y = x * weight^T over the last axis.
struct CrossMapPoolingOptions {
  std::int64_t maps = 0;
  Param weight_param = {.init = {.type = "auto_uniform"}};
};
[[nodiscard]] PLEIAD_API LayerPtr cross_map_pooling(const CrossMapPoolingOptions& options);

/// As a convolution, but with filters of its own for each place: the weight is (out height, out width, filters, kernel
/// height, kernel width, channels), the bias (out height, out width, filters). transposed: the other way round, from
/// (out height, out width, maps) to an image of `filters` channels, by the weight of a layer from there: so it can be
/// tied to it. Its height is (h - 1) * stride + kernel_h - 2 * pad_h, unless given.
struct LocalConvolutionOptions {
  std::int64_t filters = 0;
  std::int64_t kernel_h = 3, kernel_w = 3;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::string activation = "linear";
  bool bias = false;
  bool transposed = false;
  std::int64_t height = 0, width = 0;  ///< of a transposed layer's images; 0: the least
  Param weight_param = {.init = {.type = "auto_uniform"}};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr local_convolution(const LocalConvolutionOptions& options);

/// Local contrast normalisation with an odd window and zeros around the image. gaussian: v = x - the weighted mean over
/// window and all maps, y = v / sqrt(the weighted sum of v^2), 0 taken as 1; `part` has one of the two alone. box: y =
/// x * (1 + alpha / size^2 * sum of (x - mean)^2)^-beta in each map, windows clipped to the image.
struct LocalContrastOptions {
  std::string type = "gaussian";  ///< or box
  std::string part = "both";      ///< of gaussian: both, subtract or divide
  std::int64_t size = 9;
  double alpha = 1;
  double beta = 0.5;
};
[[nodiscard]] PLEIAD_API LayerPtr local_contrast(const LocalContrastOptions& options);

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

/// Passes its input on, for a place between parts of a net that lie on different ranks (SINGA).
[[nodiscard]] PLEIAD_API LayerPtr bridge();
/// split, under neon's name.
[[nodiscard]] PLEIAD_API LayerPtr branch(const SplitOptions& options = {});
/// Without a shape it passes its input on. With one, of a sample ("28,28,1"), it gives numbers in 0 to 1 that its input
/// has no part in: a net can be tried without data.
struct DummyOptions {
  std::vector<std::int64_t> shape = {};
};
[[nodiscard]] PLEIAD_API LayerPtr dummy(const DummyOptions& options = {});

/// Recurrent layers over (batch, steps, features), or (batch, features) as one step. With `carry` a batch begins where
/// the one before it ended, sample by sample: a long sequence is learnt in pieces; gradients stay within a piece.
/// rnn and gru take a second input (batch, any steps, hidden), at whose last step they begin.
/// Parameters: "weight" (gates * hidden, features), "recurrent" (gates * hidden, hidden), "bias". Gates of gru: r, z,
/// n; h = z * h' + (1 - z) * n, n = tanh(W x + b + r * (U h')). Gates of lstm: i, f, g, o. docs/nn.md has the formulas.
struct RecurrentOptions {
  std::int64_t hidden = 0;
  bool bias = true;
  bool carry = false;
  Param weight_param = {.init = {.type = "auto_uniform"}};
  Param recurrent_param = {.init = {.type = "auto_uniform"}};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
struct RnnOptions : RecurrentOptions {
  std::string activation = "tanh";
};
[[nodiscard]] PLEIAD_API LayerPtr rnn(const RnnOptions& options);
[[nodiscard]] PLEIAD_API LayerPtr gru(const RecurrentOptions& options);
[[nodiscard]] PLEIAD_API LayerPtr lstm(const RecurrentOptions& options);

/// Of int32 indices (batch, ...) the rows of a table: (batch, ..., width).
struct EmbeddingOptions {
  std::int64_t words = 0;
  std::int64_t width = 0;
  Param weight_param = {};
};
[[nodiscard]] PLEIAD_API LayerPtr embedding(const EmbeddingOptions& options);
/// (batch, ..., words): 1 at the index, 0 elsewhere.
struct OneHotOptions {
  std::int64_t words = 0;
};
[[nodiscard]] PLEIAD_API LayerPtr one_hot(const OneHotOptions& options);
/// Of (batch, steps + 1) int32 indices the first `steps`, and as second output what follows each; rnn_label the latter
/// alone.
[[nodiscard]] PLEIAD_API LayerPtr char_rnn();
[[nodiscard]] PLEIAD_API LayerPtr rnn_label();

/// argsort: the places of the top_k largest numbers of the last axis, as int32, the largest first. accuracy, of scores
/// and labels: the share of labels among the top_k; a metric without a loss.
struct ArgsortOptions {
  std::int64_t top_k = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr argsort(const ArgsortOptions& options = {});
[[nodiscard]] PLEIAD_API LayerPtr accuracy(const ArgsortOptions& options = {});

/// Write each sample that passes into a file, with its label where a second input has some: a line of text, or a record
/// of SINGA's. The file begins anew with the layer; rank n > 0 has "path.n".
struct CsvOutputOptions {
  std::string path = {};
  std::string separator = ",";
};
[[nodiscard]] PLEIAD_API LayerPtr csv_output(const CsvOutputOptions& options);
struct RecordOutputOptions {
  std::string path = {};
};
[[nodiscard]] PLEIAD_API LayerPtr record_output(const RecordOutputOptions& options);

/// A square piece of each image, and half of them mirrored, both drawn in training; the middle otherwise. Times scale.
struct ImagePreprocessOptions {
  std::int64_t crop = 0;  ///< the piece's side; 0: the whole image
  bool mirror = false;
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr image_preprocess(const ImagePreprocessOptions& options);

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

/// scale times the sum of a sample's numbers, mean over the batch: a price for what it is put on.
struct SumLossOptions {
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr sum_loss(const SumLossOptions& options = {});

/// A restricted Boltzmann machine over its input v. h = s(v * weight^T + hidden_bias), v = s(h * weight +
/// visible_bias), s the sigmoid, or nothing for gaussian units. It ends a net: its gradients are the estimates of
/// contrastive divergence, the mean of h- v- less that of h+ v+. "loss" is half of "se", the squared distance of a
/// sample from its reconstruction. A dense layer that shares weight and hidden_bias is the way up, a transposed one the
/// way down.
struct RbmOptions {
  std::int64_t hidden = 0;
  std::string visible_units = "binary";  ///< or gaussian, of variance 1
  std::string hidden_units = "binary";
  std::int64_t k = 1;       ///< steps of the chain
  std::int64_t chains = 0;  ///< above 0: so many persistent chains, saved with the parameters, the same on all ranks
  std::string sample = "hidden";  ///< which units are sampled on the way: hidden, both or none (means)
  Param weight_param = {};
  Param hidden_bias_param = {.init = {.type = "constant", .value = 0}};
  Param visible_bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr rbm(const RbmOptions& options);

/// A layer by its kind, options by name ("filters", "weight.std"): for job files and bindings. An unknown kind or
/// option is an InvalidArgument that lists the known ones.
[[nodiscard]] PLEIAD_API LayerPtr make_layer(const std::string& kind, const LayerFields& fields = {});
[[nodiscard]] PLEIAD_API std::vector<std::string> layer_kinds();

}  // namespace pleiad::nn
