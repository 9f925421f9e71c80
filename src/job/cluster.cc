#include "job/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "job/data.h"
#include "pleiad/plan.h"

namespace pleiad::job {
namespace {

constexpr const char* kNoServers =
    "servers do not run as separate processes: each worker's host holds a part of the parameters (to run them "
    "separately, start as many ranks as the job has workers and servers)";

struct FrameworkText {
  const char* name;
  const char* update;  ///< how gradients reach the parameters, or empty
};

FrameworkText text_of(Framework framework) {
  switch (framework) {
    case Framework::one_worker: break;
    case Framework::all_reduce:
      return {"AllReduce", "  gradients are summed by all workers; each makes the same update\n"};
    case Framework::sandblaster:
      return {"Sandblaster", "  gradients are summed in tables, whose hosts make the update, once a round\n"};
    case Framework::downpour:
      return {"Downpour",
              "  each group adds its gradients to the one set of parameters; groups do not wait for one another\n"};
    case Framework::hogwild: return {"distributed Hogwild", ""};
  }
  return {"one worker", ""};
}

constexpr int kShown = 7;  // number of groups that describe() lists before it abbreviates

std::string ranks_text(int first, int count) {
  return count == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, first + count - 1);
}

}  // namespace

Topology topology_of(const JobImpl& job, int ranks) {
  const ClusterProto& c = job.proto.cluster();
  const int groups = c.nworker_groups();
  const int wanted = groups * c.nworkers_per_group();
  Topology t;
  t.ranks = ranks;
  t.groups = groups;
  if (ranks % groups != 0) {
    throw_invalid(job, "cluster.nworker_groups",
                  fmt::format("{} ranks cannot be divided into {} equal groups of workers", ranks, groups));
  }
  if (ranks != wanted) {
    t.notes.push_back(fmt::format("the job asks for {} worker{}; the {} ranks that were started are its workers",
                                  wanted, wanted == 1 ? "" : "s", ranks));
  }
  if (groups > 1 && c.nserver_groups() != 1 && c.nserver_groups() != groups) {
    throw_invalid(job, "cluster.nserver_groups",
                  fmt::format("expected 1, or as many as worker groups, {}; received {}", groups, c.nserver_groups()));
  }
  if (ranks == 1) {
    t.framework = Framework::one_worker;
  } else if (groups == 1) {
    t.framework = c.server_worker_separate() ? Framework::sandblaster : Framework::all_reduce;
    t.exchange = c.server_worker_separate() ? ExchangeKind::tables : ExchangeKind::all_reduce;
  } else if (c.nserver_groups() == 1) {
    t.framework = Framework::downpour;
    t.exchange = ExchangeKind::tables;
    t.clock = TrainClock::async;
  } else {
    t.framework = Framework::hogwild;
    t.exchange = ExchangeKind::replicas;
    t.sync_every = c.sync_freq();
  }
  if (c.server_worker_separate() && ranks > 1) t.notes.emplace_back(kNoServers);
  return t;
}

void note_servers(const JobImpl& job, int servers, Topology& topology) {
  if (servers == 0) return;
  if (topology.exchange == ExchangeKind::replicas) {
    throw_invalid(
        job, "cluster.server_worker_separate",
        fmt::format("in distributed Hogwild each worker group holds its own parameters, so there is nothing to "
                    "serve; expected as many ranks as there are workers, {}; received {}",
                    topology.ranks, topology.ranks + servers));
  }
  topology.servers = servers;
  std::erase(topology.notes, kNoServers);
  if (topology.ranks == 1) {
    topology.framework = Framework::sandblaster;
    topology.exchange = ExchangeKind::tables;
  }
}

