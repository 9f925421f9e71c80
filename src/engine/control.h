// The control segment: what the ranks of one host know about each other. All of them map it, so it holds only plain
// data and atomics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/futex.h"

namespace pleiad {

/// The call that a rank is executing, for reports and error messages.
enum class Call : std::uint32_t {
  idle,
  start,
  create_table,
  add,
  get,
  barrier,
  broadcast,
  all_reduce,
  all_gather,
  reduce_scatter,
  send,
  receive,
  flush,
  wait,
  shutdown,
  tick,
  step,
  exchange,
};
[[nodiscard]] std::string_view name_of(Call call);

enum class Liveness : std::uint32_t { absent, alive, left, dead };

inline constexpr std::uint32_t kNoTable = 0xffffffff;

struct alignas(64) RankSlot {
  std::atomic<Liveness> liveness{Liveness::absent};
  std::atomic<std::int32_t> pid{0};
  std::atomic<std::uint32_t> process_ended{0};  ///< set when the process has ended, whatever `liveness` says
  std::atomic<std::uint32_t> role{0};

  // Deadlock detection. A rank is stuck while all its registered threads wait. `changes` grows when a thread begins or
  // ends a wait; `polls` grows when a waiting thread has checked its condition in vain. Waits for messages are also
  // counted separately, because any thread may send the message that ends them.
  std::atomic<std::uint32_t> threads{0};
  std::atomic<std::uint32_t> callers{0};  ///< of those, the caller's threads
  std::atomic<std::uint32_t> known_threads{
      0};  ///< the process's threads at the start, plus the internal threads started since
  std::atomic<std::uint32_t> background{0};  ///< pieces of background work in internal threads, such as a save
  std::atomic<std::uint32_t> waiting{0};
  std::atomic<std::uint32_t> waiting_for_messages{0};
  std::atomic<std::uint64_t> changes{0};
  std::atomic<std::uint64_t> polls{0};
  std::atomic<std::int64_t> polls_cpu{0};  ///< processor time in nanoseconds that `polls` have used

  alignas(64) std::atomic<Call> call{Call::idle};
  std::atomic<std::uint32_t> table{kNoTable};
  std::atomic<std::int64_t> since{0};
  std::atomic<std::uint64_t> adds{0};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> collectives{0};
  std::atomic<std::uint64_t> clocked{0};  ///< calls to synchronous tables, as the ledger counts them
};

/// A rank's progress in the collectives: it has reached step `arrived`. `what[step % 2]` describes the collective that
/// began with that step, so that ranks which call different collectives detect it.
struct alignas(64) CollectiveSlot {
  std::atomic<std::uint64_t> arrived{0};
  std::array<std::atomic<std::uint64_t>, 2> what{};
  std::array<std::atomic<std::uint64_t>, 2> bytes{};
  std::array<std::atomic<std::uint64_t>, 2> number{};  ///< the value that a rank contributes to a barrier
};

/// The first order failure of the world. It ends the ordered calls of every rank.
struct Failure {
  std::atomic<std::uint32_t> stage{0};  ///< 0: none, 1: being written, 2: complete
  std::uint32_t gave_up = 0;            ///< 1 if a rank left a step that the others wait for
  char text[16376] = {};
};

/// One call to a synchronous table, as recorded by the first worker that made its k-th call.
struct LedgerEntry {
  Call call = Call::idle;
  std::uint32_t table = kNoTable;
  std::int32_t rank = 0;
};

inline constexpr std::size_t kLedgerEntries = 1024;

struct alignas(64) Ledger {
  std::atomic<std::uint32_t> lock{0};
  std::uint64_t entries_made = 0;  ///< guarded by lock, as is `entries`
  std::array<LedgerEntry, kLedgerEntries> entries;
};

struct alignas(64) ControlHead {
  Event collective;  ///< a rank arrived at a step
  Event liveness;    ///< a rank started, left or died, or a failure was recorded
  Event mailbox;     ///< a mailbox changed
  Event calls;       ///< a worker advanced in the ledger
  Failure failure;
  Ledger ledger;
};

/// The messages from one rank to another: a ring buffer with one writer and one reader.
struct alignas(64) MessageRing {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint32_t> broken{0};  ///< 1 if a message was aborted after its first byte
};

/// Computes the layout of a control segment for `ranks` ranks of one host.
class Control {
 public:
  Control() = default;
  Control(void* memory, int ranks);

  /// The number of bytes that a segment needs.
  static std::size_t bytes(int ranks);
  /// Writes the initial state into zeroed memory. Only the rank that allocated the memory calls it, once.
  void construct();

  [[nodiscard]] ControlHead& head() const { return *reinterpret_cast<ControlHead*>(base_); }
  [[nodiscard]] RankSlot& rank(int local) const { return reinterpret_cast<RankSlot*>(base_ + at_.ranks)[local]; }
  [[nodiscard]] CollectiveSlot& collective(int local) const {
    return reinterpret_cast<CollectiveSlot*>(base_ + at_.collectives)[local];
  }
  /// The buffer through which `local` gives data to the other ranks in step `step`.
  [[nodiscard]] char* buffer(int local, std::uint64_t step) const;
  /// The buffer into which all ranks write their parts of a reduced chunk.
  [[nodiscard]] char* result(std::uint64_t step) const;
  [[nodiscard]] MessageRing& ring(int from, int to) const;
  [[nodiscard]] char* ring_bytes(int from, int to) const;
  [[nodiscard]] std::size_t ring_size() const { return ring_size(ranks_); }
  [[nodiscard]] static std::size_t ring_size(int ranks);
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  struct Offsets {
    std::size_t ranks, collectives, buffers, results, rings, ring_bytes, end;
  };
  static Offsets offsets(int ranks);

  char* base_ = nullptr;
  int ranks_ = 0;
  Offsets at_{};
};

/// Size of one rank's buffer in a collective: large enough to amortise the synchronisation of a step, small enough to
/// stay in cache.
inline constexpr std::size_t kChunkBytes = 256 * 1024;

}  // namespace pleiad
