#include "engine/process_engine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/key_agreement.h"
#include "engine/rpc_transport.h"
#include "engine/transport_operations.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::uint64_t kControlId = 0;

// Identifies the host of a rank. All ranks exchange it at the start.
struct HostIdentity {
  char host[128] = {};
  char boot[40] = {};           // two hosts may have the same name
  std::uint64_t network = 0;    // a network namespace counts as a separate host
  std::uint64_t processes = 0;  // so does a PID namespace, because its processes cannot be watched
  std::int32_t pid = 0;
};

HostIdentity host_identity() {
  HostIdentity self;
  const std::string host = host_name();
  std::memcpy(self.host, host.data(), std::min(host.size(), sizeof self.host - 1));
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::memcpy(self.boot, boot.data(), std::min(boot.size(), sizeof self.boot - 1));
  struct stat status{};
  if (stat("/proc/self/ns/net", &status) == 0) self.network = status.st_ino;
  if (stat("/proc/self/ns/pid", &status) == 0) self.processes = status.st_ino;
  self.pid = static_cast<std::int32_t>(getpid());
  return self;
}

[[noreturn]] void fail_start(const std::string& why) {
  throw TransportError("[start] cannot connect the ranks: " + why);
}

template <class T>
std::vector<T> gather(Transport& transport, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(transport.size()));
  if (const std::string error = transport.all_gather(&mine, all.data(), sizeof(T)); !error.empty()) fail_start(error);
  return all;
}

// Numbers hosts by their first appearance and local indices by rank.
std::vector<RankLocation> locate_ranks(const std::vector<HostIdentity>& ranks, const std::vector<char>& alone,
                                       int split_hosts) {
  std::vector<RankLocation> locations;
  std::vector<std::pair<int, int>> hosts;  // a rank of the host, and how many ranks it has
  const int size = static_cast<int>(ranks.size());
  const auto part = [&](int r) { return split_hosts > 0 ? r * split_hosts / size : 0; };
  for (int r = 0; r < size; ++r) {
    const auto& me = ranks[static_cast<std::size_t>(r)];
    const auto same = [&](const std::pair<int, int>& host) {
      const auto& other = ranks[static_cast<std::size_t>(host.first)];
      return alone[static_cast<std::size_t>(r)] == 0 && alone[static_cast<std::size_t>(host.first)] == 0 &&
             part(r) == part(host.first) && std::strcmp(me.host, other.host) == 0 &&
             std::strcmp(me.boot, other.boot) == 0 && me.network == other.network && me.processes == other.processes;
    };
    auto found = std::ranges::find_if(hosts, same);
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {r, 0});
    locations.push_back({.host = static_cast<int>(found - hosts.begin()), .local = found->second++, .name = me.host});
  }
  return locations;
}

}  // namespace

struct ProcessEngine::Setup {
  SessionOptions options;
  std::unique_ptr<Transport> transport;
  JobKey key;
  std::unique_ptr<SegmentServer> segment_server;
  std::vector<RankLocation> locations;
  std::shared_ptr<Segment> control;
  std::unique_ptr<Hooks> hooks;
  std::vector<std::pair<int, int>> pids;
  bool loopback = false;  ///< all ranks are on one machine, regardless of split_hosts
};

