// Between hosts, HostAgreement compares the calls and RemoteOperations moves the bytes. On one host, the ranks exchange
// chunks in the steps of CollectiveSteps.
#include "engine/collectives.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "core/kernels.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// From this size on, four and more ranks divide the work of a reduction instead of each doing all of it.
constexpr std::size_t kByPartsFrom = 32 * 1024;

constexpr std::uint64_t detail_of(DType dtype, Reduce op, double factor = 1, std::uint32_t tag = 0) {
  return static_cast<std::uint64_t>(dtype) << 8 | static_cast<std::uint64_t>(op) << 16 |
         static_cast<std::uint64_t>(factor != 1) << 24 | static_cast<std::uint64_t>(tag) << 32;
}

}  // namespace

// Marks the duration of one collective of this rank.
class Collectives::Scope {
 public:
  Scope(Collectives& collectives, Call call) : collectives_(collectives), mark_(collectives.activity_, call) {
    collectives_.members_.check_usable(name_of(call));
    collectives_.activity_.register_thread();
    if (collectives_.in_collective_.exchange(true)) {
      throw StateError(
          fmt::format("[rank {}] {}: another thread of this rank is in a collective; call them from one thread",
                      collectives_.context_.world.rank(), name_of(call)));
    }
    collectives_.activity_.self().collectives.fetch_add(1, std::memory_order_relaxed);
  }
  ~Scope() { collectives_.in_collective_.store(false); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Collectives& collectives_;
  CallMark mark_;
};

Collectives::Collectives(RankContext& context, const Membership& members, OrderFailure& failure, Activity& activity,
                         Waiter& waiter)
    : context_(context),
      members_(members),
      activity_(activity),
      steps_(context, members, failure, waiter),
      agreement_(context, members, failure) {}

void Collectives::connect(RemoteOperations& remote) {
  remote_ = &remote;
  agreement_.connect(remote);
}

void Collectives::end_step(bool first, const CollectiveSignature& signature) {
  if (first) {
    (void)steps_.arrive_and_check(signature);
  } else {
    steps_.await(steps_.arrive(), call_of(signature));
  }
}

void Collectives::barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each) {
  const Scope scope(*this, Call::barrier);
  const World& world = context_.world;
  constexpr CollectiveSignature kBarrier = signature_of(Call::barrier, 0, 0);
  context_.hooks.at(Point::barrier);
  if (!world.one_host()) {
    const std::vector<std::uint64_t> numbers = agreement_.agree(kBarrier, number);
    for (int r = 0; r < world.size(); ++r) each(r, numbers[static_cast<std::size_t>(r)]);
    return;
  }
  steps_.begin(kBarrier);
  steps_.contribute(number);
  (void)steps_.arrive_and_check(kBarrier);
  for (int r = 0; r < world.size(); ++r) each(r, steps_.contribution(world.location(r).local));
}

void Collectives::broadcast(void* data, std::size_t bytes, int root) {
  const Scope scope(*this, Call::broadcast);
  const World& world = context_.world;
  if (!world.contains(root)) {
    throw InvalidArgument(fmt::format("[broadcast] root {} is not a rank; the world has {} ranks", root, world.size()));
  }
  const CollectiveSignature signature = signature_of(Call::broadcast, static_cast<std::uint64_t>(root) << 32, bytes);
  if (!world.one_host()) {
    agreement_.agree(signature);
    return remote_->broadcast(data, bytes, root);
  }
  steps_.begin(signature);
  char* at_byte = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    if (world.rank() == root) adaptive_copy_.copy(steps_.next_buffer(), at_byte + done, part);
    end_step(done == 0, signature);
    if (world.rank() != root) copy_bytes(at_byte + done, steps_.buffer(root), part);
  }
}

void Collectives::all_gather(const void* in, void* out, std::size_t bytes) {
  const Scope scope(*this, Call::all_gather);
  const World& world = context_.world;
  const CollectiveSignature signature = signature_of(Call::all_gather, 0, bytes);
  if (!world.one_host()) {
    agreement_.agree(signature);
    return remote_->all_gather(in, out, bytes);
  }
  steps_.begin(signature);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    adaptive_copy_.copy(steps_.next_buffer(), static_cast<const char*>(in) + done, part);
    end_step(done == 0, signature);
    for (int r = 0; r < world.size(); ++r) {
      copy_bytes(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes + done, steps_.buffer(r), part);
    }
  }
}

