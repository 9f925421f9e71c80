// Maps SINGA's cluster configuration to a world of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// SINGA's training frameworks.
enum class Framework : std::uint8_t { one_worker, all_reduce, sandblaster, downpour, hogwild };

/// How the work is divided. The ranks that were started are the workers, even if the job asks for another number; the
/// number of groups is the job's.
struct Topology {
  Framework framework = Framework::one_worker;
  int ranks = 1;    ///< number of ranks that work
  int servers = 0;  ///< number of ranks that only hold parameters
  int groups = 1;
  ExchangeKind exchange = ExchangeKind::none;
  TrainClock clock = TrainClock::sync;
  std::int64_t sync_every = 1;
  std::vector<std::string> notes;  ///< requests of the job that are handled differently here
};

/// Throws InvalidArgument that names the field if the ranks cannot form the cluster.
[[nodiscard]] Topology topology_of(const JobImpl& job, int ranks);

/// Adds ranks that only serve. Throws InvalidArgument if this kind of cluster has no parameters for them to hold.
void note_servers(const JobImpl& job, int servers, Topology& topology);

/// Sets `options` for this topology. `batch` is the batch size of one group.
void lay_out(const JobImpl& job, const Topology& topology, const JobNet& built, std::int64_t batch,
             TrainOptions& options);

/// Describes the topology for users, in lines of text.
[[nodiscard]] std::string describe(const Topology& topology, std::int64_t batch);

/// Describes the bytes exchanged per step if parameters are in tables; empty if the plan's own text says it all. `plan`
/// is that of one group.
[[nodiscard]] std::string traffic(const Topology& topology, const Plan& plan);

/// Throws InvalidArgument if the batch of a source cannot be distributed over the workers. `split` says whether they
/// split layers.
void check_batch(const JobImpl& job, const Source& source, int workers, bool split);

}  // namespace pleiad::job
