// The sparse auto-encoder of neon's GB, after Le and others (2012): stages of local filtering, L2 pooling and local
// contrast normalisation, each of which first learns to reconstruct its input; then a classifier on top of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"
#include "pleiad/train.h"

namespace pleiad {

struct SparseStage {
  std::int64_t filter = 4;  ///< the side of the filters
  std::int64_t maps = 8;
  std::int64_t stride = 1;
  std::int64_t pool = 3;  ///< the side of the pooled windows
  std::int64_t pool_stride = 1;
  std::int64_t contrast = 3;  ///< the side of the contrast's window, odd
};

struct SparseStackOptions {
  std::string name = "gb";
  Shape image = {};  ///< height, width, channels
  std::vector<SparseStage> stages = {};
  double sparsity = 0.1;
  bool tied = true;  ///< the decoder is the encoder's filters transposed, with two updates a batch; or it has its own
  std::int64_t classes = 10;
  DType dtype = DType::float32;
  std::uint64_t seed = 1;
};

/// The filters of the stages, and the nets in which they learn.
class PLEIAD_API SparseStack {
 public:
  /// Options that make no stack are an InvalidArgument that names the field.
  explicit SparseStack(SparseStackOptions options);
  [[nodiscard]] const SparseStackOptions& options() const { return options_; }
  [[nodiscard]] std::size_t size() const { return options_.stages.size(); }

  /// The net in which stage `i` learns from "x": the stages below, which are fixed, then "filterN" and its transpose
  /// "decoder". The loss is ½ sum(decoded - input)^2 + sparsity * sum(L2 pooled) of a sample, mean over the batch.
  /// Filters are kept at norm 1. Tied, a batch makes two updates: the decoder's, after which filters are scaled, then
  /// the encoder's.
  [[nodiscard]] nn::Net stage(std::size_t i) const;
  /// The filters of stage `i`, from its net.
  void take(std::size_t i, const nn::Net& stage);
  /// All stages and a dense layer "scores", from "x" and "label".
  [[nodiscard]] nn::Net classifier() const;
  /// Whether in a classifier() "scores" alone is trained.
  static void fix_stages(nn::Net& classifier, bool fixed = true);

  /// Trains the stages from the lowest on, as RbmStack::pretrain does; with checkpoints in the folders stage1,
  /// stage2...
  bool pretrain(Samples& samples, const TrainOptions& options, Session* session = nullptr,
                const std::function<TrainCalls(std::size_t)>& calls = {});

 private:
  [[nodiscard]] nn::Net empty_net(const std::string& name, bool label) const;
  void add_filter(nn::Net& net, std::size_t i, const std::string& input, bool apart) const;
  /// Adds whole stages, and returns the name of the last layer.
  std::string add_stages(nn::Net& net, std::size_t count) const;

  SparseStackOptions options_;
  std::vector<Tensor> filters_;  // of a stage that did not learn yet: empty
};

}  // namespace pleiad
