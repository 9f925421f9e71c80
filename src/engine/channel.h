// A client's connection to one process of another host. It says who it is, notices when the connection was replaced by
// a new one, and says so again. One thread at a time uses it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "engine/frame.h"
#include "engine/job_key.h"
#include "engine/proof.h"
#include "engine/transport_keys.h"

namespace pleiad {

/// Sets what all our sockets have in common: heartbeats, quick reconnection, limits, nothing kept after the end.
void set_up_socket(zmq::socket_t& socket);

/// Waits for one of `items`, at most `ns` nanoseconds; returns how many are ready. What comes within a moment is taken
/// without sleeping, for waking a thread takes as long as a short message's way; who else wants the core gets it.
int await(std::vector<zmq::pollitem_t>& items, std::int64_t ns);

/// Memory of long frames, used again: fresh pages for each would cost as much as a tenth of its way. Any thread may
/// call. It outlives the messages made from it.
class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  static constexpr std::size_t kLeast = 32 * 1024;
  static constexpr std::size_t kMost = 576 * 1024;
  /// A message of `bytes`, kLeast to kMost.
  [[nodiscard]] zmq::message_t take(std::size_t bytes);

 private:
  struct Block;
  static constexpr std::size_t kKept = 32;

  std::mutex mutex_;
  std::vector<Block*> idle_;  // guarded by mutex_
};

/// A message with this head and room for `bytes` after it.
[[nodiscard]] zmq::message_t make_frame(const FrameHead& head, std::size_t bytes, FramePool* pool = nullptr);
[[nodiscard]] std::span<char> body_of(zmq::message_t& frame);

/// A frame that is longer than this travels in parts, so that the longest message that ZeroMQ takes from anybody,
/// kMostPartBytes, can be short.
inline constexpr std::size_t kPartBytes = 272 * 1024;
inline constexpr std::int64_t kMostPartBytes = kPartBytes + 1024;  // with what encryption adds
/// False where the queue is full. Throws as ZeroMQ does.
bool send_frame(zmq::socket_t& socket, zmq::message_t& frame);
/// Takes the next frame, whose parts are joined, without waiting. False where there is none; an empty frame stands for
/// one of more than `most` bytes.
bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame, std::size_t most);

struct Incoming {
  zmq::message_t message;
  Frame frame;  ///< lies in the message
};

class Channel {
 public:
  /// Connects in the background; nothing is known of the other side before the welcome. Encrypts where there are
  /// `keys`.
  Channel(zmq::context_t& context, const JobKey& key, int rank, int to, std::string endpoint,
          const TransportKeys* keys = nullptr);

  [[nodiscard]] int to() const { return to_; }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] zmq::socket_t& socket() { return socket_; }
  [[nodiscard]] bool welcomed() const { return welcomed_; }
  /// How often it was welcomed: what was sent before the last time may be lost.
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] std::uint64_t next_sequence() { return ++sequence_; }
  [[nodiscard]] FrameHead head(FrameKind kind) const;

  /// While it is not welcomed: says hello, about once a second.
  void greet(std::int64_t now);
  /// False where the queue is full: try again later.
  bool send(zmq::message_t& frame);
  /// The next frame that is for the caller. Greetings are dealt with here.
  [[nodiscard]] std::optional<Incoming> receive();

 private:
  void answer(const Frame& challenge);

  JobKey key_;
  int rank_;
  int to_;
  std::string endpoint_;
  zmq::socket_t socket_;
  std::uint64_t id_;
  std::uint64_t sequence_ = 0;
  std::uint32_t epoch_ = 0;
  bool welcomed_ = false;
  bool proved_ = false;  ///< the other side knows the key
  std::int64_t greeted_ = 0;
  Nonce nonce_{};
};

}  // namespace pleiad
