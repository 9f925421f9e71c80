#include "engine/inproc_transport.h"

#include <cstring>

#include <fmt/format.h>

#include "core/text.h"
#include "engine/reduce.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// Accepts a null pointer with zero bytes, which memcpy does not.
void put(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

void InprocTransport::deposit(int rank, std::uint64_t round, std::span<const char> bytes) {
  Slot& slot = slots_[static_cast<std::size_t>(rank)];
  slot.bytes[round % 2].assign(bytes.begin(), bytes.end());
  slot.round.store(round);
  moved.notify();
}

bool InprocTransport::arrived(int rank, std::uint64_t round) const {
  return slots_[static_cast<std::size_t>(rank)].round.load() >= round;
}

const std::vector<char>& InprocTransport::deposited(int rank, std::uint64_t round) const {
  return slots_[static_cast<std::size_t>(rank)].bytes[round % 2];
}

void InprocTransport::send(const Route& route, std::span<const char> bytes) {
  {
    const std::lock_guard lock(mutex_);
    messages_[route].emplace_back(bytes.begin(), bytes.end());
  }
  moved.notify();
}

std::int64_t InprocTransport::next_size(const Route& route) {
  const std::lock_guard lock(mutex_);
  const auto& messages = messages_[route];
  return messages.empty() ? -1 : static_cast<std::int64_t>(messages.front().size());
}

std::vector<char> InprocTransport::receive(const Route& route) {
  const std::lock_guard lock(mutex_);
  auto& messages = messages_[route];
  std::vector<char> message = std::move(messages.front());
  messages.pop_front();
  return message;
}

std::uint64_t InprocOperations::gather(Call call, std::span<const char> mine) {
  const std::uint64_t round = ++rounds_;
  transport_->deposit(world_.rank(), round, mine);
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int r = 0; r < world_.size(); ++r) {
      if (!transport_->arrived(r, round)) ranks.push_back(r);
    }
    return ranks;
  };
  waiter_.wait(transport_->moved, {.call = call,
                                   .ready = [&] { return missing().empty(); },
                                   .missing = missing,
                                   .ordered = false,
                                   .in_step = true});
  return round;
}

void InprocOperations::broadcast(void* data, std::size_t bytes, int root) {
  const auto* mine = static_cast<const char*>(data);
  const std::uint64_t round = gather(Call::broadcast, {mine, world_.rank() == root ? bytes : 0});
  if (world_.rank() != root) put(data, transport_->deposited(root, round).data(), bytes);
}

void InprocOperations::all_gather(const void* in, void* out, std::size_t bytes) {
  const std::uint64_t round = gather(Call::all_gather, {static_cast<const char*>(in), bytes});
  for (int r = 0; r < world_.size(); ++r) {
    put(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes, transport_->deposited(r, round).data(), bytes);
  }
}

void InprocOperations::all_reduce(DType dtype, void* data, std::size_t count, Reduce op) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t round = gather(Call::all_reduce, {static_cast<const char*>(data), bytes});
  put(data, transport_->deposited(0, round).data(), bytes);
  for (int r = 1; r < world_.size(); ++r) reduce_into(dtype, op, data, transport_->deposited(r, round).data(), count);
}

void InprocOperations::reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t round =
      gather(Call::reduce_scatter, {static_cast<const char*>(in), bytes * static_cast<std::size_t>(world_.size())});
  const auto block = [&](int r) {
    return transport_->deposited(r, round).data() + static_cast<std::size_t>(world_.rank()) * bytes;
  };
  put(out, block(0), bytes);
  for (int r = 1; r < world_.size(); ++r) reduce_into(dtype, op, out, block(r), count);
}

void InprocOperations::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  if (members_.liveness(to) == Liveness::dead)
    throw TransportError(fmt::format("[rank {}] send: {} died", world_.rank(), members_.describe(to)));
  transport_->send({world_.rank(), to, tag}, {static_cast<const char*>(data), bytes});
}

void InprocOperations::receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  const InprocTransport::Route route{from, world_.rank(), tag};
  waiter_.wait(transport_->moved, {.call = Call::receive,
                                   .ready = [&] { return transport_->next_size(route) >= 0; },
                                   .missing = [&] { return std::vector<int>{from}; },
                                   .ordered = false});
  if (const std::int64_t arrived = transport_->next_size(route); arrived != static_cast<std::int64_t>(bytes)) {
    throw InvalidArgument(fmt::format("[receive] the message with tag {} from rank {} has {} bytes; expected {}", tag,
                                      from, grouped(arrived), grouped(static_cast<std::int64_t>(bytes))));
  }
  put(data, transport_->receive(route).data(), bytes);
}

}  // namespace pleiad
