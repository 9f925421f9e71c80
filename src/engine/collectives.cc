// Collectives among the ranks of one host, through the buffers of the control segment.
//
// In each step every rank fills its buffer, announces its arrival, and waits until all ranks have arrived. Buffers
// alternate by the parity of the step: a rank that has seen all ranks arrive at step s knows that all have finished
// reading the buffers of step s - 1, so it may fill those for step s + 1.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "engine/engine.h"
#include "engine/reduce.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// From this size on, four and more ranks divide the work of a reduction instead of each doing all of it.
constexpr std::size_t kByPartsFrom = 32 * 1024;

constexpr std::uint64_t detail_of(DType dtype, Reduce op, double factor = 1, std::uint32_t tag = 0) {
  return static_cast<std::uint64_t>(dtype) << 8 | static_cast<std::uint64_t>(op) << 16 |
         static_cast<std::uint64_t>(factor != 1) << 24 | static_cast<std::uint64_t>(tag) << 32;
}

// Stored in place of the details: the rank has arrived but cannot take part.
constexpr std::uint64_t kRefused = std::uint64_t{1} << 31;
constexpr std::uint64_t kCallBits = 0xff;

}  // namespace

// Marks the duration of one collective of this rank.
class Engine::CollectiveScope {
 public:
  CollectiveScope(Engine& engine, Call call) : engine_(engine), mark_(engine, call) {
    engine_.check_usable(name_of(call));
    engine_.register_thread();
    if (engine_.in_collective_.exchange(true)) {
      throw StateError(
          fmt::format("[rank {}] {}: another thread of this rank is in a collective; call them from one thread",
                      engine_.rank_, name_of(call)));
    }
    engine_.self().collectives.fetch_add(1, std::memory_order_relaxed);
  }
  ~CollectiveScope() { engine_.in_collective_.store(false); }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  Engine& engine_;
  CallMark mark_;
};

void Engine::begin(Call call, std::uint64_t detail, std::uint64_t bytes) {
  check_failure();
  at(Point::collective);
  CollectiveSlot& slot = control_.collective(location(rank_).local);
  const std::size_t parity = (step_ + 1) % 2;
  slot.what[parity].store(static_cast<std::uint64_t>(call) | detail, std::memory_order_relaxed);
  slot.bytes[parity].store(bytes, std::memory_order_relaxed);
}

std::uint64_t Engine::arrive() {
  control_.collective(location(rank_).local).arrived.store(++step_);
  control_.head().collective.notify();
  return step_;
}

void Engine::await(std::uint64_t step, Call call) {
  const auto behind = [&](int local) {
    return control_.collective(local).arrived.load(std::memory_order_acquire) < step;
  };
  const auto ready = [&] {
    for (int local = 0; local < local_ranks(); ++local) {
      if (behind(local)) return false;
    }
    return true;
  };
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int local = 0; local < local_ranks(); ++local) {
      if (behind(local)) ranks.push_back(world_rank(local));
    }
    return ranks;
  };
  wait(control_.head().collective, {.call = call, .ready = ready, .missing = missing, .in_step = true});
}

namespace {

std::string describe_collective(std::uint64_t what, std::uint64_t bytes) {
  const auto call = static_cast<Call>(what & 0xff);
  if (call == Call::barrier) return std::string(name_of(call));
  return fmt::format("{} of {} bytes{}", name_of(call), grouped(static_cast<std::int64_t>(bytes)),
                     (what >> 8) != 0 ? fmt::format(" (type, operation, root or tag {:#x})", what >> 8) : "");
}

}  // namespace

// Throws an OrderError if another rank is in a different collective.
void Engine::check_same(int rank, std::uint64_t theirs, std::uint64_t their_bytes, std::uint64_t mine,
                        std::uint64_t my_bytes) {
  if (theirs == mine && their_bytes == my_bytes) return;
  throw OrderError(fail(fmt::format("ranks called different collectives: {} called {}, {} called {}", describe(rank),
                                    describe_collective(theirs, their_bytes), describe(rank_),
                                    describe_collective(mine, my_bytes))));
}

