// Maps the layer types of jobs to Pleiad's layers.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "core/text.h"
#include "job/build.h"
#include "job/singa_layers.h"

namespace pleiad::job {
namespace {

const nn::Init kWeight = {.type = "gaussian", .value = 1, .mean = 0, .std = 0.01};
const nn::Init kBias = {.type = "constant", .value = 0};

/// Layer types that users have registered, by name. They are registered before a job runs and looked up while one is
/// built.
struct UserLayers {
  std::mutex mutex;
  std::map<std::string, JobLayerMaker> makers;
};
UserLayers& user_layers() {
  static UserLayers all;
  return all;
}

/// Returns the (y, x) values of an option that has one field for both directions or one field for each.
std::pair<std::int64_t, std::int64_t> both(const LayerSpec& o, const std::string& field, std::int64_t one, bool has_x,
                                           std::int64_t x, bool has_y, std::int64_t y, std::int64_t least) {
  if (has_x != has_y)
    throw_invalid(o.job, o.index, field + (has_x ? "_x" : "_y"), "expected both _x and _y, or neither");
  const auto pair = has_x ? std::pair(y, x) : std::pair(one, one);
  expect_at_least(o.job, o.index, has_x ? field + "_y" : field, pair.first, least);
  expect_at_least(o.job, o.index, has_x ? field + "_x" : field, pair.second, least);
  return pair;
}

nn::LayerPtr convolution(const LayerSpec& o) {
  const ConvolutionProto& c = o.conf.convolution_conf();
  expect_at_least(o.job, o.index, "convolution_conf.num_filters", c.num_filters(), 1);
  nn::ConvolutionOptions to;
  to.filters = c.num_filters();
  std::tie(to.kernel_h, to.kernel_w) =
      both(o, "convolution_conf.kernel", c.kernel(), c.has_kernel_x(), c.kernel_x(), c.has_kernel_y(), c.kernel_y(), 1);
  std::tie(to.stride_h, to.stride_w) =
      both(o, "convolution_conf.stride", c.stride(), c.has_stride_x(), c.stride_x(), c.has_stride_y(), c.stride_y(), 1);
  std::tie(to.pad_top, to.pad_left) =
      both(o, "convolution_conf.pad", c.pad(), c.has_pad_x(), c.pad_x(), c.has_pad_y(), c.pad_y(), 0);
  to.pad_bottom = to.pad_top;
  to.pad_right = to.pad_left;
  to.weight_param = o.param(0, kWeight);
  to.bias_param = o.param(1, kBias);
  return nn::convolution(to);
}

nn::LayerPtr pooling(const LayerSpec& o) {
  const PoolingProto& c = o.conf.pooling_conf();
  nn::PoolingOptions to;
  to.type = c.pool() == MAX ? nn::PoolingType::max : nn::PoolingType::average;
  std::tie(to.kernel, to.kernel_w) =
      both(o, "pooling_conf.kernel", c.kernel(), c.has_kernel_x(), c.kernel_x(), c.has_kernel_y(), c.kernel_y(), 1);
  std::tie(to.stride, to.stride_w) =
      both(o, "pooling_conf.stride", c.stride(), c.has_stride_x(), c.stride_x(), c.has_stride_y(), c.stride_y(), 1);
  std::tie(to.pad, to.pad_w) =
      both(o, "pooling_conf.pad", c.pad(), c.has_pad_x(), c.pad_x(), c.has_pad_y(), c.pad_y(), 0);
  for (const auto& [way, kernel, pad] : {std::tuple("y", to.kernel, to.pad), std::tuple("x", to.kernel_w, to.pad_w)}) {
    if (pad < kernel) continue;
    throw_invalid(o.job, o.index, c.has_pad_x() ? fmt::format("pooling_conf.pad_{}", way) : "pooling_conf.pad",
                  fmt::format("expected less than the kernel, {}; received {}", kernel, pad));
  }
  return nn::pooling(to);
}

nn::LayerPtr inner_product(const LayerSpec& o) {
  const InnerProductProto& c = o.conf.innerproduct_conf();
  expect_at_least(o.job, o.index, "innerproduct_conf.num_output", c.num_output(), 1);
  nn::DenseOptions to;
  to.out = c.num_output();
  to.bias = c.bias_term();
  to.transposed = c.transpose();
  to.last_axis = o.each_place;
  to.weight_param = o.param(0, kWeight);
  to.bias_param = o.param(1, kBias);
  return nn::dense(to);
}

nn::LayerPtr lrn(const LayerSpec& o) {
  const LRNProto& c = o.conf.lrn_conf();
  expect_at_least(o.job, o.index, "lrn_conf.local_size", c.local_size(), 1);
  return nn::lrn({.size = c.local_size(), .alpha = c.alpha(), .beta = c.beta(), .k = c.knorm()});
}

nn::LayerPtr dropout(const LayerSpec& o) {
  const double ratio = o.conf.dropout_conf().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) {
    throw_invalid(o.job, o.index, "dropout_conf.dropout_ratio",
                  fmt::format("expected 0 to below 1; received {}", ratio));
  }
  return nn::dropout({.ratio = ratio});
}

nn::LayerPtr function(const char* name) { return nn::activation({.function = name}); }

nn::LayerPtr relu(const LayerSpec& o) {
  const double slope = o.conf.relu_conf().negative_slope();
  return slope == 0 ? function("relu") : nn::activation({.function = "leaky", .slope = slope});
}

nn::LayerPtr activation(const LayerSpec& o) {
  switch (o.conf.activation_conf().type()) {
    case RELU: return relu(o);
    case SIGMOID: return function("sigmoid");
    case TANH: return function("tanh");
    case STANH: return function("stanh");
  }
  return nullptr;
}

nn::LayerPtr softmax(const LayerSpec& o) {
  const int groups = o.conf.softmax_conf().num_softmax_per_instance();
  expect_at_least(o.job, o.index, "softmax_conf.num_softmax_per_instance", groups, 1);
  return groups == 1 && !o.image ? function("softmax") : instance_softmax(groups, o.each_place);
}

nn::LayerPtr batch_norm(const LayerSpec& o) {
  nn::BatchNormOptions to;
  to.scale_param = o.param(0, {.type = "constant", .value = 1});
  to.shift_param = o.param(1, kBias);
  return nn::batch_norm(to);
}

nn::LayerPtr softmax_loss(const LayerSpec& o) {
  const SoftmaxLossProto& c = o.conf.softmaxloss_conf();
  expect_at_least(o.job, o.index, "softmaxloss_conf.topk", c.topk(), 1);
  return nn::softmax_loss({.top_k = c.topk(), .scale = c.scale()});
}

nn::LayerPtr accuracy(const LayerSpec& o) {
  const int k = o.conf.has_argsort_conf() ? o.conf.argsort_conf().topk() : o.conf.softmaxloss_conf().topk();
  expect_at_least(o.job, o.index, "argsort_conf.topk", k, 1);
  return nn::accuracy({.top_k = k});
}

nn::LayerPtr argsort(const LayerSpec& o) {
  expect_at_least(o.job, o.index, "argsort_conf.topk", o.conf.argsort_conf().topk(), 1);
  return nn::argsort({.top_k = o.conf.argsort_conf().topk()});
}

const std::string& output_path(const LayerSpec& o) {
  if (o.conf.store_conf().path().empty())
    throw_invalid(o.job, o.index, "store_conf.path", "expected a file; received none");
  return o.conf.store_conf().path();
}

nn::LayerPtr csv_output(const LayerSpec& o) {
  return nn::csv_output({.path = output_path(o), .separator = o.conf.store_conf().separator()});
}

nn::LayerPtr record_output(const LayerSpec& o) { return nn::record_output({.path = output_path(o)}); }

nn::LayerPtr image_preprocess(const LayerSpec& o) {
  const RGBImageProto& c = o.conf.rgbimage_conf();
  expect_at_least(o.job, o.index, "rgbimage_conf.cropsize", c.cropsize(), 0);
  return nn::image_preprocess({.crop = c.cropsize(), .mirror = c.mirror(), .scale = c.scale()});
}

/// Takes SINGA's nine parameters: z, r and c from the input, then from the state, then the biases.
nn::LayerPtr gru(const LayerSpec& o) {
  const GRUProto& c = o.conf.gru_conf();
  expect_at_least(o.job, o.index, "gru_conf.dim_hidden", c.dim_hidden(), 1);
  nn::RecurrentOptions to;
  to.hidden = c.dim_hidden();
  to.bias = c.bias_term();
  to.carry = o.carry;
  to.weight_param = o.param(0, kWeight);
  to.recurrent_param = o.param(3, kWeight);
  to.bias_param = o.param(6, kBias);
  return nn::gru(to);
}

nn::LayerPtr embedding(const LayerSpec& o) {
  const EmbeddingProto& c = o.conf.embedding_conf();
  expect_at_least(o.job, o.index, "embedding_conf.vocab_size", c.vocab_size(), 1);
  expect_at_least(o.job, o.index, "embedding_conf.feature_dim", c.feature_dim(), 1);
  return nn::embedding({.words = c.vocab_size(), .width = c.feature_dim(), .weight_param = o.param(0, kWeight)});
}

nn::LayerPtr one_hot(const LayerSpec& o) {
  expect_at_least(o.job, o.index, "onehot_conf.vocab_size", o.conf.onehot_conf().vocab_size(), 1);
  return nn::one_hot({.words = o.conf.onehot_conf().vocab_size()});
}

nn::LayerPtr user_layer(const LayerSpec& o) {
  UserLayers& own = user_layers();
  const std::scoped_lock lock(own.mutex);
  if (const auto found = own.makers.find(o.conf.user_type()); found != own.makers.end()) {
    return found->second(o.conf.SerializeAsString());
  }
  std::vector<std::string> known;
  for (const auto& [name, maker] : own.makers) known.push_back(name);
  throw_invalid(o.job, o.index, "user_type",
                known.empty()
                    ? fmt::format("no layer is registered under \"{}\", nor under any other name", o.conf.user_type())
                    : unknown_name("user-defined layer", o.conf.user_type(), known));
}

struct LayerTypeEntry {
  LayerType type;
  nn::LayerPtr (*make)(const LayerSpec&);
};

constexpr LayerTypeEntry kTypes[] = {
    {kConvolution, convolution},
    {kCConvolution, convolution},
    {kCudnnConv, convolution},
    {kPooling, pooling},
    {kCPooling, pooling},
    {kCudnnPool, pooling},
    {kInnerProduct, inner_product},
    {kLRN, lrn},
    {kCudnnLRN, lrn},
    {kDropout, dropout},
    {kReLU, relu},
    {kSTanh, [](const LayerSpec&) { return function("stanh"); }},
    {kSigmoid, [](const LayerSpec&) { return function("sigmoid"); }},
    {kSoftmax, softmax},
    {kCudnnSoftmax, softmax},
    {kActivation, activation},
    {kCudnnActivation, activation},
    {kBM, batch_norm},
    {kCudnnBM, batch_norm},
    {kSoftmaxLoss, softmax_loss},
    {kCudnnSoftmaxLoss, softmax_loss},
    {kEuclideanLoss, [](const LayerSpec&) { return nn::euclidean_loss(); }},
    {kAccuracy, accuracy},
    {kArgSort, argsort},
    {kCSVOutput, csv_output},
    {kRecordOutput, record_output},
    {kImagePreprocess, image_preprocess},
    {kRGBImage, image_preprocess},
    {kGRU, gru},
    {kEmbedding, embedding},
    {kOneHot, one_hot},
    {kUserLayer, user_layer},
};

std::string init_name(const JobImpl& job, int index, const std::string& field, InitMethod method) {
  switch (method) {
    case kConstant: return "constant";
    case kGaussian: return "gaussian";
    case kUniform: return "uniform";
    case kGaussianSqrtFanIn: return "gaussian_sqrt_fan_in";
    case kUniformSqrtFanIn: return "uniform_sqrt_fan_in";
    case kUniformSqrtFanInOut: return "uniform_sqrt_fan_in_out";
    case kUserInit: break;
  }
  throw_invalid(job, index, field, "expected one of the built-in types, such as kGaussian; received none");
}

}  // namespace

