// Helpers of the layers that run on tiles: shapes, and an inner Pass that follows the outer one.
#pragma once

#include <vector>

#include "pleiad/plan.h"

namespace pleiad {

/// Returns the shapes of the whole images, given those of the tiles.
[[nodiscard]] nn::Shapes whole_shapes(const TiledWork& work, const nn::Shapes& in);
[[nodiscard]] nn::Shapes on_tile_outputs(const nn::Layer& whole, const TiledWork& work, std::size_t tile,
                                         const nn::Shapes& in);
/// Parameters that have values per position get the tile's shape.
[[nodiscard]] std::vector<nn::ParamSpec> on_tile_parameters(const nn::Layer& whole, const LayerPlan& plan,
                                                            std::size_t tile, const nn::Shapes& in);
/// Returns a layer that computes the positions `out` of the output of `whole` from the positions `in` of its input.
[[nodiscard]] nn::LayerPtr on_region(const nn::Layer& whole, const TiledWork& work, const Rect& in, const Rect& out);
[[nodiscard]] Shape image_shape(std::int64_t batch, const Rect& rect, std::int64_t channels);
/// Returns a view of the samples [begin, end) of a tensor, or an empty tensor if `tensor` is empty.
[[nodiscard]] Tensor rows_of(const Tensor& tensor, Interval samples);

/// Copies phase, seed, step and sample index. Call it at every forward and backward.
void copy_step_info(nn::Pass& inner, const nn::Pass& outer);
/// Uses the name, parameters, gradients and states of `outer`. Clears `update`, because gradients are not passed on
/// block by block.
void share_parameters(nn::Pass& inner, const nn::Pass& outer);
/// Gives `inner` gradient tensors of its own, which add_gradients adds to those of `outer`. For all parts but the
/// first.
void allocate_own_gradients(nn::Pass& inner);
void add_gradients(const nn::Pass& outer, const nn::Pass& inner);

}  // namespace pleiad
