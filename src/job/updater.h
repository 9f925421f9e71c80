// How a job's gradients become parameters: rule and rates.
#pragma once

#include "job/read.h"
#include "pleiad/nn/init.h"
#include "pleiad/options.h"

namespace pleiad::job {

[[nodiscard]] UpdaterOptions updater_of(const Inside& job);
[[nodiscard]] nn::Schedule schedule_of(const Inside& job);
/// The same without a job: of an updater by itself.
[[nodiscard]] UpdaterOptions updater_options(const Inside& job, const UpdaterProto& updater);
[[nodiscard]] nn::Schedule schedule_options(const Inside& job, const UpdaterProto& updater);

}  // namespace pleiad::job
