// Transports: they tell which ranks exist at the start of a world, and carry bytes between hosts. Implementations are
// MPI, which is loaded only under an MPI launcher, and a Unix socket for the processes of one host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/control.h"
#include "engine/engine_kind.h"
#include "engine/futex.h"
#include "pleiad/dtype.h"

namespace pleiad {

/// A collective or message in progress. Its buffers must outlive it.
struct TransportRequest {
  Call call = Call::idle;
  DType dtype = DType::float32;
  std::uint8_t op = 0;  ///< a Reduce value
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements for reductions, otherwise bytes; below 2^30
  int peer = 0;           ///< the root, sender or receiver
  std::uint32_t tag = 0;

  std::atomic<bool> done{false};
  Event finished;
  std::string error;        ///< empty on success; written before `done`
  bool wrong_size = false;  ///< the caller's size is wrong; the message is still available
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// EngineKind::mpi or EngineKind::local.
  [[nodiscard]] virtual EngineKind kind() const = 0;
  /// If false, all ranks must share memory, because start() transfers nothing.
  [[nodiscard]] virtual bool reaches_other_hosts() const = 0;
  /// Only at the start of a world: gathers from all ranks and calls the WaitCallback meanwhile. Returns an error
  /// message, or an empty string.
  virtual std::string all_gather(const void* in, void* out, std::size_t bytes) = 0;
  /// Passes a request to the communication thread. Any thread may call it.
  virtual void start(std::shared_ptr<TransportRequest> request) = 0;
  /// Ends the use of the transport. If `clean` is false, the library is not called again, because it may wait for dead
  /// ranks. `neighbours` are the process ids of the other ranks on this host; if one of them has ended, the library's
  /// own shutdown is limited in time.
  virtual void finish(bool clean, std::span<const int> neighbours) = 0;
};

/// Called about twenty times a second while the library waits for other processes at the start. Throws to give up.
using WaitCallback = std::function<void()>;

/// The type of the module's exported function "pleiad_start_transport". Returns null and writes an error message on
/// failure.
using StartTransport = Transport* (*)(const WaitCallback& on_wait, char* error, std::size_t error_size);

}  // namespace pleiad
