#include "engine/inproc.h"

#include <algorithm>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/rpc_transport.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::vector<RankLocation> locations_of(int ranks, int hosts) {
  std::vector<RankLocation> locations;
  std::vector<int> members(static_cast<std::size_t>(hosts), 0);
  const std::string name = host_name();
  for (int r = 0; r < ranks; ++r) {
    const int host = r * hosts / ranks;
    locations.push_back({.host = host,
                         .local = members[static_cast<std::size_t>(host)]++,
                         .name = hosts == 1 ? name : fmt::format("{}-{}", name, host)});
  }
  return locations;
}

EngineKind kind_of(const std::vector<RankLocation>& locations) {
  return locations.size() == 1 ? EngineKind::solo : EngineKind::inproc;
}

}  // namespace

InprocHost::InprocHost(int ranks)
    : ranks_(ranks), control_(std::make_shared<Segment>(Segment::anonymous(Control::bytes(ranks), false))) {
  Control(control_->data(), ranks).construct();
}

std::shared_ptr<Segment> InprocHost::make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) {
  auto segment = std::make_shared<Segment>(Segment::anonymous(bytes, reserve_only));
  const std::lock_guard lock(mutex_);
  segments_[id] = segment;
  return segment;
}

std::shared_ptr<Segment> InprocHost::fetch_segment(std::uint64_t id, std::size_t /*bytes*/) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  auto segment = found == segments_.end() ? nullptr : found->second.lock();
  if (segment == nullptr) throw InternalError("a segment was released before all ranks mapped it");
  return segment;
}

InprocEngine::InprocEngine(SessionOptions options, int rank, const std::vector<RankLocation>& locations,
                           std::shared_ptr<InprocHost> host, std::shared_ptr<InprocTransport> transport, Hooks* hooks,
                           const WorldRoles& roles)
    : Engine(kind_of(locations), std::move(options), World(rank, locations, roles), host->control(), hooks, *host),
      host_(std::move(host)) {
  if (transport != nullptr)
    connect(std::make_unique<InprocOperations>(context(), members(), waiter(), std::move(transport)));
  members().announce_alive();
}

InprocEngine::InprocEngine(SessionOptions options, int rank, const std::shared_ptr<InprocHost>& host, Hooks* hooks)
    : InprocEngine(std::move(options), rank, locations_of(host->ranks(), 1), host, nullptr, hooks) {}

InprocEngine::~InprocEngine() {
  members().abandon(Liveness::dead);
  after_leave(false);
}

void InprocEngine::connect_all(const std::vector<std::shared_ptr<InprocEngine>>& all, const JobKey& key) {
  std::vector<Addresses> addresses;
  for (const auto& engine : all) {
    addresses.push_back(engine->open_rpc(key, true).addresses());
  }
  for (const auto& engine : all) engine->rpc()->start(addresses);
}

void InprocEngine::after_leave(bool /*clean*/) {
  if (rpc() != nullptr) rpc()->stop();
}

void InprocEngine::die() {
  hooks().kill();
  members().abandon(Liveness::dead);
}

void run_inproc(int ranks, const SessionOptions& options, Hooks* hooks,
                const std::function<void(std::shared_ptr<InprocEngine>)>& body, const WorldRoles& roles) {
  if (ranks < 1) throw InvalidArgument("expected at least one rank; received " + std::to_string(ranks));
  const int split = options.shared_memory ? std::max(options.split_hosts, 1) : ranks;
  const std::vector<RankLocation> locations = locations_of(ranks, std::min(split, ranks));
  const auto transport = locations.back().host == 0 ? nullptr : std::make_shared<InprocTransport>(ranks);
  std::vector<std::shared_ptr<InprocHost>> hosts;
  for (int host = 0; host <= locations.back().host; ++host) {
    hosts.push_back(
        std::make_shared<InprocHost>(static_cast<int>(std::ranges::count(locations, host, &RankLocation::host))));
  }
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  // All ranks are alive before the first one runs. A launcher gives processes the same guarantee.
  std::vector<std::shared_ptr<InprocEngine>> engines;
  for (int r = 0; r < ranks; ++r) {
    const auto& host = hosts[static_cast<std::size_t>(locations[static_cast<std::size_t>(r)].host)];
    engines.push_back(std::make_shared<InprocEngine>(options, r, locations, host, transport, hooks, roles));
  }
  if (transport != nullptr) InprocEngine::connect_all(engines, JobKey::random());
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto index = static_cast<std::size_t>(r);
      std::shared_ptr<InprocEngine> engine = std::move(engines[index]);
      if (hooks != nullptr) hooks->enter(r);
      try {
        body(engine);
        engine->members().abandon(Liveness::left);
      } catch (const RankKilled&) {
        engine->die();
      } catch (...) {
        errors[index] = std::current_exception();
        engine->members().abandon(Liveness::dead);
      }
      if (hooks != nullptr) hooks->leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace pleiad
