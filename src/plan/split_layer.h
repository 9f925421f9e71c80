// A layer whose outputs are split over the ranks.
#pragma once

#include "plan/communicator.h"
#include "pleiad/nn/layer.h"

namespace pleiad {

/// Rank r owns the outputs [begin[r], begin[r + 1]) of the last axis.
struct OutputSplit {
  std::vector<std::int64_t> begin;

  /// Splits as evenly as possible; the first ranks own one output more. Requires outputs >= ranks.
  [[nodiscard]] static OutputSplit of(std::int64_t outputs, int ranks);
  [[nodiscard]] std::int64_t length(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return begin[r + 1] - begin[r];
  }
  [[nodiscard]] std::int64_t widest() const { return length(0); }
};

/// Returns a replacement for `whole`, a layer in which each output depends on all inputs. It takes and returns this
/// rank's samples like `whole`, and uses `own`, the same kind of layer with fewer outputs, to compute this rank's
/// outputs for the samples of all ranks. The communicator is shared because the net may outlive the trainer.
[[nodiscard]] nn::LayerPtr split_layer(const nn::Layer& whole, nn::LayerPtr own, OutputSplit cut,
                                       std::shared_ptr<Communicator> comm);

}  // namespace pleiad