void lay_out(const JobImpl& job, const Topology& topology, const JobNet& built, std::int64_t batch,
             TrainOptions& options) {
  options.batch = batch * topology.groups;
  options.exchange = topology.exchange;
  options.clock = topology.clock;
  options.groups = topology.groups > 1 ? topology.groups : 0;
  options.sync_every = topology.sync_every;
  options.plan = {};
  const auto check_batches = [&] {
    for (const Source& source : built.sources) {
      if ((source.phases & static_cast<unsigned>(nn::Phase::train)) == 0) continue;
      check_batch(job, source, topology.ranks / topology.groups, options.plan.kind != PlanKind::data);
    }
  };
  check_batches();
  if (built.cut.empty() || topology.ranks == 1) return;
  if (topology.groups > 1) {
    throw_invalid(job, "neuralnet.partition_dim",
                  fmt::format("a layer whose partition_dim is 1 (\"{}\") is for one worker group; there are {}",
                              built.cut[0], topology.groups));
  }
  // Splits only layers that can be split. A layer that shares its parameters or has fewer outputs than ranks stays
  // whole.
  const Plan all =
      make_plan(built.net, {.kind = PlanKind::feature}, topology.ranks, topology.ranks);  // any batch size will do
  for (const LayerPlan& layer : all.layers) {
    if (layer.as<SplitWork>() != nullptr && std::ranges::find(built.cut, layer.name) != built.cut.end()) {
      options.plan.split.push_back(layer.name);
    }
  }
  if (!options.plan.split.empty()) options.plan.kind = PlanKind::hybrid;
  check_batches();
}

void check_batch(const JobImpl& job, const Source& source, int workers, bool split) {
  const std::int64_t batch = batch_size(job, source.index);
  if (batch < workers) {
    throw_invalid(job, source.index, "store_conf.batchsize",
                  fmt::format("expected at least one sample for each of the {} workers; received {}", workers, batch));
  }
  if (split && batch % workers != 0) {
    throw_invalid(
        job, source.index, "store_conf.batchsize",
        fmt::format("expected a multiple of {}, the workers, which split layers (partition_dim: 1); received {}",
                    workers, batch));
  }
}

std::string describe(const Topology& t, std::int64_t batch) {
  const FrameworkText framework = text_of(t.framework);
  std::string text = fmt::format("cluster: {}, {} rank{}", framework.name, t.ranks, t.ranks == 1 ? "" : "s");
  const int per_group = t.ranks / t.groups;
  if (t.groups > 1) text += fmt::format(" in {} groups of {}", t.groups, per_group);
  if (t.servers > 0) text += fmt::format(", and {} that only serve{}", t.servers, t.servers == 1 ? "s" : "");
  text += "\n";
  for (int group = 0; t.groups > 1 && group < t.groups; ++group) {
    if (group == kShown && t.groups > kShown + 1) {
      text += "  ...\n";
      group = t.groups - 1;
    }
    text += fmt::format("  group {}: {}\n", group, ranks_text(group * per_group, per_group));
  }
  if (t.servers > 0) text += fmt::format("  parameters: {}\n", ranks_text(t.ranks, t.servers));
  if (t.ranks > 1) {
    const std::int64_t least = batch / per_group;
    text += fmt::format("  a worker takes {} of the {} samples of a {}batch\n",
                        batch % per_group == 0 ? fmt::format("{}", least) : fmt::format("{} or {}", least, least + 1),
                        batch, t.groups > 1 ? "group's " : "");
  }
  text += framework.update;
  if (t.exchange == ExchangeKind::replicas) {
    text += fmt::format(
        "  each group has parameters of its own, and adds its changes to those of the others every {} step{}\n",
        t.sync_every, t.sync_every == 1 ? "" : "s");
  }
  for (const std::string& note : t.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

std::string traffic(const Topology& t, const Plan& plan) {
  if (t.exchange != ExchangeKind::tables && t.exchange != ExchangeKind::replicas) return {};
  std::int64_t shared = 0, between = 0;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.as<SplitWork>() == nullptr) shared += layer.parameter_bytes;
    between += layer.forward_bytes + layer.backward_bytes;
  }
  const auto size = [](std::int64_t bytes) { return byte_size(static_cast<std::uint64_t>(bytes)); };
  const char* const who = t.groups > 1 ? "group" : "worker";
  std::string text;
  if (t.exchange == ExchangeKind::replicas) {
    text = fmt::format(
        "{} a step are exchanged with each group: every {} step{} {} of changes, and {} of parameters back",
        size(2 * shared / t.sync_every), t.sync_every, t.sync_every == 1 ? "" : "s", size(shared), size(shared));
  } else {
    text = fmt::format("{} a step are exchanged with each {}: {} of gradients, and {} of parameters back",
                       size(2 * shared + between), who, size(shared), size(shared));
  }
  if (between > 0) text += fmt::format(", {} for layers that are split", size(between));
  if (plan.ranks > 1 && t.groups > 1) {
    text += fmt::format("; inside a group {} with each worker but the first", size(2 * shared));
  }
  return text;
}

}  // namespace pleiad::job
