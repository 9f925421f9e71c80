// Collectives and messages between hosts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/reduce.h"
#include "pleiad/dtype.h"

namespace pleiad {

/// An engine implements it to reach other hosts. All ranks call the collectives in the same order, one at a time, and
/// with the same arguments: `Collectives` has compared them. Each function returns when the caller may use its memory
/// again, and throws a TransportError if a rank died.
class RemoteOperations {
 public:
  virtual ~RemoteOperations() = default;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// The result is the same on all ranks.
  virtual void all_reduce(DType dtype, void* data, std::size_t count, Reduce op) = 0;
  virtual void all_gather(const void* in, void* out, std::size_t bytes) = 0;
  virtual void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) = 0;
  /// Any thread may call these two. Messages with the same sender and tag arrive in order.
  virtual void send(int to, std::uint32_t tag, const void* data, std::size_t bytes) = 0;
  /// Throws InvalidArgument if the message does not have exactly `bytes` bytes; the message then stays available.
  virtual void receive(int from, std::uint32_t tag, void* data, std::size_t bytes) = 0;
};

}  // namespace pleiad
