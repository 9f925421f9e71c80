// The records that a job's input layers bring.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// True for layers that bring records.
[[nodiscard]] bool is_source(const LayerProto& layer);
/// The shape of one sample as the net takes it: images with their channels last. Opens the file where the job does not
/// say it.
[[nodiscard]] Shape sample_shape(const Inside& job, int index);
/// Records of one batch, of one worker group.
[[nodiscard]] std::int64_t batch_size(const Inside& job, int index);
/// Samples for the net, in the file's order, from a random place among the first random_skip on.
[[nodiscard]] std::unique_ptr<Samples> samples_of(const Inside& job, const Source& source);

}  // namespace pleiad::job
