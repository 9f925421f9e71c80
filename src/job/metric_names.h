// SINGA's names for the metrics of a report.
#pragma once

#include "job/build.h"
#include "pleiad/job.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// Converts a report to SINGA's metric names.
[[nodiscard]] JobReport with_singa_names(const Report& from, const JobNet& built);

}  // namespace pleiad::job
