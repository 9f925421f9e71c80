// The engine: one rank's view of its world, with collectives, point-to-point messages, waits and failure detection.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "core/log.h"
#include "engine/adaptive_copy.h"
#include "engine/control.h"
#include "engine/hooks.h"
#include "engine/segment.h"
#include "pleiad/dtype.h"
#include "pleiad/options.h"

namespace pleiad {

class RpcTransport;

enum class Reduce : std::uint8_t { sum, min, max };

/// The location of a rank.
struct RankLocation {
  int host = 0;      ///< index of the host; the host of rank 0 is 0
  int local = 0;     ///< index among the ranks of this host
  std::string name;  ///< the host's name
};

/// One rank's view of a world. All ranks call the collectives in the same order, one at a time. A second thread of a
/// rank that calls a collective while another one runs gets a StateError. If ranks call different collectives, all of
/// them get an OrderError. If a rank dies, the collectives throw a TransportError that names it. Any thread may call
/// send, receive and wait.
class Engine {
 public:
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(locations_.size()); }
  [[nodiscard]] const RankLocation& location(int rank) const { return locations_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int hosts() const;
  [[nodiscard]] bool one_host() const { return local_ranks() == size(); }
  /// The number of ranks on this host. world_rank() turns a local index into a rank of the world.
  [[nodiscard]] int local_ranks() const { return static_cast<int>(neighbours_.size()); }
  [[nodiscard]] int world_rank(int local) const { return neighbours_[static_cast<std::size_t>(local)]; }

  void barrier() {
    barrier(0, [](int, std::uint64_t) {});
  }
  /// A barrier in which every rank contributes a value. `each` receives the values of all ranks in rank order; the
  /// values are the same on every rank.
  void barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each);
  void broadcast(void* data, std::size_t bytes, int root);
  /// Reduces in place, in rank order, so all ranks get bit-identical results. Multiplies the result by `factor`, which
  /// must be 1 for integers. All ranks must pass the same `tag`.
  void all_reduce(DType dtype, void* data, std::size_t count, Reduce op, double factor = 1, std::uint32_t tag = 0);
  /// Gathers `bytes` bytes of every rank into `out`, which holds size() * bytes, in rank order.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// Reduces `in`, which holds size() * count elements, and writes the block of this rank to `out`.
  void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op);
  using CopyPiece = FunctionRef<void(void* to, const void* from, std::size_t bytes)>;
  using FillUnit = FunctionRef<void(char* to, std::size_t at, std::size_t n, CopyPiece copy)>;
  /// Sums `bytes` bytes of all ranks in rank order, in units of `unit` bytes (a divisor of kChunkBytes). One rank sums
  /// each unit. fill(to, at, n, copy) writes this rank's bytes [at, at + n) by calling copy; take(at, sum, n) receives
  /// the sum of a unit that this rank owns. Returns when every rank has finished its units. All ranks must pass the
  /// same `detail`. A rank that cannot take part passes `refused` = true: then nothing is summed and all ranks get
  /// false. Requires one_host().
  [[nodiscard]] bool reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                                  FillUnit fill,
                                  FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take);
  /// Returns when the caller may change `data`. Messages with the same sender and tag arrive in order.
  void send(int to, std::uint32_t tag, const void* data, std::size_t bytes);
  /// Receives one message. Throws InvalidArgument if the message does not have exactly `bytes` bytes; the message then
  /// stays available.
  void receive(int from, std::uint32_t tag, void* data, std::size_t bytes);

  /// Returns memory that all ranks of this host share, initially zero. Collective over the world; the ranks of one host
  /// pass the same size. If the allocation fails on any rank, all ranks throw its error.
  [[nodiscard]] std::shared_ptr<Segment> share(std::size_t bytes, bool reserve_only);

  [[nodiscard]] Liveness liveness(int rank) const;
  /// The requests to processes of other hosts; null if the world has one host.
  [[nodiscard]] RpcTransport* rpc() const { return rpc_.get(); }

  /// Returns true for a rank that died, and for a rank that left once its process has ended. Its locks may then be
  /// taken over.
  [[nodiscard]] bool has_ended(int rank) const;
  /// For messages, such as "rank 2 (pid 4711 on node7)".
  [[nodiscard]] std::string describe(int rank) const;

  struct Waiting {
    Call call;
    FunctionRef<bool()> ready;
    /// The ranks that the caller waits for, for error messages. If one of them is dead, the wait throws a
    /// TransportError.
    FunctionRef<std::vector<int>()> missing;
    /// If false, an OrderError of another call does not end this wait.
    bool ordered = true;
    /// Set to true if giving up leaves the ranks out of step. A timeout or an interrupt then ends the ordered calls of
    /// all ranks.
    bool in_step = false;
  };
  /// Spins briefly, then sleeps until ready() returns true. Throws if an awaited rank died, on an order failure, at the
  /// deadline, or when the caller interrupts.
  void wait(Event& event, const Waiting& waiting);
  /// The same wait for a condition that has no Event. sleep(nanoseconds) returns after at most that time, and earlier
  /// if something arrived.
  void wait_by(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);

  /// Registers the calling thread with deadlock detection: other ranks may wait for calls of this thread. From then on
  /// the rank counts as stuck only while this thread waits too.
  void register_thread();
  /// Records the threads that exist now. Deadlock detection treats threads that appear later as unknown until they call
  /// register_thread().
  void record_threads();
  /// Records that Pleiad has started an internal thread in this process.
  void internal_thread_started() { self().known_threads.fetch_add(1); }
  /// Mark the beginning and the end of background work that callers may wait for, such as writing a file. The rank does
  /// not count as stuck in between, even if the disk is slow.
  void background_work_started() { self().background.fetch_add(1); }
  void background_work_ended() { self().background.fetch_sub(1); }

  /// Records the world's first order failure and wakes all waiters. Returns the text of the recorded failure, for the
  /// caller to throw. gave_up = true means that this rank will not reach the step that the others wait for, so their
  /// waits must end too.
  [[nodiscard]] std::string fail(const std::string& text, bool gave_up = false);
  /// Returns true if a failure is recorded and its rank gave up.
  [[nodiscard]] bool gave_up() const;
  /// Throws an OrderError if a failure is recorded.
  void check_failure() const;
  /// The text of the recorded failure, or an empty string.
  [[nodiscard]] std::string failure() const;
  /// Wakes all waiters on this host after a change to a state that they check.
  void wake_all() const;
  /// Throws a StateError in a forked child of the process that made the engine, and after the engine has left the
  /// world.
  void check_usable(std::string_view where) const;
  [[nodiscard]] bool in_forked_child() const;
  [[nodiscard]] bool has_left() const { return left_.load(); }

  void at(Point point) {
    if (hooks_ == nullptr) return;
    try {
      hooks_->at(rank_, point);
    } catch (const RankKilled&) {
      killed_.store(true);  // set before the stack unwinds, so that locks stay held
      throw;
    }
  }
  [[nodiscard]] bool scheduled() const { return hooks_ != nullptr && hooks_->scheduled(); }
  /// Returns true for a rank that a test has killed. Destructors must then leave shared state as it is.
  [[nodiscard]] bool killed() const { return killed_.load(std::memory_order_relaxed); }

  /// Leaves the world cleanly and waits for the other ranks to leave.
  void leave();
  /// Throws if the caller or the session asks to end waits. whom() describes what is awaited, for the message.
  void check_interrupt(std::string_view where, FunctionRef<std::string()> whom) const;
  /// From now on, waits of this rank throw a StateError, so that operations of its other threads come to an end.
  void end_waits() { ending_.store(true); }
  /// Marks this rank as `liveness` without waiting for the others. Requires that the rank holds no lock, unless a test
  /// killed it.
  void abandon(Liveness liveness);

  /// Describes what every rank of this host is doing, one line per rank. `table_name` maps a table's number to its
  /// name.
  [[nodiscard]] std::string report(const std::function<std::string(std::uint32_t)>& table_name) const;

  [[nodiscard]] const Control& control() const { return control_; }
  [[nodiscard]] RankSlot& self() const { return control_.rank(location(rank_).local); }
  [[nodiscard]] const Log& log() const { return *log_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  void set_table_namer(std::function<std::string(std::uint32_t)> namer) { table_namer_ = std::move(namer); }
  /// Sets a function that every wait calls about twenty times a second; if it returns true, the wait throws
  /// Interrupted.
  void set_interrupt(std::function<bool()> interrupt) { interrupt_ = std::move(interrupt); }
  /// Spins once while a peer finishes something short: pauses the core at first, then yields.
  void relax(int spins) const;

 protected:
  Engine(SessionOptions options, int rank, std::vector<RankLocation> locations, std::shared_ptr<Segment> control_memory,
         Hooks* hooks);
  void announce_alive();
  void mark_dead(int rank);
  /// Records that the process of `rank` has ended, cleanly or not.
  void mark_process_ended(int rank);

  /// Allocates memory that the other ranks of this host can fetch under `id`. Only local rank 0 calls it, before a
  /// barrier.
  [[nodiscard]] virtual std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes,
                                                              bool reserve_only) = 0;
  [[nodiscard]] virtual std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) = 0;

  // Operations between hosts. Called only if one_host() is false.
  virtual void remote_broadcast(void* data, std::size_t bytes, int root);
  virtual void remote_all_reduce(DType dtype, void* data, std::size_t count, Reduce op);
  virtual void remote_all_gather(const void* in, void* out, std::size_t bytes);
  virtual void remote_reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op);
  virtual void remote_send(int to, std::uint32_t tag, const void* data, std::size_t bytes);
  virtual void remote_receive(int from, std::uint32_t tag, void* data, std::size_t bytes);

  /// Called after the rank has left its world. `clean` is true if all other ranks of this host have left too and none
  /// died.
  virtual void after_leave(bool /*clean*/) {}

  std::atomic<bool> killed_{false};
  std::unique_ptr<RpcTransport> rpc_;  // set by engines that span hosts and stopped before their destruction

 private:
  class CollectiveScope;
  class WaitMonitor;
  struct UnexpectedMessages;
  class MailboxStream;
  class AccessGuard;

  std::uint64_t arrive();
  void await(std::uint64_t step, Call call);
  void begin(Call call, std::uint64_t detail, std::uint64_t bytes);
  bool arrive_and_check(Call call, std::uint64_t detail, std::uint64_t bytes);
  // Describes the collective that a rank is in, for the ranks of other hosts.
  struct CollectiveHeader {
    std::uint64_t what = 0;
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;
    std::uint64_t failed = 0;  ///< 1 if the rank knows of an order failure
  };
  std::vector<CollectiveHeader> exchange_headers(const CollectiveHeader& mine);
  void leave_hosts();
  std::vector<std::uint64_t> agree_across_hosts(Call call, std::uint64_t detail, std::uint64_t bytes,
                                                std::uint64_t number = 0);
  void check_same(int rank, std::uint64_t theirs, std::uint64_t their_bytes, std::uint64_t mine,
                  std::uint64_t my_bytes);
  void reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail);
  void reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail);
  void sleep_until_ready(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);
  void notify_other_hosts() const;

  SessionOptions options_;
  int rank_;
  std::vector<RankLocation> locations_;
  std::vector<int> neighbours_;
  std::shared_ptr<Segment> control_memory_;
  Control control_;
  Hooks* hooks_;
  std::unique_ptr<Log> log_;
  std::uint64_t made_in_generation_;
  std::atomic<bool> left_{false};
  std::atomic<bool> ending_{false};
  std::atomic<bool> in_collective_{false};
  std::uint64_t step_ = 0;
  AdaptiveCopy adaptive_copy_;  // used by the thread that is in a collective
  bool shares_cores_;
  std::function<std::string(std::uint32_t)> table_namer_;
  std::function<bool()> interrupt_;
  std::unique_ptr<UnexpectedMessages> unexpected_;
  std::uint64_t id_;
  std::uint64_t segments_ = 0;
};

/// Shows in reports what the calling thread is doing, for the lifetime of the object.
class CallMark {
 public:
  CallMark(const Engine& engine, Call call, std::uint32_t table = kNoTable);
  ~CallMark();
  CallMark(const CallMark&) = delete;
  CallMark& operator=(const CallMark&) = delete;

 private:
  RankSlot& slot_;
  Call before_;
  std::uint32_t table_before_;
};

/// Counts work that another thread does for this rank as one more thread of the rank, from the moment of delegation. A
/// rank whose caller waits for that thread is stuck only if that thread is stuck too.
class DelegatedWork {
 public:
  explicit DelegatedWork(const Engine& engine);
  ~DelegatedWork();
  DelegatedWork(DelegatedWork&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  DelegatedWork& operator=(DelegatedWork&&) = delete;
  /// Called by the thread that does the work, so that it is not counted twice.
  static void set_thread_delegated(bool delegated_thread);

 private:
  RankSlot* slot_;
};

}  // namespace pleiad
