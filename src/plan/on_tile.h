// What a layer on tiles has in common with the whole one, and passes inside its stand-in with the one around it.
#pragma once

#include <vector>

#include "pleiad/plan.h"

namespace pleiad {

/// Shapes of whole images, from those of tiles.
[[nodiscard]] nn::Shapes whole_shapes(const LayerPlan& plan, const nn::Shapes& in);
[[nodiscard]] nn::Shapes on_tile_outputs(const nn::Layer& whole, const LayerPlan& plan, std::size_t tile,
                                         const nn::Shapes& in);
/// Those of places are the tile's.
[[nodiscard]] std::vector<nn::ParamSpec> on_tile_parameters(const nn::Layer& whole, const LayerPlan& plan,
                                                            std::size_t tile, const nn::Shapes& in);
/// `whole`, from the places `in` to the places `out`.
[[nodiscard]] nn::LayerPtr on_places(const nn::Layer& whole, const LayerPlan& plan, const Rect& in, const Rect& out);
[[nodiscard]] Shape image_shape(std::int64_t batch, const Rect& rect, std::int64_t channels);
/// Samples first to last - 1 of a tensor; an empty one of an empty one.
[[nodiscard]] Tensor rows_of(const Tensor& tensor, Interval samples);

/// At every call: when it is, and of which samples.
void tell_moment(nn::Pass& inner, const nn::Pass& outer);
/// Name, parameters, their gradients and states are those of `outer`; nobody takes gradients piece by piece.
void take_parameters(nn::Pass& inner, const nn::Pass& outer);
/// A part besides the first: its gradients lie by themselves, until they are added to those of `outer`.
void keep_gradients_apart(nn::Pass& inner);
void add_gradients(const nn::Pass& outer, const nn::Pass& inner);

}  // namespace pleiad
