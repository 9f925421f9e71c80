// A world whose ranks are threads of this process: for tests, sanitizers and one-process clusters.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

/// What the ranks of one inproc world share.
class InprocHost {
 public:
  explicit InprocHost(int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const std::shared_ptr<Segment>& control() const { return control_; }
  void put(std::uint64_t id, std::shared_ptr<Segment> segment);
  [[nodiscard]] std::shared_ptr<Segment> get(std::uint64_t id) const;

 private:
  int ranks_;
  std::shared_ptr<Segment> control_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<Segment>> segments_;  // guarded by mutex_
};

class InprocEngine final : public Engine {
 public:
  InprocEngine(SessionOptions options, int rank, std::shared_ptr<InprocHost> host, Hooks* hooks);
  ~InprocEngine() override;

  [[nodiscard]] std::string_view kind() const override { return size() == 1 ? "solo" : "inproc"; }
  /// The thread of this rank is about to vanish, as if its process had been killed.
  void die();

 private:
  [[nodiscard]] std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) override;
  [[nodiscard]] std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) override;

  std::shared_ptr<InprocHost> host_;
};

/// Runs body(engine) on `ranks` threads, each a rank, and waits for all. A rank whose body throws, or is killed by the
/// hooks, is dead to the others. Rethrows the exception of the lowest rank that threw one other than RankKilled.
void run_inproc(int ranks, const SessionOptions& options, Hooks* hooks,
                const std::function<void(std::shared_ptr<InprocEngine>)>& body);

}  // namespace pleiad
