// The operations between hosts of a world of processes, over a transport.
#pragma once

#include <memory>

#include "engine/membership.h"
#include "engine/rank_context.h"
#include "engine/remote_operations.h"
#include "engine/transport.h"
#include "engine/waiter.h"

namespace pleiad {

/// Divides large operations into requests of at most 2^30 bytes, and waits for each like every other wait.
class TransportOperations final : public RemoteOperations {
 public:
  TransportOperations(const RankContext& context, const Membership& members, Waiter& waiter, Transport& transport)
      : world_(context.world), members_(members), waiter_(waiter), transport_(transport) {}

  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_reduce(DType dtype, void* data, std::size_t count, Reduce op) override;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) override;
  void send(int to, std::uint32_t tag, const void* data, std::size_t bytes) override;
  void receive(int from, std::uint32_t tag, void* data, std::size_t bytes) override;

 private:
  void run(std::shared_ptr<TransportRequest> request);

  const World& world_;
  const Membership& members_;
  Waiter& waiter_;
  Transport& transport_;
};

}  // namespace pleiad
