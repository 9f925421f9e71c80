// Input that no file brings: kRNNDummy, and kDummy with `input`.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// True for layers that make up their numbers. A kRNNDummy with a source passes that on, and is none.
[[nodiscard]] bool is_dummy(const LayerProto& layer);
/// True where they are whole numbers: symbols.
[[nodiscard]] bool is_symbols(const LayerProto& layer);
/// The layer whose output a dummy takes from the second batch on, or empty: so a net is fed what it has said.
[[nodiscard]] const std::string& fed_from(const LayerProto& layer);
/// Of a dummy's `shape` the batch, and the rest, with steps of time in front where the net is unrolled.
[[nodiscard]] std::int64_t dummy_batch(const Inside& job, int index);
[[nodiscard]] Shape dummy_sample(const Inside& job, int index);
/// Numbers drawn between low and high (kDummy: 0 and 1), functions of seed and place. They never end.
[[nodiscard]] std::unique_ptr<Samples> dummy_samples(const Inside& job, const Source& source);

}  // namespace pleiad::job
