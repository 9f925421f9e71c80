// Collectives of the ranks of one host, through the buffers of the control segment.
//
// A step: every rank fills its buffer, arrives, and waits until all have arrived. Buffers alternate by the parity of
// the step: whoever has seen all arrive at step s knows that all are done with the buffers of step s - 1, so it may
// fill them for s + 1.
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

// From here on, two ranks in four share the work of a reduction instead of each doing all of it.
constexpr std::size_t kByPartsFrom = 32 * 1024;

constexpr std::uint64_t detail_of(DType dtype, Reduce op, double factor = 1, std::uint32_t tag = 0) {
  return static_cast<std::uint64_t>(dtype) << 8 | static_cast<std::uint64_t>(op) << 16 |
         static_cast<std::uint64_t>(factor != 1) << 24 | static_cast<std::uint64_t>(tag) << 32;
}

// In the place of the details: the rank came, but cannot do its part.
constexpr std::uint64_t kRefused = std::uint64_t{1} << 31;
constexpr std::uint64_t kCallBits = 0xff;

}  // namespace

// One collective of this rank, from its call to its end.
class Engine::Turn {
 public:
  Turn(Engine& engine, Call call) : engine_(engine), mark_(engine, call) {
    engine_.check_usable(name_of(call));
    engine_.take_part();
    if (engine_.in_collective_.exchange(true)) {
      throw StateError(
          fmt::format("[rank {}] {}: another thread of this rank is in a collective; call them from one thread",
                      engine_.rank_, name_of(call)));
    }
    engine_.self().collectives.fetch_add(1, std::memory_order_relaxed);
  }
  ~Turn() { engine_.in_collective_.store(false); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Engine& engine_;
  CallMark mark_;
};

void Engine::begin(Call call, std::uint64_t detail, std::uint64_t bytes) {
  check_failure();
  at(Point::collective);
  CollectiveSlot& slot = control_.collective(place(rank_).local);
  const std::size_t parity = (step_ + 1) % 2;
  slot.what[parity].store(static_cast<std::uint64_t>(call) | detail, std::memory_order_relaxed);
  slot.bytes[parity].store(bytes, std::memory_order_relaxed);
}

std::uint64_t Engine::arrive() {
  control_.collective(place(rank_).local).arrived.store(++step_);
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

std::string words(std::uint64_t what, std::uint64_t bytes) {
  const auto call = static_cast<Call>(what & 0xff);
  if (call == Call::barrier) return std::string(name_of(call));
  return fmt::format("{} of {} bytes{}", name_of(call), grouped(static_cast<std::int64_t>(bytes)),
                     (what >> 8) != 0 ? fmt::format(" (type, operation, root or tag {:#x})", what >> 8) : "");
}

}  // namespace

// Throws where another rank came for something else.
void Engine::compare(int rank, std::uint64_t theirs, std::uint64_t their_bytes, std::uint64_t mine,
                     std::uint64_t my_bytes) {
  if (theirs == mine && their_bytes == my_bytes) return;
  throw OrderError(fail(fmt::format("ranks called different collectives: {} called {}, {} called {}", describe(rank),
                                    words(theirs, their_bytes), describe(rank_), words(mine, my_bytes))));
}

// Between hosts all ranks tell each other what they came for before they do it: MPI would mix up calls that differ. Who
// leaves the world, or has heard of a failure, says so here, so that nobody is left waiting in MPI.
std::vector<Engine::Purpose> Engine::meet_hosts(const Purpose& mine) {
  struct Word {
    std::array<char, 4096> text{};
  };
  Purpose said = mine;
  said.failed = failure().empty() ? 0 : 1;
  std::vector<Purpose> all(static_cast<std::size_t>(size()));
  remote_all_gather(&said, all.data(), sizeof said);
  if (std::ranges::all_of(all, [](const Purpose& theirs) { return theirs.failed == 0; })) return all;
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

// Returns the number that each rank brought.
std::vector<std::uint64_t> Engine::agree(Call call, std::uint64_t detail, std::uint64_t bytes, std::uint64_t number) {
  const Purpose mine{.what = static_cast<std::uint64_t>(call) | detail, .bytes = bytes, .number = number};
  const std::vector<Purpose> all = meet_hosts(mine);
  // Not one that this rank alone has heard of since: the others would be left in MPI.
  if (std::ranges::any_of(all, [](const Purpose& theirs) { return theirs.failed != 0; })) check_failure();
  std::vector<std::uint64_t> numbers;
  for (int r = 0; r < size(); ++r) {
    const Purpose& theirs = all[static_cast<std::size_t>(r)];
    if (theirs.what == static_cast<std::uint64_t>(Call::shutdown)) {
      throw OrderError(
          fmt::format("[rank {}] {} waits for {}, which has shut down", rank_, name_of(call), describe(r)));
    }
  }
  for (int r = 0; r < size(); ++r) {
    const Purpose& theirs = all[static_cast<std::size_t>(r)];
    compare(r, theirs.what, theirs.bytes, mine.what, mine.bytes);
    numbers.push_back(theirs.number);
  }
  return numbers;
}

// Others may still be in collectives, which end with an error because of this.
void Engine::leave_hosts() {
  const Purpose mine{.what = static_cast<std::uint64_t>(Call::shutdown)};
  const auto leaves = [&](const Purpose& theirs) { return theirs.what == mine.what; };
  while (!std::ranges::all_of(meet_hosts(mine), leaves)) {
  }
}

// Ends the first step of a collective: all have arrived, and all must have come for the same thing. False where one
// refuses; all see that alike, so the ranks stay in step.
bool Engine::meet(Call call, std::uint64_t detail, std::uint64_t bytes) {
  const std::uint64_t step = arrive();
  await(step, call);
  const std::uint64_t what = static_cast<std::uint64_t>(call) | detail;
  bool refused = false;
  for (int local = 0; local < local_ranks(); ++local) {
    const CollectiveSlot& slot = control_.collective(local);
    const std::uint64_t theirs = slot.what[step % 2].load(std::memory_order_relaxed);
    if (((theirs | what) & kRefused) != 0) {
      refused = true;
      compare(world_rank(local), theirs & kCallBits, 0, what & kCallBits, 0);
    } else {
      compare(world_rank(local), theirs, slot.bytes[step % 2].load(std::memory_order_relaxed), what, bytes);
    }
  }
  return !refused;
}

void Engine::barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each) {
  const Turn turn(*this, Call::barrier);
  at(Point::barrier);
  if (!one_host()) {
    const std::vector<std::uint64_t> numbers = agree(Call::barrier, 0, 0, number);
    for (int r = 0; r < size(); ++r) each(r, numbers[static_cast<std::size_t>(r)]);
    return;
  }
  begin(Call::barrier, 0, 0);
  control_.collective(place(rank_).local).number[(step_ + 1) % 2].store(number, std::memory_order_relaxed);
  (void)meet(Call::barrier, 0, 0);
  for (int r = 0; r < size(); ++r) {
    each(r, control_.collective(place(r).local).number[step_ % 2].load(std::memory_order_relaxed));
  }
}

void Engine::broadcast(void* data, std::size_t bytes, int root) {
  const Turn turn(*this, Call::broadcast);
  if (root < 0 || root >= size()) {
    throw InvalidArgument(fmt::format("[broadcast] root {} is not a rank; the world has {}", root, size()));
  }
  const std::uint64_t detail = static_cast<std::uint64_t>(root) << 32;
  if (!one_host()) {
    agree(Call::broadcast, detail, bytes);
    return remote_broadcast(data, bytes, root);
  }
  begin(Call::broadcast, detail, bytes);
  char* at_byte = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    if (rank_ == root) hand_over_.copy(control_.buffer(root, step_ + 1), at_byte + done, part);
    if (done == 0) {
      (void)meet(Call::broadcast, detail, bytes);
    } else {
      await(arrive(), Call::broadcast);
    }
    if (rank_ != root) copy_bytes(at_byte + done, control_.buffer(root, step_), part);
  }
}

