// How a net is split over the ranks that train it together.
//
// A plan splits the batch: each rank has its own samples. In addition, a dense or convolution layer can be split: each
// rank then holds some of the layer's outputs with their weights, and computes them for the samples of all ranks.
// Alternatively, images are split: the ranks form a grid over them, each rank holds its tile, and receives the
// positions of other tiles that its outputs depend on (the halo). The plan changes neither what the net computes nor
// the training. Trainer::whole_net puts a split net together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/choice.h"
#include "pleiad/grid.h"
#include "pleiad/nn/net.h"

namespace pleiad {

/// How a net is split over the ranks.
/// data: every rank holds all parameters, and gradients are summed. feature: every layer that supports it is split by
/// its outputs (SINGA's partition_dim 1). hybrid: the layers in `split` are split by their outputs, or all dense layers
/// if `split` is empty. spatial: images are split by a grid of ranks.
enum class PlanKind : std::uint8_t { data, feature, hybrid, spatial };
template <>
struct ChoiceNames<PlanKind> {
  static constexpr std::string_view family = "plan";
  static constexpr std::string_view names[] = {"data", "feature", "hybrid", "spatial"};
};

/// Whether a rank computes what needs no halo while halos are in transit. automatic ("auto"): only if ranks of the grid
/// are on several hosts, or messages are delayed; on one host halos arrive at once.
enum class Overlap : std::uint8_t { always, automatic, never };
template <>
struct ChoiceNames<Overlap> {
  static constexpr std::string_view family = "overlap";
  static constexpr std::string_view names[] = {"always", "auto", "never"};
};

/// The request for a plan: which kind, and its settings.
struct PlanOptions {
  Choice<PlanKind> kind = PlanKind::data;
  std::vector<std::string> split = {};  ///< hybrid: the layers to split by their outputs
  /// spatial: "2x3" (rows, columns) or "2x3x2" (with groups, which split the batch). "auto" chooses the grid without
  /// groups that the cost model expects to be fastest.
  std::string grid = "auto";
  Choice<Overlap> overlap = Overlap::automatic;  ///< spatial
  double halo_delay = 0;                         ///< seconds to delay each halo message, to measure what overlap hides
  /// Produces bit-identical results for every number of ranks, including one, of a spatial plan without groups.
  /// Disables overlap and uses plain loops as kernels.
  bool deterministic = false;
};

/// A rank computes the whole layer for its samples. The ranks of a spatial group all repeat the same
/// computation.
struct WholeWork {};

/// A rank computes some of the layer's outputs, for the samples of all ranks.
struct SplitWork {
  std::vector<std::int64_t> begin;  ///< rank r has the outputs begin[r] to begin[r + 1] - 1
};

/// Images that are split into tiles: the size of the first tiled input, and the positions of it that each rank has.
struct ImageTiles {
  std::int64_t in_h = 0, in_w = 0, in_c = 0;
  std::vector<Rect> own = {};
};

/// A rank gathers the tiles and computes the whole layer.
struct GatherWork : ImageTiles {};

/// A rank multiplies its positions by their weights; the partial sums of all ranks are added. If every rank has the
/// whole input, `own` has the range of it that each rank takes, as columns of one row.
struct TowerWork : ImageTiles {};

/// A rank computes the contribution of its positions to a loss.
struct LossWork : ImageTiles {};

/// Images from images: the size of the output, and the positions of it that each rank has.
struct TiledWork : ImageTiles {
  std::int64_t out_h = 0, out_w = 0;
  std::vector<Rect> out = {};
};

/// A rank computes its positions of the output from its tile and the halo around it.
struct TileWork : TiledWork {
  std::vector<Rect> need = {};  ///< the input positions that the outputs of each rank depend on
};

/// A rank computes what its input positions contribute to the outputs; contributions are summed at the rank that has
/// the output.
struct SpreadWork : TiledWork {
  std::vector<Rect> reach = {};  ///< the outputs that each rank contributes to
};

using LayerWork = std::variant<WholeWork, SplitWork, TileWork, SpreadWork, TowerWork, GatherWork, LossWork>;

/// The work of a rank for one layer, and the bytes that it exchanges with the other ranks in a step. A byte count is
/// the larger of the bytes that the collective calls send from a rank and those that they deliver to it.
struct PLEIAD_API LayerPlan {
  std::string name;
  std::string kind;
  std::string why = {};              ///< the reason, if the plan asks to split the layer but it cannot be split
  std::int64_t outputs = 0;          ///< length of the last axis of a sample's outputs that may be split
  double products = 0;               ///< multiplications of a rank in one forward pass
  std::int64_t parameter_bytes = 0;  ///< bytes of parameters on the first rank, which has the most
  std::int64_t forward_bytes = 0;    ///< inputs and outputs that are exchanged in forward
  std::int64_t backward_bytes = 0;   ///< gradients of those that are exchanged in backward
  std::int64_t gradient_bytes = 0;   ///< gradients of the parameters
  std::vector<bool> tiled = {};      ///< spatial: for each input, whether it is split into tiles
  LayerWork work = WholeWork{};
  [[nodiscard]] std::int64_t bytes() const { return forward_bytes + backward_bytes + gradient_bytes; }
  /// Returns the name of the work: whole, split, tile, spread, tower, gather or loss.
  [[nodiscard]] std::string_view mode() const;
  /// Returns the work if it is of the type `Work`, or null.
  template <class Work>
  [[nodiscard]] const Work* as() const {
    return std::get_if<Work>(&work);
  }
  /// Returns the tiles of the layer's input, or null if a rank has all of it.
  [[nodiscard]] const ImageTiles* tiles() const;
};

/// A plan for a net: the work and the communication of each rank, layer by layer.
struct Plan {
  std::string net;
  PlanKind kind = PlanKind::data;
  int ranks = 1;
  std::int64_t batch = 0;  ///< batch size over all ranks
  std::vector<LayerPlan> layers;
  Grid grid = {};                              ///< spatial
  std::vector<std::string> tiled_inputs = {};  ///< spatial: the inputs of the net that are split into tiles
  double seconds = 0;                          ///< spatial: time of a step by the cost model that chooses grids
  Overlap overlap = Overlap::automatic;
  double halo_delay = 0;
  bool deterministic = false;
  /// Returns the number of shards of the batch.
  [[nodiscard]] int shares() const { return kind == PlanKind::spatial ? grid.groups : ranks; }
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
