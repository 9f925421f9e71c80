// A job as named values: for the comparison of ranks.
#pragma once

#include "job/job.pb.h"
#include "plan/same.h"

namespace pleiad::job {

/// Every field that is set, by its path: {"updater.learning_rate.base_lr", "0.01"}. Layers are named:
/// "neuralnet.layer[ip1].innerproduct_conf.num_output".
[[nodiscard]] NamedValues described(const JobProto& job);

}  // namespace pleiad::job
