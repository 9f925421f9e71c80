// SINGA's cluster on a world of ranks.
#pragma once

#include <string>
#include <vector>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// Who works how. Ranks that a launcher started are the workers, whatever number the job says; the groups are the
/// job's.
struct Topology {
  std::string mode;  ///< "one worker", AllReduce, Sandblaster, Downpour or distributed Hogwild
  int ranks = 1;     ///< that work
  int servers = 0;   ///< that only hold parameters
  int groups = 1;
  std::string exchange = "none";
  std::string clock = "sync";
  std::int64_t sync_every = 1;
  std::vector<std::string> notes;  ///< what the job says that is done in another way here
};

/// An InvalidArgument that names the field where the ranks cannot be such a cluster.
[[nodiscard]] Topology topology_of(const Inside& job, int ranks);

/// Ranks that only serve; a mistake where this kind of cluster has nothing for them to hold.
void note_servers(const Inside& job, int servers, Topology& topology);

/// `options` for this topology; `batch` is that of one group.
void lay_out(const Inside& job, const Topology& topology, const Built& built, std::int64_t batch,
             TrainOptions& options);

/// In words, line by line.
[[nodiscard]] std::string describe(const Topology& topology, std::int64_t batch);

/// The bytes of a step where parameters lie in tables; nothing where the plan says it all. `plan` is that of one group.
[[nodiscard]] std::string traffic(const Topology& topology, const Plan& plan);

/// An InvalidArgument where the batch of a source cannot be distributed over so many workers; `split` says whether they
/// split layers.
void check_batch(const Inside& job, const Source& source, int workers, bool split);

}  // namespace pleiad::job
