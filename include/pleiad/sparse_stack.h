// The sparse auto-encoder of neon's GB, after Le and others (2012): stages of local filtering, L2 pooling and local
// contrast normalisation. Each stage first learns to reconstruct its input; then a classifier is trained on top of the
// stages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"
#include "pleiad/train.h"

namespace pleiad {

/// One stage of a sparse auto-encoder: local filters, pooling and contrast normalisation.
struct SparseStage {
  std::int64_t filter = 4;  ///< height and width of the filters
  std::int64_t maps = 8;
  std::int64_t stride = 1;
  std::int64_t pool = 3;  ///< height and width of the pooling window
  std::int64_t pool_stride = 1;
  std::int64_t contrast = 3;  ///< height and width of the contrast window; odd
};

/// The images, stages and penalties of a sparse auto-encoder.
struct SparseStackOptions {
  std::string name = "gb";
  Shape image = {};  ///< height, width, channels
  std::vector<SparseStage> stages = {};
  double sparsity = 0.1;
  /// the decoder uses the transposed filters of the encoder, with two updates per batch; false: it has its own filters
  bool tied = true;
  std::int64_t classes = 10;
  DType dtype = DType::float32;
  std::uint64_t seed = 1;
};

/// A sparse auto-encoder that is trained stage by stage (neon's GB). Holds the filters of its stages, and makes the
/// nets in which they learn.
class PLEIAD_API SparseStack {
 public:
  /// Throws an InvalidArgument that names the field if the options are invalid.
  explicit SparseStack(SparseStackOptions options);
  [[nodiscard]] const SparseStackOptions& options() const { return options_; }
  [[nodiscard]] std::size_t size() const { return options_.stages.size(); }

  /// Returns the net in which stage `i` learns from "x": the stages below it, which are fixed, then "filterN" and its
  /// transpose "decoder". The loss is ½ sum(decoded - input)^2 + sparsity * sum(L2 pooled) of a sample, averaged over
  /// the batch. Filters are kept at norm 1. With `tied`, a batch makes two updates: that of the decoder, after which
  /// the filters are scaled, then that of the encoder.
  [[nodiscard]] nn::Net stage(std::size_t i) const;
  /// Copies the filters of stage `i` from its net.
  void take(std::size_t i, const nn::Net& stage);
  /// Returns a net of all stages and a dense layer "scores", with the inputs "x" and "label".
  [[nodiscard]] nn::Net classifier() const;
  /// Fixes the stages of a classifier(), so that training changes "scores" only, or makes them trainable again.
  static void fix_stages(nn::Net& classifier, bool fixed = true);

  /// Trains the stages from the lowest up, as RbmStack::pretrain does. Checkpoints are in the subfolders stage1,
  /// stage2, ...
  bool pretrain(Samples& samples, const TrainOptions& options, Session* session = nullptr,
                const std::function<TrainCalls(std::size_t)>& calls = {});

 private:
  [[nodiscard]] nn::Net empty_net(const std::string& name, bool label) const;
  void add_filter(nn::Net& net, std::size_t i, const std::string& input, bool apart) const;
  /// Adds the first `count` stages. Returns the name of the last layer.
  std::string add_stages(nn::Net& net, std::size_t count) const;

  SparseStackOptions options_;
  std::vector<Tensor> filters_;  // empty for a stage that has not learned yet
};

}  // namespace pleiad
