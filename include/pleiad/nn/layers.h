// The layers and losses that come with Pleiad: an options struct and a factory function for each. make_layer builds
// them from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleiad/choice.h"
#include "pleiad/nn/layer.h"

namespace pleiad::nn {
/// The value that a pooling layer computes of each window.
enum class PoolingType : std::uint8_t { average, l2, max };
/// The formula of a local contrast normalisation.
enum class ContrastType : std::uint8_t { box, gaussian };
/// Which operations of a gaussian local contrast are computed.
enum class ContrastPart : std::uint8_t { both, divide, subtract };
/// Units of a restricted Boltzmann machine: 0 or 1, or real with variance 1.
enum class RbmUnits : std::uint8_t { binary, gaussian };
/// Which units are sampled in a chain; with none, all are means.
enum class RbmSample : std::uint8_t { both, hidden, none };
}  // namespace pleiad::nn

namespace pleiad {
template <>
struct ChoiceNames<nn::PoolingType> {
  static constexpr std::string_view family = "pooling";
  static constexpr std::string_view names[] = {"average", "l2", "max"};
};
template <>
struct ChoiceNames<nn::ContrastType> {
  static constexpr std::string_view family = "type";
  static constexpr std::string_view names[] = {"box", "gaussian"};
};
template <>
struct ChoiceNames<nn::ContrastPart> {
  static constexpr std::string_view family = "part";
  static constexpr std::string_view names[] = {"both", "divide", "subtract"};
};
template <>
struct ChoiceNames<nn::RbmUnits> {
  static constexpr std::string_view family = "units";
  static constexpr std::string_view names[] = {"binary", "gaussian"};
};
template <>
struct ChoiceNames<nn::RbmSample> {
  static constexpr std::string_view family = "sample";
  static constexpr std::string_view names[] = {"both", "hidden", "none"};
};
}  // namespace pleiad