void Collectives::reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const Scope scope(*this, Call::reduce_scatter);
  const std::size_t bytes = count * size_of(dtype);
  const World& world = context_.world;
  const CollectiveSignature signature = signature_of(Call::reduce_scatter, detail_of(dtype, op), bytes);
  if (!world.one_host()) {
    agreement_.agree(signature);
    return remote_->reduce_scatter(dtype, in, out, count, op);
  }
  steps_.begin(signature);
  const std::size_t piece = kChunkBytes / static_cast<std::size_t>(world.size()) / 64 * 64;
  for (std::size_t done = 0; done < bytes || done == 0; done += piece) {
    const std::size_t part = std::min(piece, bytes - done);
    for (int r = 0; r < world.size(); ++r) {
      copy_bytes(steps_.next_buffer() + static_cast<std::size_t>(r) * piece,
                 static_cast<const char*>(in) + static_cast<std::size_t>(r) * bytes + done, part);
    }
    end_step(done == 0, signature);
    char* to = static_cast<char*>(out) + done;
    const std::size_t mine = static_cast<std::size_t>(world.rank()) * piece;
    copy_bytes(to, steps_.buffer(0) + mine, part);
    for (int r = 1; r < world.size(); ++r) reduce_into(dtype, op, to, steps_.buffer(r) + mine, part / size_of(dtype));
  }
}

void Collectives::all_reduce(DType dtype, void* data, std::size_t count, Reduce op, double factor, std::uint32_t tag) {
  const Scope scope(*this, Call::all_reduce);
  const std::size_t bytes = count * size_of(dtype);
  const World& world = context_.world;
  const CollectiveSignature signature = signature_of(Call::all_reduce, detail_of(dtype, op, factor, tag), bytes);
  if (!world.one_host()) {
    agreement_.agree(signature);
    remote_->all_reduce(dtype, data, count, op);
    return scale(dtype, data, factor, count);
  }
  steps_.begin(signature);
  if (world.size() == 1) return scale(dtype, data, factor, count);
  if (world.size() == 2 || bytes < kByPartsFrom) {
    reduce_flat(dtype, static_cast<char*>(data), bytes, op, factor, signature);
  } else {
    reduce_by_parts(dtype, static_cast<char*>(data), bytes, op, factor, signature);
  }
}

// Every rank reduces everything: one step per chunk. The last reduction multiplies too, so a mean needs no pass of its
// own.
void Collectives::reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                              const CollectiveSignature& signature) {
  const World& world = context_.world;
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    adaptive_copy_.copy(steps_.next_buffer(), data + done, part);
    context_.hooks.at(Point::all_reduce);
    end_step(done == 0, signature);
    const std::size_t elements = part / size_of(dtype);
    if (world.size() == 2) {
      char* mine = data + done;
      const char* other = steps_.buffer(1 - world.rank());
      reduce_pair(dtype, op, mine, world.rank() == 0 ? mine : other, world.rank() == 0 ? other : mine, elements,
                  factor);
    } else {
      reduce_pair(dtype, op, data + done, steps_.buffer(0), steps_.buffer(1), elements);
      for (int r = 2; r < world.size(); ++r) {
        reduce_into(dtype, op, data + done, steps_.buffer(r), elements, r + 1 == world.size() ? factor : 1);
      }
    }
  }
}