void Engine::all_gather(const void* in, void* out, std::size_t bytes) {
  const Turn turn(*this, Call::all_gather);
  if (!one_host()) {
    agree(Call::all_gather, 0, bytes);
    return remote_all_gather(in, out, bytes);
  }
  begin(Call::all_gather, 0, bytes);
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    hand_over_.copy(control_.buffer(rank_, step_ + 1), static_cast<const char*>(in) + done, part);
    if (done == 0) {
      (void)meet(Call::all_gather, 0, bytes);
    } else {
      await(arrive(), Call::all_gather);
    }
    for (int r = 0; r < size(); ++r) {
      copy_bytes(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes + done, control_.buffer(r, step_), part);
    }
  }
}

void Engine::reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const Turn turn(*this, Call::reduce_scatter);
  const std::size_t bytes = count * size_of(dtype);
  if (!one_host()) {
    agree(Call::reduce_scatter, detail_of(dtype, op), bytes);
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
      (void)meet(Call::reduce_scatter, detail_of(dtype, op), bytes);
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
  const Turn turn(*this, Call::all_reduce);
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t detail = detail_of(dtype, op, factor, tag);
  if (!one_host()) {
    agree(Call::all_reduce, detail, bytes);
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

// Every rank sums everything: one step a chunk. The last sum multiplies as well, so a mean takes no pass of its own.
void Engine::reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail) {
  for (std::size_t done = 0; done < bytes || done == 0; done += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - done);
    hand_over_.copy(control_.buffer(rank_, step_ + 1), data + done, part);
    at(Point::all_reduce);
    if (done == 0) {
      (void)meet(Call::all_reduce, detail, bytes);
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

// Every rank sums its part of a chunk and all copy the result: two steps a chunk, and the next chunk is handed over
// while the second is under way.
void Engine::reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                             std::uint64_t detail) {
  const std::uint64_t first = step_ + 1;
  const auto chunk_bytes = [&](std::size_t chunk) { return std::min(kChunkBytes, bytes - chunk * kChunkBytes); };
  const auto hand_over = [&](std::size_t chunk) {
    hand_over_.copy(control_.buffer(rank_, first + chunk), data + chunk * kChunkBytes, chunk_bytes(chunk));
  };
  const std::size_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  const std::size_t width = size_of(dtype);
  hand_over(0);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    at(Point::all_reduce);
    if (chunk == 0) {
      (void)meet(Call::all_reduce, detail, bytes);
    } else {
      await(arrive(), Call::all_reduce);
    }
    const std::size_t elements = chunk_bytes(chunk) / width;
    const std::size_t part = (elements / static_cast<std::size_t>(size()) + 15) / 16 * 16;
    const std::size_t begin = std::min(elements, part * static_cast<std::size_t>(rank_));
    const std::size_t end = rank_ + 1 == size() ? elements : std::min(elements, begin + part);
    // In place: what stood here was handed over.
    char* sum = data + chunk * kChunkBytes + begin * width;
    const auto theirs = [&](int r) { return control_.buffer(r, first + chunk) + begin * width; };
    reduce_pair(dtype, op, sum, theirs(0), theirs(1), end - begin);
    for (int r = 2; r < size(); ++r) reduce_into(dtype, op, sum, theirs(r), end - begin, r + 1 == size() ? factor : 1);
    hand_over_.copy(control_.result(chunk) + begin * width, sum, (end - begin) * width);
    const std::uint64_t step = arrive();
    if (chunk + 1 < chunks) hand_over(chunk + 1);
    await(step, Call::all_reduce);
    const auto take = [&](std::size_t from, std::size_t to) {
      copy_bytes(data + chunk * kChunkBytes + from * width, control_.result(chunk) + from * width, (to - from) * width);
    };
    take(0, begin);
    take(end, elements);
  }
}

// One step a chunk; a rank whose units are not in it goes on to hand over the next one. A rank's own units stay with
// it.
bool Engine::reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                          FillUnit fill, FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take) {
  const Turn turn(*this, Call::step);
  const std::uint64_t what =
      refused ? kRefused : detail_of(dtype, Reduce::sum) | static_cast<std::uint64_t>(detail) << 32;
  begin(Call::step, what, bytes);
  if (refused) return meet(Call::step, what, bytes);
  const auto sum = std::make_unique_for_overwrite<char[]>(unit);
  const auto mine = std::make_unique_for_overwrite<char[]>(unit);
  const auto hand_over = [&](void* to, const void* from, std::size_t n) { hand_over_.copy(to, from, n); };
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
    units(false, [&](std::size_t at_byte, std::size_t n) { fill(buffer + at_byte, done + at_byte, n, hand_over); });
    at(Point::all_reduce);
    if (done == 0) {
      if (!meet(Call::step, what, bytes)) return false;
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
