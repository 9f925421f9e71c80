// Converts the updater of a job to an update rule and a learning-rate schedule.
#pragma once

#include "job/read.h"
#include "pleiad/nn/init.h"
#include "pleiad/options.h"

namespace pleiad::job {

[[nodiscard]] UpdaterOptions updater_of(const JobImpl& job);
[[nodiscard]] nn::Schedule schedule_of(const JobImpl& job);
/// Does the same for an updater that is not part of a job.
[[nodiscard]] UpdaterOptions updater_options(const JobImpl& job, const UpdaterProto& updater);
[[nodiscard]] nn::Schedule schedule_options(const JobImpl& job, const UpdaterProto& updater);

}  // namespace pleiad::job
