// Where bytes go from one rank to another, again and again: a buffer that the sender fills and the receiver copies,
// with a count of each. On one host it lies in shared memory; between hosts a thread carries messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

/// In shared memory: message `sent` is there once sent > taken. One writer, one reader.
struct alignas(64) BoxHead {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::int64_t> ready_at{0};  ///< ns: not to be taken before, where messages are held back
  alignas(64) std::atomic<std::uint64_t> taken{0};
};

struct BoxPlan {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  std::uint32_t tag = 0;
};

/// All boxes of an exchange as one rank sees them. Made by all ranks together, from the same plans.
class Boxes {
 public:
  Boxes(Engine& engine, std::string name, const std::vector<BoxPlan>& plans, bool by_messages, double delay);
  ~Boxes();
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;

  /// Waits until the last message was taken; the sender then fills the bytes.
  [[nodiscard]] char* fill(std::size_t box);
  void send(std::size_t box);
  /// Returns when what was sent is the engine's, so that this rank may leave.
  void flush(std::size_t box);
  /// Before receive: a message is on its way.
  void expect(std::size_t box);
  /// Waits for a message; the bytes are the receiver's until it lets them go.
  [[nodiscard]] const char* receive(std::size_t box);
  void release(std::size_t box);

 private:
  class Carrier;
  struct Box;
  void await(const Box& box, bool sending);

  Engine& engine_;
  std::string name_;
  std::int64_t delay_;  // ns
  std::shared_ptr<Segment> memory_;
  std::vector<Box> boxes_;
  std::unique_ptr<Carrier> carrier_;  // null where no box is of messages
};

}  // namespace pleiad
