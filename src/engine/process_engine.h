// A world whose ranks are processes, started by a launcher. Ranks of one host communicate through shared memory. The
// transport tells which ranks exist and carries bytes between hosts.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "engine/engine.h"
#include "engine/segment_server.h"
#include "engine/transport.h"

namespace pleiad {

class ProcessEngine final : public Engine, private SegmentSource {
 public:
  /// Collective: connects to the other ranks over `transport`.
  [[nodiscard]] static std::shared_ptr<ProcessEngine> start(SessionOptions options,
                                                            std::unique_ptr<Transport> transport);
  ~ProcessEngine() override;

  /// The results of start(), for the constructor.
  struct Setup;
  explicit ProcessEngine(Setup&& setup);

 private:
  [[nodiscard]] std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes, bool reserve_only) override;
  [[nodiscard]] std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) override;
  void after_leave(bool clean) override;

  void peer_died(int rank);

  std::unique_ptr<Hooks> own_hooks_;
  std::unique_ptr<Transport> transport_;
  JobKey key_;
  std::vector<std::pair<int, int>> pids_;  ///< the other ranks on this host and their process ids
  std::unique_ptr<SegmentServer> segment_server_;
};

}  // namespace pleiad
