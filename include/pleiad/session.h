// A session: a process's membership in a world of ranks. All tables and collectives belong to a session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "pleiad/api.h"
#include "pleiad/options.h"
#include "pleiad/table.h"
#include "pleiad/view.h"

namespace pleiad {

class SessionCore;

/// mean is the sum divided by the number of ranks, for floating-point types only.
enum class ReduceOp : std::uint8_t { sum, min, max, mean };

/// Counters of this rank's collective calls.
struct CollectiveStats {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;  ///< including the time spent waiting
};

/// The roles and the hosts of the ranks of a world, and which of the ranks are alive. A rank, worker or server that
/// does not exist is an InvalidArgument.
class PLEIAD_API RankMap {
 public:
  explicit RankMap(const SessionCore& core) : core_(&core) {}
  [[nodiscard]] int worker_rank(int worker) const;
  [[nodiscard]] int server_rank(int server) const;
  [[nodiscard]] int host_of(int rank) const;
  [[nodiscard]] std::string host_name(int rank) const;
  /// Returns false for a rank that is known to have died.
  [[nodiscard]] bool alive(int rank) const;

 private:
  const SessionCore* core_;
};

/// This process as a rank of a world: creates tables, takes part in collectives and sends messages.
class PLEIAD_API Session {
 public:
  /// Joins the world that the launcher made (mpirun, srun), or makes a world of one rank if there is no launcher.
  /// Environment variables (PLEIAD_TIMEOUT and so on) override `options`. A process takes part in one launched world at
  /// a time. `interrupt` is that of set_interrupt and can end the wait of this call too.
  [[nodiscard]] static Session start(SessionOptions options = {}, std::function<bool()> interrupt = {});
  /// Ends the session. If shutdown() was not called, it does not wait for the other ranks, which treat this rank as
  /// dead.
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int workers() const;
  [[nodiscard]] int servers() const;
  /// worker_id() and server_id() return -1 if this rank is not a worker or not a server.
  [[nodiscard]] int worker_id() const;
  [[nodiscard]] int server_id() const;
  [[nodiscard]] int hosts() const;
  /// The session must outlive the map.
  [[nodiscard]] RankMap ranks() const { return RankMap(*core_); }
  /// Returns "solo", "inproc", "local" or "mpi".
  [[nodiscard]] std::string engine() const;
  [[nodiscard]] const SessionOptions& options() const;

  /// Collective: all ranks create the same tables in the same order. The table starts with the `initial` values of rank
  /// options.init_rank, or with zeros if these are empty. Values that other ranks pass are checked for size and type,
  /// but not used. When the call returns, all ranks see the initial values.
  [[nodiscard]] ArrayTable create_array(std::int64_t size, const TableOptions& options = {}, ConstView initial = {});
  [[nodiscard]] MatrixTable create_matrix(std::int64_t rows, std::int64_t cols, const TableOptions& options = {},
                                          ConstView initial = {});
  /// Collective. The table starts without rows.
  [[nodiscard]] SparseTable create_sparse(std::int64_t cols, const TableOptions& options = {});
  /// Collective. Each key has `width` values.
  [[nodiscard]] KeyValueTable create_key_value(std::int64_t width = 1, const TableOptions& options = {});

  /// Collective counterpart to a create call of the other ranks, for a caller that finds a mistake in its own
  /// arguments: all ranks throw an InvalidArgument with the text `why`.
  [[noreturn]] void refuse_table(const std::string& why);

  /// Completes this worker's asynchronous adds, then blocks until every rank has arrived. Throws the error of an
  /// earlier call on a table if it has not been thrown yet.
  void barrier();
  /// In place. The result is bit-identical on all ranks. On one host it is reduced in rank order; between hosts MPI
  /// chooses the order. Ranks that call with different tags get an OrderError, so that calls of the same shape for
  /// different purposes are not mixed up.
  void all_reduce(View data, ReduceOp op = ReduceOp::sum, std::uint32_t tag = 0);
  void broadcast(View data, int root = 0);
  /// Requires out.count == size() * in.count.
  void all_gather(ConstView in, View out);
  /// Requires in.count == size() * out.count. This rank receives its block of the reduced data.
  void reduce_scatter(ConstView in, View out, ReduceOp op = ReduceOp::sum);
  /// Tags are below 0x40000000.
  void send(int to, std::uint32_t tag, ConstView data);
  void receive(int from, std::uint32_t tag, View data);

  /// Returns counters and timings as a small table of text.
  [[nodiscard]] std::string stats() const;
  [[nodiscard]] CollectiveStats collective_stats() const;
  /// Returns what every rank of this host is doing now.
  [[nodiscard]] std::string report() const;
  /// Sets a function that every wait calls about twenty times a second; if it returns true, the wait throws
  /// Interrupted.
  void set_interrupt(std::function<bool()> interrupt);

  /// Collective. Completes this worker's adds, lets the others continue without this worker, and waits until all ranks
  /// have called it. Tables cannot be used afterwards. Another start may follow.
  void shutdown();
  /// For a rank that is about to leave because of an error. Collectives and synchronous calls of the other ranks of
  /// this host that fail because this rank leaves throw an OrderError with the text `why`. On other hosts they may
  /// report only that the rank died. If several ranks call this, the first text is used for the whole world; returns
  /// that text.
  std::string give_up(const std::string& why);

  explicit Session(std::shared_ptr<SessionCore> core);
  /// For Pleiad's own sources.
  [[nodiscard]] SessionCore& core() const { return *core_; }

 private:
  std::shared_ptr<SessionCore> core_;
};

/// Runs body(session) on `ranks` threads, each a rank of one world inside this process, and waits for all of them.
/// Rethrows the exception of the lowest rank that failed.
PLEIAD_API void run_cluster(int ranks, const std::function<void(Session&)>& body, SessionOptions options = {});

}  // namespace pleiad