// Exchanges what each rank is about to do, across hosts, before they do it: MPI would mix up collectives that differ. A
// rank that leaves the world or knows of a failure says so here, so that no rank is left waiting inside MPI.
std::vector<Engine::CollectiveHeader> Engine::exchange_headers(const CollectiveHeader& mine) {
  struct Word {
    std::array<char, 4096> text{};
  };
  CollectiveHeader said = mine;
  said.failed = failure().empty() ? 0 : 1;
  std::vector<CollectiveHeader> all(static_cast<std::size_t>(size()));
  remote_all_gather(&said, all.data(), sizeof said);
  if (std::ranges::all_of(all, [](const CollectiveHeader& theirs) { return theirs.failed == 0; })) return all;
  Word word;
  if (said.failed != 0) {
    const std::string text = failure();
    std::memcpy(word.text.data(), text.data(), std::min(text.size(), word.text.size() - 1));
  }
  std::vector<Word> words(static_cast<std::size_t>(size()));
  remote_all_gather(&word, words.data(), sizeof word);
  const auto first = std::ranges::find_if(words, [](const Word& theirs) { return theirs.text[0] != 0; });
  if (first != words.end()) (void)fail(first->text.data());
  return all;
}

// Returns the value that each rank contributed.
std::vector<std::uint64_t> Engine::agree_across_hosts(Call call, std::uint64_t detail, std::uint64_t bytes,
                                                      std::uint64_t number) {
  const CollectiveHeader mine{.what = static_cast<std::uint64_t>(call) | detail, .bytes = bytes, .number = number};
  const std::vector<CollectiveHeader> all = exchange_headers(mine);
  // Ignores a failure that only this rank has heard of since: otherwise the others would be left inside MPI.
  if (std::ranges::any_of(all, [](const CollectiveHeader& theirs) { return theirs.failed != 0; })) check_failure();
  std::vector<std::uint64_t> numbers;
  for (int r = 0; r < size(); ++r) {
    const CollectiveHeader& theirs = all[static_cast<std::size_t>(r)];
    if (theirs.what == static_cast<std::uint64_t>(Call::shutdown)) {
      throw OrderError(
          fmt::format("[rank {}] {} waits for {}, which has shut down", rank_, name_of(call), describe(r)));
    }
  }
  for (int r = 0; r < size(); ++r) {
    const CollectiveHeader& theirs = all[static_cast<std::size_t>(r)];
    check_same(r, theirs.what, theirs.bytes, mine.what, mine.bytes);
    numbers.push_back(theirs.number);
  }
  return numbers;
}

// Other ranks may still be in collectives, which fail because of this rank's shutdown.
void Engine::leave_hosts() {
  const CollectiveHeader mine{.what = static_cast<std::uint64_t>(Call::shutdown)};
  const auto leaves = [&](const CollectiveHeader& theirs) { return theirs.what == mine.what; };
  while (!std::ranges::all_of(exchange_headers(mine), leaves)) {
  }
}

// Ends the first step of a collective: waits for all ranks and checks that all called the same one. Returns false if a
// rank refused. All ranks see the same result, so they stay in step.
bool Engine::arrive_and_check(Call call, std::uint64_t detail, std::uint64_t bytes) {
  const std::uint64_t step = arrive();
  await(step, call);
  const std::uint64_t what = static_cast<std::uint64_t>(call) | detail;
  bool refused = false;
  for (int local = 0; local < local_ranks(); ++local) {
    const CollectiveSlot& slot = control_.collective(local);
    const std::uint64_t theirs = slot.what[step % 2].load(std::memory_order_relaxed);
    if (((theirs | what) & kRefused) != 0) {
      refused = true;
      check_same(world_rank(local), theirs & kCallBits, 0, what & kCallBits, 0);
    } else {
      check_same(world_rank(local), theirs, slot.bytes[step % 2].load(std::memory_order_relaxed), what, bytes);
    }
  }
  return !refused;
}

void Engine::barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each) {
  const CollectiveScope scope(*this, Call::barrier);
  at(Point::barrier);
  if (!one_host()) {
    const std::vector<std::uint64_t> numbers = agree_across_hosts(Call::barrier, 0, 0, number);
    for (int r = 0; r < size(); ++r) each(r, numbers[static_cast<std::size_t>(r)]);
    return;
  }
  begin(Call::barrier, 0, 0);
  control_.collective(location(rank_).local).number[(step_ + 1) % 2].store(number, std::memory_order_relaxed);
  (void)arrive_and_check(Call::barrier, 0, 0);
  for (int r = 0; r < size(); ++r) {
    each(r, control_.collective(location(r).local).number[step_ % 2].load(std::memory_order_relaxed));
  }
}

