#include "engine/inproc_wire.h"

#include <cstring>

#include <fmt/format.h>

#include "core/text.h"
#include "engine/inproc.h"
#include "engine/reduce.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// Accepts a null pointer with zero bytes, which memcpy does not.
void put(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

void InprocWire::bring(int rank, std::uint64_t round, std::span<const char> bytes) {
  Slot& slot = slots_[static_cast<std::size_t>(rank)];
  slot.bytes[round % 2].assign(bytes.begin(), bytes.end());
  slot.round.store(round);
  moved.notify();
}

bool InprocWire::came(int rank, std::uint64_t round) const {
  return slots_[static_cast<std::size_t>(rank)].round.load() >= round;
}

const std::vector<char>& InprocWire::brought(int rank, std::uint64_t round) const {
  return slots_[static_cast<std::size_t>(rank)].bytes[round % 2];
}

void InprocWire::send(const Way& way, std::span<const char> bytes) {
  {
    const std::lock_guard lock(mutex_);
    letters_[way].emplace_back(bytes.begin(), bytes.end());
  }
  moved.notify();
}

std::int64_t InprocWire::waiting(const Way& way) {
  const std::lock_guard lock(mutex_);
  const auto& letters = letters_[way];
  return letters.empty() ? -1 : static_cast<std::int64_t>(letters.front().size());
}

std::vector<char> InprocWire::receive(const Way& way) {
  const std::lock_guard lock(mutex_);
  auto& letters = letters_[way];
  std::vector<char> letter = std::move(letters.front());
  letters.pop_front();
  return letter;
}

// The operations between hosts of an InprocEngine. Each is built on a gather of all ranks' bytes.
std::uint64_t InprocEngine::gather(Call call, std::span<const char> mine) {
  const std::uint64_t round = ++rounds_;
  wire_->bring(rank(), round, mine);
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r) {
      if (!wire_->came(r, round)) ranks.push_back(r);
    }
    return ranks;
  };
  wait(wire_->moved, {.call = call,
                      .ready = [&] { return missing().empty(); },
                      .missing = missing,
                      .ordered = false,
                      .in_step = true});
  return round;
}

void InprocEngine::remote_broadcast(void* data, std::size_t bytes, int root) {
  const auto* mine = static_cast<const char*>(data);
  const std::uint64_t round = gather(Call::broadcast, {mine, rank() == root ? bytes : 0});
  if (rank() != root) put(data, wire_->brought(root, round).data(), bytes);
}

void InprocEngine::remote_all_gather(const void* in, void* out, std::size_t bytes) {
  const std::uint64_t round = gather(Call::all_gather, {static_cast<const char*>(in), bytes});
  for (int r = 0; r < size(); ++r) {
    put(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes, wire_->brought(r, round).data(), bytes);
  }
}

void InprocEngine::remote_all_reduce(DType dtype, void* data, std::size_t count, Reduce op) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t round = gather(Call::all_reduce, {static_cast<const char*>(data), bytes});
  put(data, wire_->brought(0, round).data(), bytes);
  for (int r = 1; r < size(); ++r) reduce_into(dtype, op, data, wire_->brought(r, round).data(), count);
}

void InprocEngine::remote_reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t round =
      gather(Call::reduce_scatter, {static_cast<const char*>(in), bytes * static_cast<std::size_t>(size())});
  const auto block = [&](int r) { return wire_->brought(r, round).data() + static_cast<std::size_t>(rank()) * bytes; };
  put(out, block(0), bytes);
  for (int r = 1; r < size(); ++r) reduce_into(dtype, op, out, block(r), count);
}

void InprocEngine::remote_send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  if (life(to) == Life::dead) throw TransportError(fmt::format("[rank {}] send: {} died", rank(), describe(to)));
  wire_->send({rank(), to, tag}, {static_cast<const char*>(data), bytes});
}

void InprocEngine::remote_receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  const InprocWire::Way way{from, rank(), tag};
  wait(wire_->moved, {.call = Call::receive,
                      .ready = [&] { return wire_->waiting(way) >= 0; },
                      .missing = [&] { return std::vector<int>{from}; },
                      .ordered = false});
  if (const std::int64_t came = wire_->waiting(way); came != static_cast<std::int64_t>(bytes)) {
    throw InvalidArgument(fmt::format("[receive] the message with tag {} from rank {} has {} bytes; expected {}", tag,
                                      from, grouped(came), grouped(static_cast<std::int64_t>(bytes))));
  }
  put(data, wire_->receive(way).data(), bytes);
}

}  // namespace pleiad
