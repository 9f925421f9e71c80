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
class InprocHost {
 public:
  explicit InprocHost(int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const std::shared_ptr<Segment>& control() const { return control_; }
  void put(std::uint64_t id, const std::shared_ptr<Segment>& segment);
  [[nodiscard]] std::shared_ptr<Segment> get(std::uint64_t id) const;

 private:
  int ranks_;
  std::shared_ptr<Segment> control_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<Segment>> segments_;  // guarded by mutex_
};

class InprocEngine final : public Engine {
 public:
  /// `transport` is null if all ranks are on one host.
  InprocEngine(SessionOptions options, int rank, std::vector<RankLocation> locations, std::shared_ptr<InprocHost> host,
               std::shared_ptr<InprocTransport> transport, Hooks* hooks);
  /// For a world on one host.
  InprocEngine(SessionOptions options, int rank, const std::shared_ptr<InprocHost>& host, Hooks* hooks);
  ~InprocEngine() override;

  [[nodiscard]] std::string_view kind() const override { return size() == 1 ? "solo" : "inproc"; }
  /// Connects the RPC transports of all ranks of a world on several hosts.
  static void connect_all(const std::vector<std::shared_ptr<InprocEngine>>& all, const JobKey& key);
  /// Ends this rank as if its process had been killed. The rank's thread calls it last.
  void die();

 private:
  [[nodiscard]] std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) override;
  [[nodiscard]] std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) override;

  void remote_broadcast(void* data, std::size_t bytes, int root) override;
  void remote_all_reduce(DType dtype, void* data, std::size_t count, Reduce op) override;
  void remote_all_gather(const void* in, void* out, std::size_t bytes) override;
  void remote_reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) override;
  void remote_send(int to, std::uint32_t tag, const void* data, std::size_t bytes) override;
  void remote_receive(int from, std::uint32_t tag, void* data, std::size_t bytes) override;
  void after_leave(bool clean) override;
  std::uint64_t gather(Call call, std::span<const char> mine);

  std::shared_ptr<InprocHost> host_;
  std::shared_ptr<InprocTransport> transport_;
  std::uint64_t rounds_ = 0;
};

/// Runs body(engine) on `ranks` threads, one per rank, and joins them. If the body throws or the hooks kill the rank,
/// the rank is dead for the others. Rethrows the exception of the lowest rank that threw something other than
/// RankKilled.
void run_inproc(int ranks, const SessionOptions& options, Hooks* hooks,
                const std::function<void(std::shared_ptr<InprocEngine>)>& body);

}  // namespace pleiad
