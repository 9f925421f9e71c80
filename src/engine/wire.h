// Says which ranks are there at the start of a world, and carries bytes between hosts: MPI, loaded only where an MPI
// launcher started the process, or a Unix socket for the processes of one host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/control.h"
#include "engine/futex.h"
#include "pleiad/dtype.h"

namespace pleiad {

/// A collective or message under way. Buffers outlive it.
struct WireRequest {
  Call call = Call::idle;
  DType dtype = DType::float32;
  std::uint8_t op = 0;  ///< a Reduce
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements for reductions, else bytes; below 2^30
  int peer = 0;           ///< root, sender or receiver
  std::uint32_t tag = 0;

  std::atomic<bool> done{false};
  Event finished;
  std::string error;        ///< empty where all went well; written before done
  bool wrong_size = false;  ///< the error is the caller's: the message is still there
};

class Wire {
 public:
  virtual ~Wire() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// The engine's name: "mpi" or "local".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// False: the ranks must share memory, as start() carries nothing.
  [[nodiscard]] virtual bool reaches_other_hosts() const = 0;
  /// At the start only: waits for all ranks with the Patience given then. Returns an error's text, or empty.
  virtual std::string all_gather(const void* in, void* out, std::size_t bytes) = 0;
  /// Hands a request to the communication thread. Any thread may call it.
  virtual void start(std::shared_ptr<WireRequest> request) = 0;
  /// The session is over. Unless `clean`, the library is never called again: it may wait for ranks that are gone.
  /// `neighbours`: the processes of the other ranks on this host. The library's own end is not waited for long where
  /// one of them is gone.
  virtual void finish(bool clean, std::span<const int> neighbours) = 0;
};

/// Called about twenty times a second while the library waits for other processes at the start. Throws to give up.
using Patience = std::function<void()>;

/// What the library's module exports as "pleiad_start_wire": null and an error's text on failure.
using StartWire = Wire* (*)(const Patience& patience, char* error, std::size_t error_size);

}  // namespace pleiad