// Every rank reduces its part of a chunk, then all copy the result: two steps per chunk. Each rank fills its buffer
// with the next chunk during the second step.
void Collectives::reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                                  const CollectiveSignature& signature) {
  const World& world = context_.world;
  const std::uint64_t first = steps_.last() + 1;
  const auto chunk_bytes = [&](std::size_t chunk) { return std::min(kChunkBytes, bytes - chunk * kChunkBytes); };
  const auto publish = [&](std::size_t chunk) {
    adaptive_copy_.copy(context_.control.buffer(world.rank(), first + chunk), data + chunk * kChunkBytes,
                        chunk_bytes(chunk));
  };
  const std::size_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  const std::size_t width = size_of(dtype);
  publish(0);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    context_.hooks.at(Point::all_reduce);
    end_step(chunk == 0, signature);
    const std::size_t elements = chunk_bytes(chunk) / width;
    const std::size_t part = (elements / static_cast<std::size_t>(world.size()) + 15) / 16 * 16;
    const std::size_t begin = std::min(elements, part * static_cast<std::size_t>(world.rank()));
    const std::size_t end = world.rank() + 1 == world.size() ? elements : std::min(elements, begin + part);
    // In place: the values that were here are already in the buffer.
    char* sum = data + chunk * kChunkBytes + begin * width;
    const auto theirs = [&](int r) { return context_.control.buffer(r, first + chunk) + begin * width; };
    reduce_pair(dtype, op, sum, theirs(0), theirs(1), end - begin);
    for (int r = 2; r < world.size(); ++r)
      reduce_into(dtype, op, sum, theirs(r), end - begin, r + 1 == world.size() ? factor : 1);
    adaptive_copy_.copy(context_.control.result(chunk) + begin * width, sum, (end - begin) * width);
    const std::uint64_t step = steps_.arrive();
    if (chunk + 1 < chunks) publish(chunk + 1);
    steps_.await(step, Call::all_reduce);
    const auto take = [&](std::size_t from, std::size_t to) {
      copy_bytes(data + chunk * kChunkBytes + from * width, context_.control.result(chunk) + from * width,
                 (to - from) * width);
    };
    take(0, begin);
    take(end, elements);
  }
}

// One step per chunk. A rank that owns no unit of a chunk proceeds to fill its buffer with the next one. A rank's own
// units are not copied to its buffer.
bool Collectives::reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                               FillUnit fill, FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take) {
  const Scope scope(*this, Call::step);
  const World& world = context_.world;
  const std::uint64_t details = detail_of(dtype, Reduce::sum) | static_cast<std::uint64_t>(detail) << 32;
  const CollectiveSignature signature = signature_of(Call::step, refused ? CollectiveSteps::kRefused : details, bytes);
  steps_.begin(signature);
  if (refused) return steps_.arrive_and_check(signature);
  const auto sum = std::make_unique_for_overwrite<char[]>(unit);
  const auto mine = std::make_unique_for_overwrite<char[]>(unit);
  const auto publish = [&](void* to, const void* from, std::size_t n) { adaptive_copy_.copy(to, from, n); };
  const auto keep = [](void* to, const void* from, std::size_t n) { copy_bytes(to, from, n); };
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    const auto units = [&](bool of_mine, auto&& each) {
      for (std::size_t at_byte = 0; at_byte < part; at_byte += unit) {
        const bool is_mine =
            (done + at_byte) / unit % static_cast<std::size_t>(world.size()) == static_cast<std::size_t>(world.rank());
        if (is_mine == of_mine) each(at_byte, std::min(unit, part - at_byte));
      }
    };
    char* buffer = steps_.next_buffer();
    units(false, [&](std::size_t at_byte, std::size_t n) { fill(buffer + at_byte, done + at_byte, n, publish); });
    context_.hooks.at(Point::all_reduce);
    if (done == 0) {
      if (!steps_.arrive_and_check(signature)) return false;
    } else {
      steps_.await(steps_.arrive(), Call::step);
    }
    units(true, [&](std::size_t at_byte, std::size_t n) {
      fill(mine.get(), done + at_byte, n, keep);
      if (world.size() == 1) return take(done + at_byte, mine.get(), n);
      const auto of = [&](int r) { return r == world.rank() ? mine.get() : steps_.buffer(r) + at_byte; };
      reduce_pair(dtype, Reduce::sum, sum.get(), of(0), of(1), n / size_of(dtype));
      for (int r = 2; r < world.size(); ++r) reduce_into(dtype, Reduce::sum, sum.get(), of(r), n / size_of(dtype));
      take(done + at_byte, sum.get(), n);
    });
  }
  steps_.await(steps_.arrive(), Call::step);
  return true;
}

}  // namespace pleiad
