#include "engine/control.h"

#include <algorithm>
#include <new>

#include "engine/segment.h"

namespace pleiad {

Control::Offsets Control::offsets(int count) {
  const auto n = static_cast<std::size_t>(count);
  Offsets at{};
  at.ranks = round_to_pages(sizeof(ControlHead));
  at.collectives = at.ranks + round_to_pages(n * sizeof(RankSlot));
  at.buffers = at.collectives + round_to_pages(n * sizeof(CollectiveSlot));
  at.results = at.buffers + n * 2 * kChunkBytes;
  at.rings = at.results + 2 * kChunkBytes;
  at.ring_bytes = at.rings + round_to_pages(n * n * sizeof(MessageRing));
  at.end = at.ring_bytes + n * n * Control::ring_size(count);
  return at;
}

Control::Control(void* memory, int ranks) : base_(static_cast<char*>(memory)), ranks_(ranks), at_(offsets(ranks)) {}

std::string_view name_of(Call call) {
  static constexpr std::string_view kNames[] = {
      "idle",           "start", "create_table", "add",   "get",  "barrier",  "broadcast", "all_reduce", "all_gather",
      "reduce_scatter", "send",  "receive",      "flush", "wait", "shutdown", "tick",      "step",       "exchange"};
  const auto index = static_cast<std::size_t>(call);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::size_t Control::bytes(int ranks) { return offsets(ranks).end; }

std::size_t Control::ring_size(int ranks) {
  return std::clamp<std::size_t>(std::size_t{1024 * 1024} / static_cast<std::size_t>(ranks) / 4096 * 4096, 4096, 65536);
}

void Control::construct() {
  new (base_) ControlHead;
  for (int r = 0; r < ranks_; ++r) {
    new (&rank(r)) RankSlot;
    new (&collective(r)) CollectiveSlot;
    for (int to = 0; to < ranks_; ++to) new (&ring(r, to)) MessageRing;
  }
}

char* Control::buffer(int local, std::uint64_t step) const {
  return base_ + at_.buffers + (static_cast<std::size_t>(local) * 2 + step % 2) * kChunkBytes;
}

char* Control::result(std::uint64_t step) const { return base_ + at_.results + step % 2 * kChunkBytes; }

MessageRing& Control::ring(int from, int to) const {
  return reinterpret_cast<MessageRing*>(base_ + at_.rings)[from * ranks_ + to];
}

char* Control::ring_bytes(int from, int to) const {
  return base_ + at_.ring_bytes + static_cast<std::size_t>(from * ranks_ + to) * ring_size();
}

}  // namespace pleiad
