// Describes a job without running it.
#include <fmt/format.h>

#include "core/text.h"
#include "job/build.h"
#include "job/cluster.h"
#include "job/data.h"
#include "pleiad/job.h"
#include "pleiad/plan.h"

namespace pleiad {

std::string explain_job(const Job& job, int ranks) {
  const job::JobImpl& in = job.impl();
  const job::JobNet built = job::build(job);
  const job::ClusterProto& c = in.proto.cluster();
  const std::int64_t servers = std::int64_t{c.nserver_groups()} * c.nservers_per_group();
  const bool apart = c.server_worker_separate() && ranks == job.workers() + servers;
  job::Topology topology = job::topology_of(in, ranks > 0 && !apart ? ranks : static_cast<int>(job.workers()));
  if (apart) job::note_servers(in, static_cast<int>(servers), topology);
  std::int64_t batch = 1;
  for (const job::Source& source : built.sources) {
    if ((source.phases & static_cast<unsigned>(nn::Phase::train)) != 0) batch = job::batch_size(in, source.index);
  }
  TrainOptions options;
  job::lay_out(in, topology, built, batch, options);
  std::int64_t numbers = 0;
  for (const nn::Parameter& p : built.net.parameters()) numbers += p.value.count();
  std::string text = fmt::format("job \"{}\": {} steps, {} parameters, workspace {}\n", job.name(),
                                 grouped(in.proto.train_steps()), grouped(numbers), job.workspace());
  text += job::describe(topology, batch);
  const int together = topology.ranks / topology.groups;
  const Plan plan = make_plan(built.net, options.plan, together, batch);
  if (topology.groups > 1) text += "each group:\n";
  return text + explain(plan, job::traffic(topology, plan));
}

std::string describe_job(const Job& job) { return job::build(job).net.describe(); }

}  // namespace pleiad
