// Describes a job as named values, for comparison between ranks.
#pragma once

#include "job/job.pb.h"
#include "plan/expect_same.h"

namespace pleiad::job {

/// Returns every field that is set under its path, for example {"updater.learning_rate.base_lr", "0.01"}. Layers appear
/// with their names: "neuralnet.layer[ip1].innerproduct_conf.num_output".
[[nodiscard]] NamedValues named_values(const JobProto& job);

}  // namespace pleiad::job
