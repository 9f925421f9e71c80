// A world: its ranks, how they move bytes to each other, and how they wait.
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
#include "engine/control.h"
#include "engine/hand_over.h"
#include "engine/hooks.h"
#include "engine/segment.h"
#include "pleiad/dtype.h"
#include "pleiad/options.h"

namespace pleiad {

class Messenger;

enum class Reduce : std::uint8_t { sum, min, max };

/// Where a rank lives.
struct Place {
  int host = 0;      ///< index of its host, 0 for that of rank 0
  int local = 0;     ///< its index among the ranks of its host
  std::string name;  ///< the host's name
};

/// One rank's view of a world. Collectives are called by all ranks in the same order, one at a time: a second thread
/// that calls one meanwhile is refused, and ranks that call different ones all get an OrderError. A rank that died
/// turns them into a TransportError that names it. send, receive and wait may be called by any thread.
class Engine {
 public:
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(places_.size()); }
  [[nodiscard]] const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int hosts() const;
  [[nodiscard]] bool one_host() const { return local_ranks() == size(); }
  /// The world's ranks on this host, by their local index.
  [[nodiscard]] int local_ranks() const { return static_cast<int>(neighbours_.size()); }
  [[nodiscard]] int world_rank(int local) const { return neighbours_[static_cast<std::size_t>(local)]; }

