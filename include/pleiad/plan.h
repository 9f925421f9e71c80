// How a net is split over the ranks that train it together.
//
// A plan splits the batch: each rank has its own samples. In addition, a dense or convolution layer can be split: each
// rank then holds some of the layer's outputs with their weights, and computes them for the samples of all ranks.
// Alternatively, images are split: the ranks form a grid over them, each rank holds its tile, and receives the
// positions of other tiles that its outputs depend on (the halo). The plan changes neither the net nor the training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/grid.h"
#include "pleiad/nn/net.h"

namespace pleiad {

struct PlanOptions {
  /// data: every rank holds all parameters, and gradients are summed. feature: every layer that supports it is split by
  /// its outputs (SINGA's partition_dim 1). hybrid: the layers in `split` are split by their outputs, or all dense
  /// layers if `split` is empty. spatial: images are split by a grid of ranks.
  std::string kind = "data";
  std::vector<std::string> split = {};
  /// spatial: "2x3" (rows, columns) or "2x3x2" (with groups, which split the batch). "auto" chooses the grid without
  /// groups that the cost model expects to be fastest.
  std::string grid = "auto";
  /// spatial: whether to compute what needs no halo while halos are in transit. always, never, or auto: only if ranks
  /// of the grid are on several hosts (or messages are delayed); on one host halos arrive at once.
  std::string overlap = "auto";
  double halo_delay = 0;  ///< seconds to delay each halo message, to measure what overlap hides
  /// Produces bit-identical results for every number of ranks, including one, of a spatial plan without groups.
  /// Disables overlap and uses plain loops as kernels.
  bool deterministic = false;
};

/// The work of a rank for one layer, and the bytes that it exchanges with the other ranks in a step. A byte count is
/// the larger of the bytes that the collective calls send from a rank and those that they deliver to it.
struct LayerPlan {
  std::string name;
  std::string kind;
  bool cut = false;
  std::string why = {};                  ///< the reason, if the plan asks to split the layer but it cannot be split
  std::int64_t outputs = 0;              ///< length of the last axis of a sample's outputs that may be split
  std::vector<std::int64_t> begin = {};  ///< split layer: rank r has the outputs begin[r] to begin[r + 1] - 1
  double products = 0;                   ///< multiplications of a rank in one forward pass
  std::int64_t parameter_bytes = 0;      ///< bytes of parameters on the first rank, which has the most
  std::int64_t forward_bytes = 0;        ///< inputs and outputs that are exchanged in forward
  std::int64_t backward_bytes = 0;       ///< gradients of those that are exchanged in backward
  std::int64_t gradient_bytes = 0;       ///< gradients of the parameters
  /// spatial: what a rank computes. "tile": its positions, from its tile and halo. "tower": a dense layer whose weights
  /// are split by input position; partial sums are added. "gather": the whole layer, from gathered tiles. "whole": the
  /// whole layer, as each rank of a group does. "spread": what its positions contribute to the outputs, summed at the
  /// positions of the outputs. "loss": the share of its positions in a loss.
  std::string mode = {};
  std::int64_t in_h = 0, in_w = 0, in_c = 0;  ///< tile, tower, gather: size of the first tiled input
  std::int64_t out_h = 0, out_w = 0;          ///< tile, spread: size of the output
  std::vector<Rect> own = {};                 ///< for each tile: the input positions that its rank has
  /// tile: the positions that its outputs depend on; spread: the outputs that it contributes to
  std::vector<Rect> need = {};
  std::vector<Rect> out = {};    ///< tile, spread: the positions of its outputs
  std::vector<bool> tiled = {};  ///< for each input: whether it is split into tiles
  [[nodiscard]] std::int64_t bytes() const { return forward_bytes + backward_bytes + gradient_bytes; }
};

struct Plan {
  std::string net;
  std::string kind;
  int ranks = 1;
  std::int64_t batch = 0;  ///< batch size over all ranks
  std::vector<LayerPlan> layers;
  Grid grid = {};                              ///< spatial
  std::vector<std::string> tiled_inputs = {};  ///< spatial: the inputs of the net that are split into tiles
  double seconds = 0;                          ///< spatial: time of a step by the cost model that chooses grids
  std::string overlap = "auto";
  double halo_delay = 0;
  bool deterministic = false;
  /// Returns the number of shards of the batch.
  [[nodiscard]] int shares() const { return kind == "spatial" ? grid.groups : ranks; }
};

/// Makes the plan for a net that is not split yet. An unknown kind or layer is an InvalidArgument that lists the known
/// ones. A layer in `split` that cannot be split is an InvalidArgument too.
[[nodiscard]] PLEIAD_API Plan make_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch);

/// Returns a table of what each rank does and the bytes of a step; for a spatial plan also a picture of the grid, its
/// tiles and halos. `traffic` describes the exchange in words if it differs from that of the plan (tables, groups of
/// ranks).
[[nodiscard]] PLEIAD_API std::string explain(const Plan& plan, const std::string& traffic = {});

/// Example nets by name, to inspect and to start from: "mlp", "cnn", "autoencoder", "small".
[[nodiscard]] PLEIAD_API nn::Net example_net(const std::string& name);
[[nodiscard]] PLEIAD_API std::vector<std::string> example_nets();

}  // namespace pleiad