std::shared_ptr<ProcessEngine> ProcessEngine::start(SessionOptions options, std::unique_ptr<Transport> transport) {
  Setup m{.options = std::move(options),
          .transport = std::move(transport),
          .key = {},
          .segment_server = nullptr,
          .locations = {},
          .control = nullptr,
          .hooks = nullptr,
          .pids = {}};
  Transport& w = *m.transport;
  const int me = w.rank();
  m.key = agree_on_key(me, w.size(), [&](const void* mine, void* all, std::size_t bytes) {
    if (const std::string error = w.all_gather(mine, all, bytes); !error.empty()) fail_start(error);
  });
  m.segment_server = std::make_unique<SegmentServer>(m.key, me);
  const auto ranks = gather(w, host_identity());
  // Ranks are on the same host only if the mapping succeeds. A rank for which it fails becomes a host of its own, and
  // all ranks try again.
  std::vector<char> alone(ranks.size(), m.options.shared_memory ? 0 : 1);
  m.loopback = std::ranges::all_of(ranks, [&](const HostIdentity& other) {
    return other.network == ranks[0].network && std::strcmp(other.boot, ranks[0].boot) == 0;
  });
  for (;;) {
    m.locations = locate_ranks(ranks, alone, m.options.split_hosts);
    if (!w.reaches_other_hosts() &&
        std::ranges::any_of(m.locations, [](const RankLocation& location) { return location.host != 0; })) {
      throw StateError(
          "[start] without MPI all ranks of a job must share memory, but option split_hosts or shared_memory "
          "forbids it, or the ranks are in different network or PID namespaces, or they cannot map each other's "
          "memory. Start the job with mpirun or `pleiad launch --mpi`");
    }
    const RankLocation& mine = m.locations[static_cast<std::size_t>(me)];
    std::vector<int> neighbours;
    for (int r = 0; r < w.size(); ++r) {
      if (m.locations[static_cast<std::size_t>(r)].host == mine.host) neighbours.push_back(r);
    }
    const int count = static_cast<int>(neighbours.size());
    if (mine.local == 0) {
      m.control = std::make_shared<Segment>(Segment::shareable("pleiad-control", Control::bytes(count), false));
      Control(m.control->data(), count).construct();
      m.segment_server->publish(kControlId, m.control->fd());
    }
    gather(w, char{0});
    char failed = 0;
    if (mine.local != 0) {
      try {
        m.control = std::make_shared<Segment>(
            Segment::of_descriptor(SegmentServer::fetch(m.key, neighbours[0], kControlId), Control::bytes(count)));
      } catch (const Error&) {
        failed = 1;
      }
    }
    const auto failures = gather(w, failed);
    if (std::ranges::count(failures, 1) == 0) break;
    for (std::size_t r = 0; r < alone.size(); ++r) alone[r] = static_cast<char>(alone[r] | failures[r]);
  }
  if (!m.options.fault.empty()) m.hooks = std::make_unique<FaultHooks>(Fault::parse(m.options.fault), false);
  for (int r = 0; r < w.size(); ++r) {
    const bool neighbour =
        r != me && m.locations[static_cast<std::size_t>(r)].host == m.locations[static_cast<std::size_t>(me)].host;
    if (neighbour) m.pids.emplace_back(r, ranks[static_cast<std::size_t>(r)].pid);
  }
  return std::make_shared<ProcessEngine>(std::move(m));
}

ProcessEngine::ProcessEngine(Setup&& m)
    : Engine(m.transport->kind(), m.options, World(m.transport->rank(), m.locations), m.control, m.hooks.get(), *this),
      own_hooks_(std::move(m.hooks)),
      transport_(std::move(m.transport)),
      key_(m.key),
      pids_(std::move(m.pids)),
      segment_server_(std::move(m.segment_server)) {
  members().announce_alive();
  if (!world().one_host()) {
    connect(std::make_unique<TransportOperations>(context(), members(), waiter(), *transport_));
    RpcTransport& rpc = open_rpc(key_, m.loopback);
    if (!m.loopback) rpc.listen(gather(*transport_, rpc.addresses()));
    rpc.start(gather(*transport_, rpc.addresses()));
  }
  gather(*transport_, char{0});
  segment_server_->watch(pids_, [this](int rank) { peer_died(rank); });
}

ProcessEngine::~ProcessEngine() {
  if (members().in_forked_child()) {
    // The service's thread and the state of MPI belong to the parent.
    (void)segment_server_.release();
    (void)transport_.release();
    release_rpc_to_parent();
    return;
  }
  if (segment_server_ == nullptr) return;  // leave() has been called
  members().abandon(Liveness::dead);
  after_leave(false);
}

void ProcessEngine::after_leave(bool clean) {
  segment_server_.reset();
  if (rpc() != nullptr) rpc()->stop();
  std::vector<int> neighbours;
  for (const auto& [rank, pid] : pids_) neighbours.push_back(pid);
  transport_->finish(clean, neighbours);
}

void ProcessEngine::peer_died(int rank) {
  const bool clean = members().liveness(rank) == Liveness::left;
  members().mark_process_ended(rank);
  if (clean) return;
  log().error(fmt::format("{} died", members().describe(rank)));
}

std::shared_ptr<Segment> ProcessEngine::make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) {
  // All neighbours fetch it before share() returns, so the segment and its descriptor still exist then.
  auto segment = std::make_shared<Segment>(Segment::shareable(fmt::format("pleiad-{}", id), bytes, reserve_only));
  segment_server_->publish(id, segment->fd());
  return segment;
}

std::shared_ptr<Segment> ProcessEngine::fetch_segment(std::uint64_t id, std::size_t bytes) {
  return std::make_shared<Segment>(
      Segment::of_descriptor(SegmentServer::fetch(key_, world().segment_maker(), id), bytes));
}

}  // namespace pleiad
