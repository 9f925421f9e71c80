// The format of messages between hosts. One ZeroMQ message carries one frame: a header and a body. All hosts of a job
// must have the same byte order and the same build of this header; the magic number checks this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "pleiad/error.h"

namespace pleiad {

enum class FrameKind : std::uint8_t {
  hello = 1,        ///< from the client, with its nonce
  challenge,        ///< from the server, with its nonce and its authentication tag
  response,         ///< from the client, with its authentication tag
  accepted,         ///< from the server: the handshake is complete and requests are accepted
  unauthenticated,  ///< the request came over an unauthenticated connection
  request,
  reply,    ///< carries status 0, or an ErrorKind with its text as the body
  waiting,  ///< the request has arrived and waits; the body lists the ranks that it waits for
  ping,
  pong,
  heartbeat,  ///< the state of the sender's host; the receiver answers with heartbeat_reply
  heartbeat_reply,
};

inline constexpr std::uint32_t kFrameMagic = 0x31444c50;  // "PLD1"

struct FrameHead {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::request;
  std::uint8_t idempotent = 0;  ///< 1 if executing the request twice is harmless
  std::uint16_t status = 0;
  std::int32_t rank = -1;  ///< the sender
  std::uint32_t operation = 0;
  std::uint64_t connection = 0;  ///< random id of the client's connection
  std::uint64_t sequence = 0;    ///< number of a request on its connection, starting at 1
  std::uint32_t epoch = 0;       ///< how many handshakes the connection has completed
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FrameHead) == 40 && sizeof(FrameHead) % 8 == 0);

struct Frame {
  FrameHead head;
  std::span<const char> body;
};

/// Returns nullopt if the bytes are not a valid frame.
[[nodiscard]] inline std::optional<Frame> parse_frame(std::span<const char> bytes) {
  Frame frame;
  if (bytes.size() < sizeof frame.head) return std::nullopt;
  std::memcpy(&frame.head, bytes.data(), sizeof frame.head);
  const FrameHead& head = frame.head;
  if (head.magic != kFrameMagic || head.kind < FrameKind::hello || head.kind > FrameKind::heartbeat_reply ||
      head.status > static_cast<std::uint16_t>(ErrorKind::rule) || head.reserved != 0) {
    return std::nullopt;
  }
  frame.body = bytes.subspan(sizeof frame.head);
  return frame;
}

}  // namespace pleiad
