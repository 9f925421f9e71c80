// A client's connection to one process of another host. It authenticates itself, detects that ZeroMQ has replaced the
// connection, and then authenticates again. Not thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "engine/authentication.h"
#include "engine/frame.h"
#include "engine/job_key.h"
#include "engine/transport_keys.h"

namespace pleiad {

/// Sets the options that all sockets share: heartbeats, fast reconnection, size limits, no lingering.
void set_up_socket(zmq::socket_t& socket);

/// Waits for one of `items`, at most `ns` nanoseconds; returns how many are ready. Polls for a short time before it
/// sleeps, because waking a thread takes as long as a short message needs to arrive. It yields the core between polls.
int await(std::vector<zmq::pollitem_t>& items, std::int64_t ns);

/// Recycles the memory of long frames. Fresh pages would add up to a tenth to the time of a transfer. Thread-safe. It
/// must outlive the messages made from it.
class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  static constexpr std::size_t kMin = 32 * 1024;
  static constexpr std::size_t kMax = 576 * 1024;
  /// Returns a message of `bytes`, between kMin and kMax.
  [[nodiscard]] zmq::message_t take(std::size_t bytes);

 private:
  struct Block;
  static constexpr std::size_t kKept = 32;

  std::mutex mutex_;
  std::vector<Block*> idle_;  // guarded by mutex_
};

/// Returns a message with this header and space for a body of `bytes`.
[[nodiscard]] zmq::message_t make_frame(const FrameHead& head, std::size_t bytes, FramePool* pool = nullptr);
[[nodiscard]] std::span<char> body_of(zmq::message_t& frame);

/// A longer frame is sent in parts, so that the limit on the size of ZeroMQ messages from anyone, kMaxPartBytes, can
/// be small.
inline constexpr std::size_t kPartBytes = 272 * 1024;
inline constexpr std::int64_t kMaxPartBytes = kPartBytes + 1024;  // includes the overhead of encryption
/// Sends a frame without blocking. Returns false if the queue is full. Throws zmq::error_t.
bool send_frame(zmq::socket_t& socket, zmq::message_t& frame);
/// Receives the next frame without blocking and joins its parts. Returns false if there is none. A frame of more than
/// `most` bytes is returned as an empty one.
bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame, std::size_t most);

struct ReceivedFrame {
  zmq::message_t message;
  Frame frame;  ///< a view of `message`
};

class RpcConnection {
 public:
  /// Connects in the background; the server is not authenticated before authenticated() returns true. Encrypts if
  /// `keys` is not null.
  RpcConnection(zmq::context_t& context, const JobKey& key, int rank, int to, std::string endpoint,
                const TransportKeys* keys = nullptr);

  [[nodiscard]] int to() const { return to_; }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] zmq::socket_t& socket() { return socket_; }
  [[nodiscard]] bool authenticated() const { return authenticated_; }
  /// The number of handshakes that the connection has completed. Frames sent before the last handshake may be lost.
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] std::uint64_t next_sequence() { return ++sequence_; }
  [[nodiscard]] FrameHead head(FrameKind kind) const;

  /// Sends a hello about once a second until the handshake is complete.
  void send_hello(std::int64_t now);
  /// Sends a frame without blocking. Returns false if the queue is full.
  bool send(zmq::message_t& frame);
  /// Returns the next frame for the caller, if there is one. Processes the frames of the handshake itself.
  [[nodiscard]] std::optional<ReceivedFrame> receive();

 private:
  void answer_challenge(const Frame& challenge);

  JobKey key_;
  int rank_;
  int to_;
  std::string endpoint_;
  zmq::socket_t socket_;
  std::uint64_t id_;
  std::uint64_t sequence_ = 0;
  std::uint32_t epoch_ = 0;
  bool authenticated_ = false;
  bool server_authenticated_ = false;  ///< the server has shown that it knows the key
  std::int64_t hello_sent_ = 0;
  Nonce nonce_{};
};

}  // namespace pleiad
