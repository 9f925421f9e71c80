// A layer whose outputs are cut over ranks.
#pragma once

#include "plan/crew.h"
#include "pleiad/nn/layer.h"

namespace pleiad {

/// Outputs [begin[r], begin[r + 1]) of the last axis are rank r's.
struct Cut {
  std::vector<std::int64_t> begin;

  /// As equal as can be, the first ones one more. There are at least as many outputs as ranks.
  [[nodiscard]] static Cut of(std::int64_t outputs, int ranks);
  [[nodiscard]] std::int64_t length(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return begin[r + 1] - begin[r];
  }
  [[nodiscard]] std::int64_t widest() const { return length(0); }
};

/// In place of `whole`, which computes each of its outputs from all of its inputs: takes and gives this rank's samples
/// as `whole` does, and computes this rank's outputs of all ranks' samples by `own`, a layer like it with fewer
/// outputs. The crew is shared, because the net may outlive the trainer.
[[nodiscard]] nn::LayerPtr cut_layer(const nn::Layer& whole, nn::LayerPtr own, Cut cut, std::shared_ptr<Crew> crew);

}  // namespace pleiad