  void barrier() {
    barrier(0, [](int, std::uint64_t) {});
  }
  /// A barrier to which every rank brings a number; `each` sees those of all ranks, in rank order, the same everywhere.
  void barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each);
  void broadcast(void* data, std::size_t bytes, int root);
  /// Sums (or takes the least or greatest) in rank order: all ranks get the same bits. In place. The result is
  /// multiplied by `factor`, which is 1 for integers. All ranks come with the same `tag`.
  void all_reduce(DType dtype, void* data, std::size_t count, Reduce op, double factor = 1, std::uint32_t tag = 0);
  /// `out` receives size() * bytes, by rank.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// `in` holds size() * count elements; `out` receives the reduced block of this rank.
  void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op);
  using CopyPiece = FunctionRef<void(void* to, const void* from, std::size_t bytes)>;
  using FillUnit = FunctionRef<void(char* to, std::size_t at, std::size_t n, CopyPiece copy)>;
  /// Sums all ranks' `bytes` in rank order, unit after unit of `unit` bytes (a divisor of kChunkBytes), each by one
  /// rank alone. fill(to, at, n, copy) gives this rank's bytes from `at` on, by copy; take(at, sum, n) gets the sum of
  /// a unit that falls to this rank. Returns when all ranks are done with theirs. `detail` is what all must agree on. A
  /// rank that cannot take part comes with `refused`: then nothing is summed, and all get false. For one host.
  [[nodiscard]] bool reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                                  FillUnit fill,
                                  FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take);
  /// Returns when `data` may be changed again. Messages of one sender and tag arrive in order.
  void send(int to, std::uint32_t tag, const void* data, std::size_t bytes);
  /// The message must have exactly `bytes`.
  void receive(int from, std::uint32_t tag, void* data, std::size_t bytes);

  /// Memory that all ranks of this host see, zero at the start. Collective over the world; ranks of one host ask for
  /// the same size. On no memory all ranks get the error.
  [[nodiscard]] std::shared_ptr<Segment> share(std::size_t bytes, bool reserve_only);

  [[nodiscard]] Life life(int rank) const;
  /// How to reach processes of other hosts; null where there is only one host.
  [[nodiscard]] Messenger* messenger() const { return messenger_.get(); }

  /// True for a rank that died, and for one that has shut down once its process has ended: what it held is free.
  [[nodiscard]] bool gone(int rank) const;
  /// "rank 2 (pid 4711 on node7)"
  [[nodiscard]] std::string describe(int rank) const;

  struct Waiting {
    Call call;
    FunctionRef<bool()> ready;
    /// The ranks that the caller waits for, for messages. A dead one among them ends the wait with a TransportError.
    FunctionRef<std::vector<int>()> missing;
    /// False for waits that an OrderError elsewhere does not concern.
    bool ordered = true;
    /// True where giving up leaves the ranks out of step: a timeout or an interrupt then ends the ordered calls of all.
    bool in_step = false;
  };
  /// Sleeps until ready(), a death, an order failure, the deadline or the caller's interrupt. Spins a little first.
  void wait(Event& event, const Waiting& waiting);
  /// The same for what no event tells of: sleep(nanoseconds) returns at the latest then, earlier where something came.
  void wait_by(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);

  /// The calling thread makes calls that other ranks may wait for. From now on the rank counts as stuck only while this
  /// thread waits too, whatever it does between its calls.
  void take_part();
  /// The process's threads are those that it has now, and those that ever took part: others are strangers.
  void count_threads();
  /// A thread of Pleiad's own has started.
  void own_thread_started() { self().own_threads.fetch_add(1); }
  /// Between these calls a thread of Pleiad's own does what callers may wait for, such as writing a file. The rank does
  /// not count as stuck meanwhile, however slow the disk is.
  void background_work_started() { self().background.fetch_add(1); }
  void background_work_ended() { self().background.fetch_sub(1); }

  /// Writes down the world's first order failure and wakes everybody. Returns the error to throw. gave_up: this rank
  /// will not come to the step that the others wait for, so their waits must end too.
  [[nodiscard]] std::string fail(const std::string& text, bool gave_up = false);
  /// True if there is a failure of a rank that gave up.
  [[nodiscard]] bool gave_up() const;
  /// Throws the order failure if there is one.
  void check_failure() const;
  /// Its text, or nothing.
  [[nodiscard]] std::string failure() const;
  /// Wakes all who wait on this host: something that they look at has changed.
  void wake_all() const;
  /// Throws if this is a forked child of the process that made the engine, or the engine has left the world.
  void check_usable(std::string_view where) const;
  [[nodiscard]] bool in_forked_child() const;
  [[nodiscard]] bool has_left() const { return left_.load(); }

  void at(Point point) {
    if (hooks_ == nullptr) return;
    try {
      hooks_->at(rank_, point);
    } catch (const RankKilled&) {
      killed_.store(true);  // before the stack unwinds: what it holds stays held
      throw;
    }
  }
  [[nodiscard]] bool scheduled() const { return hooks_ != nullptr && hooks_->scheduled(); }
  /// True for a rank that a test has killed: it must leave everything as it is.
  [[nodiscard]] bool killed() const { return killed_.load(std::memory_order_relaxed); }

  /// Clean end of this rank: its clocks become infinite. Waits for the others.
  void leave();
  /// Throws where the caller wants its waits to end, or the session does; whom() says what for.
  void check_interrupt(std::string_view where, FunctionRef<std::string()> whom) const;
  /// From now on waits of this rank end with a StateError: what its threads have under way comes to an end.
  void end_waits() { ending_.store(true); }
  /// Ends this rank in the eyes of the others without waiting for them. It holds no lock by now, or was killed.
  void abandon(Life life);

  /// What every rank of this host is doing, a line each; `table_name` turns a table's number into its name.
  [[nodiscard]] std::string report(const std::function<std::string(std::uint32_t)>& table_name) const;

  [[nodiscard]] const Control& control() const { return control_; }
  [[nodiscard]] RankSlot& self() const { return control_.rank(place(rank_).local); }
  [[nodiscard]] const Log& log() const { return *log_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  void set_table_namer(std::function<std::string(std::uint32_t)> namer) { table_namer_ = std::move(namer); }
  /// Asked in every wait, about twenty times a second; true ends the wait with Interrupted.
  void set_interrupt(std::function<bool()> interrupt) { interrupt_ = std::move(interrupt); }
  /// One short spin while a peer finishes something small: a pause at first, then a yield.
  void relax(int spins) const;

 protected:
  Engine(SessionOptions options, int rank, std::vector<Place> places, std::shared_ptr<Segment> control_memory,
         Hooks* hooks);
  void announce_alive();
  void mark_dead(int rank);
  /// The rank's process has ended, cleanly or not.
  void mark_gone(int rank);

  /// Makes memory that the other ranks of this host can fetch under `id`. Called by local rank 0 alone, before a
  /// barrier.
  [[nodiscard]] virtual std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes,
                                                              bool reserve_only) = 0;
  [[nodiscard]] virtual std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) = 0;

  // What a world of several hosts does by messages. Called only where one_host() is false.
  virtual void remote_broadcast(void* data, std::size_t bytes, int root);
  virtual void remote_all_reduce(DType dtype, void* data, std::size_t count, Reduce op);
  virtual void remote_all_gather(const void* in, void* out, std::size_t bytes);
  virtual void remote_reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op);
  virtual void remote_send(int to, std::uint32_t tag, const void* data, std::size_t bytes);
  virtual void remote_receive(int from, std::uint32_t tag, void* data, std::size_t bytes);

  /// The rank has left its world; `clean` where all others of this host have too, and nobody died.
  virtual void after_leave(bool /*clean*/) {}

  std::atomic<bool> killed_{false};
  std::unique_ptr<Messenger> messenger_;  // made by engines that span hosts, and stopped before they end

 private:
  class Turn;
  class Stall;
  struct Inbox;
  class Stream;
  class Seated;

  std::uint64_t arrive();
  void await(std::uint64_t step, Call call);
  void begin(Call call, std::uint64_t detail, std::uint64_t bytes);
  bool meet(Call call, std::uint64_t detail, std::uint64_t bytes);
  // What a rank came for, told to those of other hosts.
  struct Purpose {
    std::uint64_t what = 0;
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;
    std::uint64_t failed = 0;  ///< it knows of an order failure
  };
  std::vector<Purpose> meet_hosts(const Purpose& mine);
  void leave_hosts();
  std::vector<std::uint64_t> agree(Call call, std::uint64_t detail, std::uint64_t bytes, std::uint64_t number = 0);
  void compare(int rank, std::uint64_t theirs, std::uint64_t their_bytes, std::uint64_t mine, std::uint64_t my_bytes);
  void reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail);
  void reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor, std::uint64_t detail);
  void sleep_until_ready(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);
  void tell_other_hosts() const;

  SessionOptions options_;
  int rank_;
  std::vector<Place> places_;
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
  HandOver hand_over_;  // of the thread that is in a collective
  bool shares_cores_;
  std::function<std::string(std::uint32_t)> table_namer_;
  std::function<bool()> interrupt_;
  std::unique_ptr<Inbox> inbox_;
  std::uint64_t id_;
  std::uint64_t segments_ = 0;
};

/// Shows in reports what the caller is doing, until it goes out of scope.
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

/// Work that another thread does for this rank counts as one more thread of it, from the moment it is handed over: a
/// rank whose caller waits for that thread is stuck only if the thread is.
class Engagement {
 public:
  explicit Engagement(const Engine& engine);
  ~Engagement();
  Engagement(Engagement&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Engagement& operator=(Engagement&&) = delete;
  /// Called by the thread that does the work, so that it is not counted twice.
  static void this_thread_is_engaged(bool engaged);

 private:
  RankSlot* slot_;
};

}  // namespace pleiad
