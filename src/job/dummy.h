// Inputs that no file provides: kRNNDummy, and kDummy with `input`.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// Returns true for layers that generate their values. A kRNNDummy with a source only passes it on and is not a dummy.
[[nodiscard]] bool is_dummy(const LayerProto& layer);
/// Returns true if the values are integers, that is, symbols.
[[nodiscard]] bool is_symbols(const LayerProto& layer);
/// Returns the layer whose output a dummy takes from the second batch on, or an empty text. This feeds a net its own
/// output.
[[nodiscard]] const std::string& feeding_layer(const LayerProto& layer);
/// dummy_batch returns the batch size in a dummy's `shape`. dummy_sample returns the rest, with time steps in front if
/// the net is unrolled.
[[nodiscard]] std::int64_t dummy_batch(const JobImpl& job, int index);
[[nodiscard]] Shape dummy_sample(const JobImpl& job, int index);
/// Returns uniform random values between low and high (0 and 1 for kDummy), determined by seed and position. They never
/// end.
[[nodiscard]] std::unique_ptr<Samples> dummy_samples(const JobImpl& job, const Source& source);

}  // namespace pleiad::job
