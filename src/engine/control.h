// What the ranks of one host know of each other: a segment that all of them map. Plain data and atomics only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/futex.h"

namespace pleiad {

/// What a rank is doing, for reports.
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

enum class Life : std::uint32_t { absent, alive, finished, dead };

inline constexpr std::uint32_t kNoTable = 0xffffffff;

struct alignas(64) RankSlot {
  std::atomic<Life> life{Life::absent};
  std::atomic<std::int32_t> pid{0};
  std::atomic<std::uint32_t> gone{0};  ///< its process has ended, after whatever life says
  std::atomic<std::uint32_t> role{0};

  // Whether the rank can move: it cannot while all its threads that ever waited are waiting. `changes` grows whenever a
  // thread begins or ends a wait, `polls` whenever a waiting thread looked again and found nothing. Any thread may end
  // a wait for a message, so those are counted by themselves.
  std::atomic<std::uint32_t> threads{0};
  std::atomic<std::uint32_t> callers{0};      ///< of those, the caller's own
  std::atomic<std::uint32_t> own_threads{0};  ///< the process's threads at the start, and Pleiad's since
  std::atomic<std::uint32_t> background{0};   ///< pieces of work in threads of Pleiad's own, such as a save
  std::atomic<std::uint32_t> waiting{0};
  std::atomic<std::uint32_t> waiting_for_mail{0};
  std::atomic<std::uint64_t> changes{0};
  std::atomic<std::uint64_t> polls{0};
  std::atomic<std::int64_t> polls_cpu{0};  ///< nanoseconds of processor time that looking again has taken

  alignas(64) std::atomic<Call> call{Call::idle};
  std::atomic<std::uint32_t> table{kNoTable};
  std::atomic<std::int64_t> since{0};
  std::atomic<std::uint64_t> adds{0};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> collectives{0};
  std::atomic<std::uint64_t> clocked{0};  ///< calls to synchronous tables, as counted by the ledger
};

/// A rank's place in the collectives: it has reached step `arrived`. `what[step % 2]` describes the collective that
/// began with that step, so that ranks which call different ones find out.
struct alignas(64) CollectiveSlot {
  std::atomic<std::uint64_t> arrived{0};
  std::array<std::atomic<std::uint64_t>, 2> what{};
  std::array<std::atomic<std::uint64_t>, 2> bytes{};
  std::array<std::atomic<std::uint64_t>, 2> number{};  ///< what a rank brings to a barrier
};

/// The first mistake in the order of calls. It ends the ordered calls of every rank.
struct Failure {
  std::atomic<std::uint32_t> stage{0};  ///< 0 none, 1 being written, 2 there
  std::uint32_t gave_up = 0;            ///< 1: a rank left a step that the others wait for, and will not come to it
  char text[16376] = {};
};

/// One call to a synchronous table: the k-th of the first worker that got there.
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
  Event collective;  ///< a rank arrived somewhere
  Event life;        ///< a rank started, finished or died; a failure was written
  Event mail;        ///< a mailbox changed
  Event calls;       ///< a worker moved on in the ledger
  Failure failure;
  Ledger ledger;
};

/// One direction between two ranks: a ring of bytes with one writer and one reader.
struct alignas(64) Mailbox {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint32_t> broken{0};  ///< a message was given up half-way
};

/// Finds the parts of a control segment for `ranks` ranks of one host.
class Control {
 public:
  Control() = default;
  Control(void* memory, int ranks);

  /// Bytes a segment needs.
  static std::size_t bytes(int ranks);
  /// Puts the initial state into fresh, zeroed memory. Done once, by the rank that made it.
  void construct();

  [[nodiscard]] ControlHead& head() const { return *reinterpret_cast<ControlHead*>(base_); }
  [[nodiscard]] RankSlot& rank(int local) const { return reinterpret_cast<RankSlot*>(base_ + at_.ranks)[local]; }
  [[nodiscard]] CollectiveSlot& collective(int local) const {
    return reinterpret_cast<CollectiveSlot*>(base_ + at_.collectives)[local];
  }
  /// The buffer through which `local` hands data to the others in step `step`.
  [[nodiscard]] char* buffer(int local, std::uint64_t step) const;
  /// The buffer in which all gather a reduced chunk.
  [[nodiscard]] char* result(std::uint64_t step) const;
  [[nodiscard]] Mailbox& mailbox(int from, int to) const;
  [[nodiscard]] char* mailbox_bytes(int from, int to) const;
  [[nodiscard]] std::size_t mailbox_size() const { return mailbox_size(ranks_); }
  [[nodiscard]] static std::size_t mailbox_size(int ranks);
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  struct Offsets {
    std::size_t ranks, collectives, buffers, results, mailboxes, mail, end;
  };
  static Offsets offsets(int ranks);

  char* base_ = nullptr;
  int ranks_ = 0;
  Offsets at_{};
};

/// Bytes of one rank's buffer in a collective: large enough to make a step worth its wait, small enough to stay in
/// cache.
inline constexpr std::size_t kChunkBytes = 256 * 1024;

}  // namespace pleiad