nn::Param LayerSpec::param(int k, const nn::Init& usual) const {
  nn::Param param;
  param.init = usual;
  if (k >= conf.param_size()) return param;
  if (static_cast<std::size_t>(k) < shares.size()) param.share = shares[static_cast<std::size_t>(k)];
  const ParamProto& p = conf.param(k);
  param.rate_scale = p.lr_scale();
  param.decay_scale = p.wd_scale();
  if (!p.has_init()) return param;  // a checkpoint has it, or it is shared
  const ParamGenProto& init = p.init();
  const std::string field = fmt::format("param[{}].init.type", k);
  param.init = {.type = init_name(job, index, field, init.type()),
                .value = init.value(),
                .mean = init.mean(),
                .std = init.std(),
                .low = init.low(),
                .high = init.high()};
  return param;
}

nn::LayerPtr make_job_layer(const LayerSpec& order) {
  const auto* const found = std::ranges::find(kTypes, order.conf.type(), &LayerTypeEntry::type);
  return found == std::end(kTypes) ? nullptr : found->make(order);
}

}  // namespace pleiad::job

namespace pleiad {

std::vector<nn::Param> params_of_job_layer(const std::string& conf) {
  job::JobImpl in;
  in.where = "layer";
  job::LayerProto* const layer = in.proto.mutable_neuralnet()->add_layer();
  if (!layer->ParseFromString(conf)) throw InvalidArgument("layer: the bytes are not a LayerProto");
  const job::LayerSpec order{.job = in, .index = 0, .conf = *layer};
  std::vector<nn::Param> all;
  for (int k = 0; k < layer->param_size(); ++k) all.push_back(order.param(k, job::kWeight));
  return all;
}

void register_job_layer(const std::string& user_type, JobLayerMaker maker) {
  job::UserLayers& own = job::user_layers();
  const std::scoped_lock lock(own.mutex);
  own.makers[user_type] = std::move(maker);
}

nn::LayerPtr layer_of_job(const std::string& layer) {
  job::JobImpl in;
  in.where = "layer";
  job::LayerProto* const conf = in.proto.mutable_neuralnet()->add_layer();
  if (!conf->ParseFromString(layer)) throw InvalidArgument("layer: the bytes are not a LayerProto");
  nn::LayerPtr made = job::make_job_layer({.job = in, .index = 0, .conf = *conf});
  if (made == nullptr) {
    job::throw_invalid(in, 0, "type", fmt::format("{} cannot be used as a single layer", LayerType_Name(conf->type())));
  }
  return made;
}

}  // namespace pleiad
