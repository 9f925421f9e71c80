#include "pleiad/sparse_stack.h"

#include <fmt/format.h>
#include <algorithm>

#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "train/stages.h"

namespace pleiad {
SparseStack::SparseStack(SparseStackOptions options) : options_(std::move(options)), filters_(options_.stages.size()) {
  if (options_.image.rank() != 3) {
    throw InvalidArgument(
        fmt::format("stack: image: expected (height, width, channels); received {}", options_.image.text()));
  }
  if (options_.stages.empty()) throw InvalidArgument("stack: stages: expected at least one; received none");
  if (!(options_.sparsity >= 0))
    throw InvalidArgument(fmt::format("stack: expected sparsity >= 0; received {}", options_.sparsity));
  (void)classifier();  // makes the layers report shapes that do not fit
}

nn::Net SparseStack::empty_net(const std::string& name, bool label) const {
  nn::Net net({.name = name, .dtype = options_.dtype, .seed = options_.seed});
  if (label) net.input("label", {}, DType::int32);
  net.input("x", options_.image);
  return net;
}

void SparseStack::add_filter(nn::Net& net, std::size_t i, const std::string& input, bool apart) const {
  const SparseStage& stage = options_.stages[i];
  const std::string name = stage_name("filter", i);
  net.add(name,
          nn::local_convolution({.filters = stage.maps,
                                 .kernel_h = stage.filter,
                                 .kernel_w = stage.filter,
                                 .stride_h = stage.stride,
                                 .stride_w = stage.stride,
                                 .weight_param = {.init = {.type = "auto_uniform"}, .norm = 1, .apart = apart}}),
          {.inputs = {input}});
  if (!filters_[i].empty()) net.parameter(name + "/weight").value.copy_from(filters_[i]);
}

std::string SparseStack::add_stages(nn::Net& net, std::size_t count) const {
  std::string last = "x";
  for (std::size_t i = 0; i < count; ++i) {
    const SparseStage& stage = options_.stages[i];
    add_filter(net, i, last, false);
    net.add(stage_name("pool", i), nn::pooling({.type = "l2", .kernel = stage.pool, .stride = stage.pool_stride}));
    last = stage_name("contrast", i);
    net.add(last, nn::local_contrast({.size = stage.contrast}));
  }
  return last;
}

nn::Net SparseStack::stage(std::size_t i) const {
  if (i >= size()) throw InvalidArgument(fmt::format("stack: expected a stage below {}; received {}", size(), i));
  nn::Net net = empty_net(stage_name("stage", i), false);
  const std::string input = add_stages(net, i);
  for (const nn::Parameter& p : std::vector<nn::Parameter>(net.parameters())) net.fix(p.name);
  const SparseStage& stage = options_.stages[i];
  const std::string name = stage_name("filter", i);
  add_filter(net, i, input, options_.tied);
  const Shape from = input == "x" ? options_.image : net.output(input).shape().sample();
  nn::LocalConvolutionOptions decoder{.filters = from[2],
                                      .kernel_h = stage.filter,
                                      .kernel_w = stage.filter,
                                      .stride_h = stage.stride,
                                      .stride_w = stage.stride,
                                      .transposed = true,
                                      .height = from[0],
                                      .width = from[1],
                                      .weight_param = {.init = {.type = "auto_uniform"}, .norm = 1}};
  if (options_.tied) decoder.weight_param.share = name + "/weight";
  net.add("decoder", nn::local_convolution(decoder));
  if (!options_.tied) net.parameter("decoder/weight").value.copy_from(net.parameter(name + "/weight").value);
  net.add("reconstruction", nn::euclidean_loss(), {.inputs = {"decoder", input}});
  net.add(stage_name("pool", i), nn::pooling({.type = "l2", .kernel = stage.pool, .stride = stage.pool_stride}),
          {.inputs = {name}});
  net.add("sparsity", nn::sum_loss({.scale = options_.sparsity}));
  return net;
}

void SparseStack::take(std::size_t i, const nn::Net& stage) {
  const std::string name = stage_name("filter", i) + "/weight";
  const auto found = std::ranges::find(stage.parameters(), name, &nn::Parameter::name);
  if (i >= size() || found == stage.parameters().end()) {
    throw InvalidArgument(fmt::format("stack: net \"{}\" is not that of stage {}", stage.options().name, i + 1));
  }
  filters_[i] = found->value.clone();
}

nn::Net SparseStack::classifier() const {
  nn::Net net = empty_net(options_.name, true);
  const std::string last = add_stages(net, size());
  net.add("scores", nn::dense({.out = options_.classes, .weight_param = {.init = {.type = "auto_uniform"}}}),
          {.inputs = {last}});
  net.add("loss", nn::softmax_loss(), {.inputs = {"scores", "label"}});
  return net;
}

void SparseStack::fix_stages(nn::Net& classifier, bool fixed) {
  for (const nn::Parameter& p : std::vector<nn::Parameter>(classifier.parameters())) {
    if (!p.name.starts_with("scores/")) classifier.fix(p.name, fixed);
  }
}

bool SparseStack::pretrain(Samples& samples, const TrainOptions& options, Session* session,
                           const std::function<TrainCalls(std::size_t)>& calls) {
  return train_stages(*this, "stage", samples, options, session, calls);
}

}  // namespace pleiad
