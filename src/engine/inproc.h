// A world whose ranks are threads of this process, for tests, sanitizers and one-process clusters. With split_hosts the
// ranks act as if they were on several hosts, which share no memory and exchange messages over loopback.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc_transport.h"
#include "engine/job_key.h"

namespace pleiad {

/// The state that the ranks of one host of an inproc world share.
class InprocHost final : public SegmentSource {
 public:
  explicit InprocHost(int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const std::shared_ptr<Segment>& control() const { return control_; }
  [[nodiscard]] std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) override;
  [[nodiscard]] std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) override;

 private:
  int ranks_;
  std::shared_ptr<Segment> control_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<Segment>> segments_;  // guarded by mutex_
};

class InprocEngine final : public Engine {
 public:
  /// `transport` is null if all ranks are on one host.
  InprocEngine(SessionOptions options, int rank, const std::vector<RankLocation>& locations,
               std::shared_ptr<InprocHost> host, std::shared_ptr<InprocTransport> transport, Hooks* hooks,
               const WorldRoles& roles = {});
  /// For a world on one host.
  InprocEngine(SessionOptions options, int rank, const std::shared_ptr<InprocHost>& host, Hooks* hooks);
  ~InprocEngine() override;

  /// Connects the RPC transports of all ranks of a world on several hosts.
  static void connect_all(const std::vector<std::shared_ptr<InprocEngine>>& all, const JobKey& key);
  /// Ends this rank as if its process had been killed. The rank's thread calls it last.
  void die();

 private:
  void after_leave(bool clean) override;

  std::shared_ptr<InprocHost> host_;
};

/// Runs body(engine) on `ranks` threads, one per rank, and joins them. If the body throws or the hooks kill the rank,
/// the rank is dead for the others. Rethrows the exception of the lowest rank that threw something other than
/// RankKilled.
void run_inproc(int ranks, const SessionOptions& options, Hooks* hooks,
                const std::function<void(std::shared_ptr<InprocEngine>)>& body, const WorldRoles& roles = {});

}  // namespace pleiad
