// The transport between the hosts of an inproc world, in place of MPI.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "engine/futex.h"
#include "engine/membership.h"
#include "engine/rank_context.h"
#include "engine/remote_operations.h"
#include "engine/waiter.h"

namespace pleiad {

/// Shared by all ranks of the world. Slots alternate by the parity of the round: a rank that has seen all others reach
/// a round knows that all have finished with the round before.
class InprocTransport {
 public:
  explicit InprocTransport(int ranks) : slots_(static_cast<std::size_t>(ranks)) {}

  /// Deposits a rank's bytes for a round; rounds start at 1.
  void deposit(int rank, std::uint64_t round, std::span<const char> bytes);
  [[nodiscard]] bool arrived(int rank, std::uint64_t round) const;
  /// The bytes that a rank deposited. Requires arrived(rank, round).
  [[nodiscard]] const std::vector<char>& deposited(int rank, std::uint64_t round) const;

  using Route = std::tuple<int, int, std::uint32_t>;  ///< from, to, tag
  void send(const Route& route, std::span<const char> bytes);
  /// Returns the size of the next message, or -1 if there is none.
  [[nodiscard]] std::int64_t next_size(const Route& route);
  [[nodiscard]] std::vector<char> receive(const Route& route);

  Event moved;

 private:
  struct Slot {
    std::atomic<std::uint64_t> round{0};
    std::array<std::vector<char>, 2> bytes;
  };
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::map<Route, std::deque<std::vector<char>>> messages_;  // guarded by mutex_
};

/// The operations of one rank over an InprocTransport. Each collective is built on a gather of all ranks' bytes.
class InprocOperations final : public RemoteOperations {
 public:
  InprocOperations(const RankContext& context, const Membership& members, Waiter& waiter,
                   std::shared_ptr<InprocTransport> transport)
      : world_(context.world), members_(members), waiter_(waiter), transport_(std::move(transport)) {}

  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_reduce(DType dtype, void* data, std::size_t count, Reduce op) override;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) override;
  void send(int to, std::uint32_t tag, const void* data, std::size_t bytes) override;
  void receive(int from, std::uint32_t tag, void* data, std::size_t bytes) override;

 private:
  std::uint64_t gather(Call call, std::span<const char> mine);

  const World& world_;
  const Membership& members_;
  Waiter& waiter_;
  std::shared_ptr<InprocTransport> transport_;
  std::uint64_t rounds_ = 0;
};

}  // namespace pleiad
