// Repeated transfers from one rank to another: a buffer that the sender fills and the receiver copies, with a counter
// for each side. Within a host the buffer is in shared memory; between hosts a thread sends it as a message.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

/// In shared memory: a message is available while sent > taken. One writer and one reader.
struct alignas(64) TransferHead {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::int64_t> ready_at{0};  ///< nanoseconds: earliest time of reception, if messages are delayed
  alignas(64) std::atomic<std::uint64_t> taken{0};
};

struct TransferPlan {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  std::uint32_t tag = 0;
};

/// All transfers of an exchange as seen by one rank. The constructor is collective; all ranks pass the same plans.
class Transfers {
 public:
  Transfers(Engine& engine, std::string name, const std::vector<TransferPlan>& plans, bool by_messages, double delay);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Waits until the last message was taken, and returns the buffer for the sender to fill.
  [[nodiscard]] char* fill(std::size_t transfer);
  void send(std::size_t transfer);
  /// Returns when the engine has sent the message, so that this rank may leave.
  void flush(std::size_t transfer);
  /// Announces that a message will arrive. Call it before receive().
  void expect(std::size_t transfer);
  /// Waits for a message. The bytes stay valid until release().
  [[nodiscard]] const char* receive(std::size_t transfer);
  void release(std::size_t transfer);

 private:
  class MessageThreads;
  struct Transfer;
  void await(const Transfer& transfer, bool sending);

  Engine& engine_;
  std::string name_;
  std::int64_t delay_;  // nanoseconds
  std::shared_ptr<Segment> memory_;
  std::vector<Transfer> transfers_;
  std::unique_ptr<MessageThreads> message_threads_;  // null if no transfer uses messages
};

}  // namespace pleiad