void Engine::broadcast(void* data, std::size_t bytes, int root) {
  const CollectiveScope scope(*this, Call::broadcast);
  if (root < 0 || root >= size()) {
    throw InvalidArgument(fmt::format("[broadcast] root {} is not a rank; the world has {} ranks", root, size()));
  }
  const std::uint64_t detail = static_cast<std::uint64_t>(root) << 32;
  if (!one_host()) {
    agree_across_hosts(Call::broadcast, detail, bytes);
    return remote_broadcast(data, bytes, root);
  }
  begin(Call::broadcast, detail, bytes);
  char* at_byte = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    if (rank_ == root) adaptive_copy_.copy(control_.buffer(root, step_ + 1), at_byte + done, part);
    if (done == 0) {
      (void)arrive_and_check(Call::broadcast, detail, bytes);
    } else {
      await(arrive(), Call::broadcast);
    }
    if (rank_ != root) copy_bytes(at_byte + done, control_.buffer(root, step_), part);
  }
}

void Engine::all_gather(const void* in, void* out, std::size_t bytes) {
  const CollectiveScope scope(*this, Call::all_gather);
  if (!one_host()) {
    agree_across_hosts(Call::all_gather, 0, bytes);
    return remote_all_gather(in, out, bytes);
  }
  begin(Call::all_gather, 0, bytes);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    adaptive_copy_.copy(control_.buffer(rank_, step_ + 1), static_cast<const char*>(in) + done, part);
    if (done == 0) {
      (void)arrive_and_check(Call::all_gather, 0, bytes);
    } else {
      await(arrive(), Call::all_gather);
    }
    for (int r = 0; r < size(); ++r) {
      copy_bytes(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes + done, control_.buffer(r, step_), part);
    }
  }
}

void Engine::reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const CollectiveScope scope(*this, Call::reduce_scatter);
  const std::size_t bytes = count * size_of(dtype);
  if (!one_host()) {
    agree_across_hosts(Call::reduce_scatter, detail_of(dtype, op), bytes);
    return remote_reduce_scatter(dtype, in, out, count, op);
  }
  begin(Call::reduce_scatter, detail_of(dtype, op), bytes);
  const std::size_t piece = kChunkBytes / static_cast<std::size_t>(size()) / 64 * 64;
  for (std::size_t done = 0; done < bytes || done == 0; done += piece) {
    const std::size_t part = std::min(piece, bytes - done);
    for (int r = 0; r < size(); ++r) {
      copy_bytes(control_.buffer(rank_, step_ + 1) + static_cast<std::size_t>(r) * piece,
                 static_cast<const char*>(in) + static_cast<std::size_t>(r) * bytes + done, part);
    }
    if (done == 0) {
      (void)arrive_and_check(Call::reduce_scatter, detail_of(dtype, op), bytes);
    } else {
      await(arrive(), Call::reduce_scatter);
    }
    char* to = static_cast<char*>(out) + done;
    const std::size_t mine = static_cast<std::size_t>(rank_) * piece;
    copy_bytes(to, control_.buffer(0, step_) + mine, part);
    for (int r = 1; r < size(); ++r)
      reduce_into(dtype, op, to, control_.buffer(r, step_) + mine, part / size_of(dtype));
  }
}

void Engine::all_reduce(DType dtype, void* data, std::size_t count, Reduce op, double factor, std::uint32_t tag) {
  const CollectiveScope scope(*this, Call::all_reduce);
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t detail = detail_of(dtype, op, factor, tag);
  if (!one_host()) {
    agree_across_hosts(Call::all_reduce, detail, bytes);
    remote_all_reduce(dtype, data, count, op);
    return scale(dtype, data, factor, count);
  }
  begin(Call::all_reduce, detail, bytes);
  if (size() == 1) return scale(dtype, data, factor, count);
  if (size() == 2 || bytes < kByPartsFrom) {
    reduce_flat(dtype, static_cast<char*>(data), bytes, op, factor, detail);
  } else {
    reduce_by_parts(dtype, static_cast<char*>(data), bytes, op, factor, detail);
  }
}

// Every rank reduces everything: one step per chunk. The last reduction multiplies too, so a mean needs no pass of its
// own.
void Engine::reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail) {
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    adaptive_copy_.copy(control_.buffer(rank_, step_ + 1), data + done, part);
    at(Point::all_reduce);
    if (done == 0) {
      (void)arrive_and_check(Call::all_reduce, detail, bytes);
    } else {
      await(arrive(), Call::all_reduce);
    }
    const std::size_t elements = part / size_of(dtype);
    if (size() == 2) {
      char* mine = data + done;
      const char* other = control_.buffer(1 - rank_, step_);
      reduce_pair(dtype, op, mine, rank_ == 0 ? mine : other, rank_ == 0 ? other : mine, elements, factor);
    } else {
      reduce_pair(dtype, op, data + done, control_.buffer(0, step_), control_.buffer(1, step_), elements);
      for (int r = 2; r < size(); ++r) {
        reduce_into(dtype, op, data + done, control_.buffer(r, step_), elements, r + 1 == size() ? factor : 1);
      }
    }
  }
}

