// The records that a job's input layers provide.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// Returns true for layers that provide records.
[[nodiscard]] bool is_source(const LayerProto& layer);
/// Returns the shape of a sample as the net takes it; images are channels last. Opens the file if the job does not
/// specify the shape.
[[nodiscard]] Shape sample_shape(const JobImpl& job, int index);
/// Returns the number of records in a batch of one worker group.
[[nodiscard]] std::int64_t batch_size(const JobImpl& job, int index);
/// Returns the samples for the net in the file's order. They start at a random one of the first random_skip + 1
/// records.
[[nodiscard]] std::unique_ptr<Samples> samples_of(const JobImpl& job, const Source& source);

}  // namespace pleiad::job
