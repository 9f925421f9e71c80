// What lies on the wire between two hosts: one ZeroMQ message is one frame, a header and a body. Hosts of one job have
// one byte order and one build of this header; the magic number says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "pleiad/error.h"

namespace pleiad {

enum class FrameKind : std::uint8_t {
  hello = 1,  ///< a client's nonce
  challenge,  ///< the server's nonce, and its proof that it knows the key
  proof,      ///< the client's proof
  welcome,    ///< from now on requests are heard
  stranger,   ///< the request came over a connection without a proof
  request,
  reply,  ///< with status: 0, or an ErrorKind and its text
  note,   ///< the request is there and waits; the body says for whom
  ping,
  pong,
  beat,  ///< how the sender's host is; answered by one
  beat_back,
};

inline constexpr std::uint32_t kFrameMagic = 0x31444c50;  // "PLD1"

struct FrameHead {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::request;
  std::uint8_t repeatable = 0;  ///< carrying it out twice changes nothing
  std::uint16_t status = 0;
  std::int32_t rank = -1;  ///< who sent it
  std::uint32_t operation = 0;
  std::uint64_t channel = 0;   ///< a random number of the client's connection
  std::uint64_t sequence = 0;  ///< of a request on its channel, from 1
  std::uint32_t epoch = 0;     ///< how often the channel has been welcomed
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FrameHead) == 40 && sizeof(FrameHead) % 8 == 0);

struct Frame {
  FrameHead head;
  std::span<const char> body;
};

/// Nothing where the bytes are no frame.
[[nodiscard]] inline std::optional<Frame> parse_frame(std::span<const char> bytes) {
  Frame frame;
  if (bytes.size() < sizeof frame.head) return std::nullopt;
  std::memcpy(&frame.head, bytes.data(), sizeof frame.head);
  const FrameHead& head = frame.head;
  if (head.magic != kFrameMagic || head.kind < FrameKind::hello || head.kind > FrameKind::beat_back ||
      head.status > static_cast<std::uint16_t>(ErrorKind::rule) || head.reserved != 0) {
    return std::nullopt;
  }
  frame.body = bytes.subspan(sizeof frame.head);
  return frame;
}

}  // namespace pleiad
