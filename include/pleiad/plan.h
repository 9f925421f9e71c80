// How a net is laid on the ranks that train it together.
//
// A plan shares the batch out: a rank has its samples. A layer of a dense or convolution may be cut besides: each rank
// then holds some of its outputs with their weights and computes them for the samples of all ranks. Or images are cut:
// ranks form a grid over them, each holds its tile, and gets the places of others that its outputs need (the halo). The
// net is the same net, and so is the training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/grid.h"
#include "pleiad/nn/net.h"

namespace pleiad {

struct PlanOptions {
  /// data: every rank holds all parameters, gradients are summed. feature: every layer that can be is cut by its
  /// outputs (SINGA's partition_dim 1). hybrid: the layers in `split` are, or the dense ones where it is empty.
  /// spatial: images are cut by a grid of ranks.
  std::string kind = "data";
  std::vector<std::string> split = {};
  /// spatial: "2x3" (rows, columns), "2x3x2" (and groups, which share the batch out); "auto": the one without groups
  /// that is likely to be fastest.
  std::string grid = "auto";
  /// spatial: what needs no halo is computed while halos are under way. always, never, or auto: where ranks of the grid
  /// lie on several hosts (or messages are held back); on one host halos are there at once.
  std::string overlap = "auto";
  double halo_delay = 0;  ///< seconds by which each message of a halo is held back: to measure what overlap hides
  /// The same bits at every number of ranks, of a spatial plan without groups or of one rank. Nothing is hidden under
  /// the computation, and kernels are plain loops.
  bool deterministic = false;
};

/// What a rank does for one layer, and what it has to do with the others in a step. Bytes are those that the collective
/// calls hand to a rank or take from it, whichever is more.
struct LayerPlan {
  std::string name;
  std::string kind;
  bool cut = false;
  std::string why = {};                  ///< a layer that could not be cut, though the plan would: why
  std::int64_t outputs = 0;              ///< of a sample, the last axis; of those that may be cut
  std::vector<std::int64_t> begin = {};  ///< cut: rank r has the outputs begin[r] to begin[r + 1] - 1
  double products = 0;                   ///< of a rank in one forward pass
  std::int64_t parameter_bytes = 0;      ///< that the first rank, which has the most, holds
  std::int64_t forward_bytes = 0;        ///< inputs and outputs that are exchanged in forward
  std::int64_t backward_bytes = 0;       ///< gradients by them in backward
  std::int64_t gradient_bytes = 0;       ///< gradients by parameters
  /// spatial: what the layer's part does. "tile": its places, from its tile and halo. "tower": a dense layer whose
  /// weights are cut by input place; partial sums are summed. "gather": all of it, from tiles that are gathered.
  /// "whole": all of it, as each rank of a group. "spread": what its places give to the outputs, summed at the outputs'
  /// places. "loss": the share of its places in a loss.
  std::string mode = {};
  std::int64_t in_h = 0, in_w = 0, in_c = 0;  ///< tile, tower, gather: of the first tiled input
  std::int64_t out_h = 0, out_w = 0;          ///< tile, spread
  std::vector<Rect> own = {};                 ///< by tile: the places of the input that a rank has
  std::vector<Rect> need = {};                ///< tile: those that its outputs need; spread: outputs that it reaches
  std::vector<Rect> out = {};                 ///< tile, spread: those of its outputs
  std::vector<bool> tiled = {};               ///< by input: lies in tiles
  [[nodiscard]] std::int64_t bytes() const { return forward_bytes + backward_bytes + gradient_bytes; }
};

struct Plan {
  std::string net;
  std::string kind;
  int ranks = 1;
  std::int64_t batch = 0;  ///< of all ranks together
  std::vector<LayerPlan> layers;
  Grid grid = {};                              ///< spatial
  std::vector<std::string> tiled_inputs = {};  ///< spatial: of the net, those that lie in tiles
  double seconds = 0;                          ///< spatial: of a step, by the cost model that chooses grids
  std::string overlap = "auto";
  double halo_delay = 0;
  bool deterministic = false;
  /// How many ways the batch is shared out.
  [[nodiscard]] int shares() const { return kind == "spatial" ? grid.groups : ranks; }
};

/// The plan for a net that is whole. An unknown kind or layer is an InvalidArgument that names the known ones; so is a
/// layer in `split` that cannot be cut.
[[nodiscard]] PLEIAD_API Plan make_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch);

/// A table: who does what, and the bytes of a step; of a spatial plan the grid as a picture, tiles and halos too.
/// traffic: what is exchanged, in words, where it is not what the plan alone would have (tables, groups of ranks).
[[nodiscard]] PLEIAD_API std::string explain(const Plan& plan, const std::string& traffic = {});

/// Nets to look at and to begin with, by name: "mlp", "cnn", "autoencoder", "small".
[[nodiscard]] PLEIAD_API nn::Net example_net(const std::string& name);
[[nodiscard]] PLEIAD_API std::vector<std::string> example_nets();

}  // namespace pleiad