namespace pleiad::nn {

/// y = f(x * weight^T + bias). x is flattened after its batch axis, unless last_axis applies the product to each
/// position.
struct DenseOptions {
  std::int64_t out = 0;
  std::string activation = "linear";  ///< linear, relu, leaky, sigmoid, tanh, stanh or softplus
  bool bias = true;
  /// the weight has the shape (in, out); with `share`, it is the tied weight of another layer
  bool transposed = false;
  bool last_axis = false;  ///< x is (batch, ..., in) and y is (batch, ..., out): one product for each position
  Param weight_param = {};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr dense(const DenseOptions& options);

/// y = f(filters over x + bias). The weight is (filters, height, width, channels / groups). Output lengths are rounded
/// down.
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
/// Returns options with the same kernel, stride and padding in both directions.
[[nodiscard]] PLEIAD_API ConvolutionOptions square(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1,
                                                   std::int64_t pad = 0);

/// Pools over windows of each map. The average divides by the size of the window clipped to the padded image (SINGA),
/// or clipped to the image if count_padding is false. l2 is sqrt(sum of x^2), with the gradient x / norm, where a norm
/// of 0 counts as 1. kernel, stride and pad apply to both directions, or to height alone if the option for width is
/// given.
struct PoolingOptions {
  Choice<PoolingType> type = PoolingType::max;
  std::int64_t kernel = 3;
  std::int64_t stride = 2;
  std::int64_t pad = 0;
  bool count_padding = true;
  std::int64_t kernel_w = 0;  ///< 0: same as for height; stride_w likewise
  std::int64_t stride_w = 0;
  std::int64_t pad_w = -1;  ///< -1: same as for height
};
[[nodiscard]] PLEIAD_API LayerPtr pooling(const PoolingOptions& options);

/// Makes each output map a weighted sum of the input maps at the same position (neon): y = x * weight^T over the last
/// axis.
struct CrossMapPoolingOptions {
  std::int64_t maps = 0;
  Param weight_param = {.init = {.type = "auto_uniform"}};
};
[[nodiscard]] PLEIAD_API LayerPtr cross_map_pooling(const CrossMapPoolingOptions& options);

/// A convolution with separate filters for each position: the weight is (out height, out width, filters, kernel height,
/// kernel width, channels), the bias is (out height, out width, filters). transposed: the reverse mapping, from (out
/// height, out width, maps) to an image of `filters` channels, with a weight of the same shape as the forward layer's,
/// so that the two can be tied. The height of that image is (h - 1) * stride + kernel_h - 2 * pad_h unless it is given.
struct LocalConvolutionOptions {
  std::int64_t filters = 0;
  std::int64_t kernel_h = 3, kernel_w = 3;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::string activation = "linear";
  bool bias = false;
  bool transposed = false;
  std::int64_t height = 0, width = 0;  ///< image size of a transposed layer; 0: the smallest possible
  Param weight_param = {.init = {.type = "auto_uniform"}};
  Param bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr local_convolution(const LocalConvolutionOptions& options);

/// Local contrast normalisation with an odd window and zeros around the image. gaussian: v = x - the weighted mean over
/// the window and all maps, y = v / sqrt(the weighted sum of v^2), where 0 counts as 1; `part` selects one of the two
/// operations. box: y = x * (1 + alpha / size^2 * sum of (x - mean)^2)^-beta in each map, with windows clipped to the
/// image.
struct LocalContrastOptions {
  Choice<ContrastType> type = ContrastType::gaussian;
  Choice<ContrastPart> part = ContrastPart::both;  ///< for gaussian
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

/// Normalises each channel (last axis) to mean 0 and variance 1 over the batch, then computes x * scale + shift.
/// Outside of training it uses running averages.
struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< momentum m of the running averages: r = (1 - m) * r + m * new
  Param scale_param = {.init = {.type = "constant", .value = 1}};
  Param shift_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr batch_norm(const BatchNormOptions& options = {});

/// In training, sets a fraction `ratio` of x to zero and scales the rest by 1 / (1 - ratio).
struct DropoutOptions {
  double ratio = 0.5;
};
[[nodiscard]] PLEIAD_API LayerPtr dropout(const DropoutOptions& options = {});

/// y = f(x) for each element, or softmax over the last axis.
struct ActivationOptions {
  std::string function = "relu";  ///< a function of dense, or softmax over the last axis
  double slope = 0.01;            ///< slope of leaky for x < 0
};
[[nodiscard]] PLEIAD_API LayerPtr activation(const ActivationOptions& options);

/// Reshapes to (batch, everything else).
[[nodiscard]] PLEIAD_API LayerPtr flatten();
/// Splits an axis into `parts` outputs, of which the first ones are one longer if it does not divide evenly; or into
/// the given sizes.
struct SliceOptions {
  std::int64_t axis = 1;
  std::int64_t parts = 2;
  std::vector<std::int64_t> sizes = {};
};
[[nodiscard]] PLEIAD_API LayerPtr slice(const SliceOptions& options);
/// Concatenates its inputs along an axis.
struct ConcatOptions {
  std::int64_t axis = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr concat(const ConcatOptions& options = {});
/// Makes `copies` outputs that are equal to the input.
struct SplitOptions {
  std::int64_t copies = 2;
};
[[nodiscard]] PLEIAD_API LayerPtr split(const SplitOptions& options = {});
/// Adds its inputs.
[[nodiscard]] PLEIAD_API LayerPtr sum();

/// Passes its input on unchanged. It marks the boundary between parts of a net on different ranks (SINGA).
[[nodiscard]] PLEIAD_API LayerPtr bridge();
/// Same as split, under neon's name.
[[nodiscard]] PLEIAD_API LayerPtr branch(const SplitOptions& options = {});
/// Without a shape, passes its input on. With the shape of a sample ("28,28,1"), produces values between 0 and 1 that
/// do not depend on its input, so that a net can be tried without data.
struct DummyOptions {
  std::vector<std::int64_t> shape = {};
};
[[nodiscard]] PLEIAD_API LayerPtr dummy(const DummyOptions& options = {});

/// Recurrent layers over (batch, steps, features), or (batch, features) as one step. With `carry`, a batch starts from
/// the last state of the batch before it, sample by sample, so that a long sequence can be learned in pieces; gradients
/// do not flow across pieces. rnn and gru take a second input (batch, any steps, hidden), whose last step is the
/// initial state.
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
/// A plain recurrent layer: h = f(W x + b + U h').
struct RnnOptions : RecurrentOptions {
  std::string activation = "tanh";
};
[[nodiscard]] PLEIAD_API LayerPtr rnn(const RnnOptions& options);
[[nodiscard]] PLEIAD_API LayerPtr gru(const RecurrentOptions& options);
[[nodiscard]] PLEIAD_API LayerPtr lstm(const RecurrentOptions& options);

/// Looks up the rows of a table for int32 indices: (batch, ...) becomes (batch, ..., width).
struct EmbeddingOptions {
  std::int64_t words = 0;
  std::int64_t width = 0;
  Param weight_param = {};
};
[[nodiscard]] PLEIAD_API LayerPtr embedding(const EmbeddingOptions& options);
/// Turns indices into (batch, ..., words), with 1 at the index and 0 elsewhere.
struct OneHotOptions {
  std::int64_t words = 0;
};
[[nodiscard]] PLEIAD_API LayerPtr one_hot(const OneHotOptions& options);
/// char_rnn: for int32 indices (batch, steps + 1), the first output is the first `steps` of them, and the second is the
/// successor of each. rnn_label has only the second output.
[[nodiscard]] PLEIAD_API LayerPtr char_rnn();
[[nodiscard]] PLEIAD_API LayerPtr rnn_label();

/// argsort: the indices of the top_k largest values of the last axis, as int32, the largest first. accuracy: takes
/// scores and labels, and computes the fraction of labels among the top_k scores; a metric without a loss.
struct ArgsortOptions {
  std::int64_t top_k = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr argsort(const ArgsortOptions& options = {});
[[nodiscard]] PLEIAD_API LayerPtr accuracy(const ArgsortOptions& options = {});

/// csv_output and record_output write each sample that passes through to a file, with its label if there is a second
/// input: as a line of text, or as a SINGA record. The file is created by the first pass. Share n > 0 of a batch writes
/// "path.n"; ranks that do not train together need different paths.
struct CsvOutputOptions {
  std::string path = {};
  std::string separator = ",";
};
[[nodiscard]] PLEIAD_API LayerPtr csv_output(const CsvOutputOptions& options);
/// Options of record_output.
struct RecordOutputOptions {
  std::string path = {};
};
[[nodiscard]] PLEIAD_API LayerPtr record_output(const RecordOutputOptions& options);

/// Crops a square from each image, mirrors half of the images (option mirror) and multiplies by scale. In training, the
/// position of the crop and the choice to mirror are random; otherwise the crop is the centre and nothing is mirrored.
struct ImagePreprocessOptions {
  std::int64_t crop = 0;  ///< side length of the crop; 0: the whole image
  bool mirror = false;
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr image_preprocess(const ImagePreprocessOptions& options);

/// Inputs: scores (batch, classes), labels (batch) as int32. The loss is the mean of -log softmax(scores)[label], times
/// scale. Metric "accuracy": the fraction of labels among the top_k scores.
struct SoftmaxLossOptions {
  std::int64_t top_k = 1;
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr softmax_loss(const SoftmaxLossOptions& options = {});
/// Inputs: scores before the sigmoid, targets in [0, 1]. The loss is summed over a sample and averaged over the batch.
[[nodiscard]] PLEIAD_API LayerPtr sigmoid_loss();
/// Inputs: predictions, targets. The loss is half the squared distance of a sample, averaged over the batch, so the
/// gradient is d / batch. Metric "se": the full squared distance (which SINGA reports).
[[nodiscard]] PLEIAD_API LayerPtr euclidean_loss();

/// The loss is `scale` times the sum of a sample's values, averaged over the batch. It serves as a penalty term.
struct SumLossOptions {
  double scale = 1;
};
[[nodiscard]] PLEIAD_API LayerPtr sum_loss(const SumLossOptions& options = {});

/// A restricted Boltzmann machine over its input v. h = s(v * weight^T + hidden_bias), v = s(h * weight +
/// visible_bias), where s is the sigmoid, or the identity for gaussian units. It is the last layer of a net: its
/// gradients are the estimates of contrastive divergence, the mean of h- v- minus the mean of h+ v+. "loss" is half of
/// "se", the squared distance between a sample and its reconstruction. A dense layer that shares weight and hidden_bias
/// computes h from v; a transposed one computes v from h.
struct RbmOptions {
  std::int64_t hidden = 0;
  Choice<RbmUnits> visible_units = RbmUnits::binary;
  Choice<RbmUnits> hidden_units = RbmUnits::binary;
  std::int64_t k = 1;  ///< number of Gibbs steps
  /// above 0: the number of persistent chains, which are saved with the parameters and equal on all ranks
  std::int64_t chains = 0;
  Choice<RbmSample> sample = RbmSample::hidden;
  Param weight_param = {};
  Param hidden_bias_param = {.init = {.type = "constant", .value = 0}};
  Param visible_bias_param = {.init = {.type = "constant", .value = 0}};
};
[[nodiscard]] PLEIAD_API LayerPtr rbm(const RbmOptions& options);

/// Builds a layer from its kind and its options by name ("filters", "weight.std"), for job files and bindings. An
/// unknown kind or option is an InvalidArgument that lists the known ones.
[[nodiscard]] PLEIAD_API LayerPtr make_layer(const std::string& kind, const LayerFields& fields = {});
[[nodiscard]] PLEIAD_API std::vector<std::string> layer_kinds();

}  // namespace pleiad::nn