// Every rank reduces its part of a chunk, then all copy the result: two steps per chunk. Each rank fills its buffer
// with the next chunk during the second step.
void Engine::reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                             std::uint64_t detail) {
  const std::uint64_t first = step_ + 1;
  const auto chunk_bytes = [&](std::size_t chunk) { return std::min(kChunkBytes, bytes - chunk * kChunkBytes); };
  const auto publish = [&](std::size_t chunk) {
    adaptive_copy_.copy(control_.buffer(rank_, first + chunk), data + chunk * kChunkBytes, chunk_bytes(chunk));
  };
  const std::size_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  const std::size_t width = size_of(dtype);
  publish(0);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    at(Point::all_reduce);
    if (chunk == 0) {
      (void)arrive_and_check(Call::all_reduce, detail, bytes);
    } else {
      await(arrive(), Call::all_reduce);
    }
    const std::size_t elements = chunk_bytes(chunk) / width;
    const std::size_t part = (elements / static_cast<std::size_t>(size()) + 15) / 16 * 16;
    const std::size_t begin = std::min(elements, part * static_cast<std::size_t>(rank_));
    const std::size_t end = rank_ + 1 == size() ? elements : std::min(elements, begin + part);
    // In place: the values that were here are already in the buffer.
    char* sum = data + chunk * kChunkBytes + begin * width;
    const auto theirs = [&](int r) { return control_.buffer(r, first + chunk) + begin * width; };
    reduce_pair(dtype, op, sum, theirs(0), theirs(1), end - begin);
    for (int r = 2; r < size(); ++r) reduce_into(dtype, op, sum, theirs(r), end - begin, r + 1 == size() ? factor : 1);
    adaptive_copy_.copy(control_.result(chunk) + begin * width, sum, (end - begin) * width);
    const std::uint64_t step = arrive();
    if (chunk + 1 < chunks) publish(chunk + 1);
    await(step, Call::all_reduce);
    const auto take = [&](std::size_t from, std::size_t to) {
      copy_bytes(data + chunk * kChunkBytes + from * width, control_.result(chunk) + from * width, (to - from) * width);
    };
    take(0, begin);
    take(end, elements);
  }
}

// One step per chunk. A rank that owns no unit of a chunk proceeds to fill its buffer with the next one. A rank's own
// units are not copied to its buffer.
bool Engine::reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                          FillUnit fill, FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take) {
  const CollectiveScope scope(*this, Call::step);
  const std::uint64_t what =
      refused ? kRefused : detail_of(dtype, Reduce::sum) | static_cast<std::uint64_t>(detail) << 32;
  begin(Call::step, what, bytes);
  if (refused) return arrive_and_check(Call::step, what, bytes);
  const auto sum = std::make_unique_for_overwrite<char[]>(unit);
  const auto mine = std::make_unique_for_overwrite<char[]>(unit);
  const auto publish = [&](void* to, const void* from, std::size_t n) { adaptive_copy_.copy(to, from, n); };
  const auto keep = [](void* to, const void* from, std::size_t n) { copy_bytes(to, from, n); };
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    const auto units = [&](bool of_mine, auto&& each) {
      for (std::size_t at_byte = 0; at_byte < part; at_byte += unit) {
        const bool is_mine =
            (done + at_byte) / unit % static_cast<std::size_t>(size()) == static_cast<std::size_t>(rank_);
        if (is_mine == of_mine) each(at_byte, std::min(unit, part - at_byte));
      }
    };
    char* buffer = control_.buffer(rank_, step_ + 1);
    units(false, [&](std::size_t at_byte, std::size_t n) { fill(buffer + at_byte, done + at_byte, n, publish); });
    at(Point::all_reduce);
    if (done == 0) {
      if (!arrive_and_check(Call::step, what, bytes)) return false;
    } else {
      await(arrive(), Call::step);
    }
    units(true, [&](std::size_t at_byte, std::size_t n) {
      fill(mine.get(), done + at_byte, n, keep);
      if (size() == 1) return take(done + at_byte, mine.get(), n);
      const auto of = [&](int r) { return r == rank_ ? mine.get() : control_.buffer(r, step_) + at_byte; };
      reduce_pair(dtype, Reduce::sum, sum.get(), of(0), of(1), n / size_of(dtype));
      for (int r = 2; r < size(); ++r) reduce_into(dtype, Reduce::sum, sum.get(), of(r), n / size_of(dtype));
      take(done + at_byte, sum.get(), n);
    });
  }
  await(arrive(), Call::step);
  return true;
}

}  // namespace pleiad
