// A process's handle on its world. Everything hangs from it.
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

/// mean: the sum divided by the number of ranks, of floating-point numbers.
enum class ReduceOp : std::uint8_t { sum, min, max, mean };

/// What the collectives of a session have done for this rank.
struct CollectiveStats {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;  ///< waiting included
};

class PLEIAD_API Session {
 public:
  /// Joins the world that the launcher made (mpirun, srun), or makes a world of one where there is no launcher. Options
  /// come from the environment too: PLEIAD_TIMEOUT and so on, which win. A process takes part in one launched world at
  /// a time. For `interrupt` see set_interrupt: it can end this wait too.
  [[nodiscard]] static Session start(SessionOptions options = {}, std::function<bool()> interrupt = {});
  /// Ends the session without waiting for the others if shutdown was not called; they take that for a death.
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int workers() const;
  [[nodiscard]] int servers() const;
  /// -1 for a rank that is none.
  [[nodiscard]] int worker_id() const;
  [[nodiscard]] int server_id() const;
  [[nodiscard]] int worker_rank(int worker) const;
  [[nodiscard]] int server_rank(int server) const;
  [[nodiscard]] int hosts() const;
  [[nodiscard]] int host_of(int rank) const;
  [[nodiscard]] std::string host_name(int rank) const;
  /// False for a rank that died; ranks of other hosts count as alive.
  [[nodiscard]] bool alive(int rank) const;
  /// "solo", "inproc" or "mpi".
  [[nodiscard]] std::string engine() const;
  [[nodiscard]] const SessionOptions& options() const;

  /// Collective: all ranks create the same tables in the same order. The table starts with the `initial` values of
  /// options.init_rank, or with zeros where these are empty. Values that other ranks pass are checked for the table's
  /// size and type, and not used. When it returns, all ranks see the initial values.
  [[nodiscard]] ArrayTable create_array(std::int64_t size, const TableOptions& options = {}, ConstView initial = {});
  [[nodiscard]] MatrixTable create_matrix(std::int64_t rows, std::int64_t cols, const TableOptions& options = {},
                                          ConstView initial = {});
  /// Collective too. No row is there yet.
  [[nodiscard]] SparseTable create_sparse(std::int64_t cols, const TableOptions& options = {});
  /// `width` numbers a key.
  [[nodiscard]] KeyValueTable create_key_value(std::int64_t width = 1, const TableOptions& options = {});

  /// Takes part in the creation of a table that the other ranks are making, with an error in place of a table: all
  /// ranks throw an InvalidArgument with the text `why`. For callers that find a mistake in their arguments on one
  /// rank.
  [[noreturn]] void refuse_table(const std::string& why);

  /// Flushes this worker's asynchronous adds, then waits for all ranks. Throws the error of an earlier call on a table
  /// that nobody has received.
  void barrier();
  /// In place; sums in rank order, so all ranks get the same bits. Ranks that meet with different tags get an
  /// OrderError, so that equal calls for different purposes are not mixed up.
  void all_reduce(View data, ReduceOp op = ReduceOp::sum, std::uint32_t tag = 0);
  void broadcast(View data, int root = 0);
  /// out.count == size() * in.count.
  void all_gather(ConstView in, View out);
  /// in.count == size() * out.count: this rank gets its block of the reduced whole.
  void reduce_scatter(ConstView in, View out, ReduceOp op = ReduceOp::sum);
  void send(int to, std::uint32_t tag, ConstView data);
  void receive(int from, std::uint32_t tag, View data);

  /// Counters and timings, as a small table of text.
  [[nodiscard]] std::string stats() const;
  [[nodiscard]] CollectiveStats collective_stats() const;
  /// What every rank of this host is doing now.
  [[nodiscard]] std::string report() const;
  /// Asked about twenty times a second in every wait; true ends the wait with Interrupted.
  void set_interrupt(std::function<bool()> interrupt);

  /// Collective: flushes, lets the others go on without this worker, and waits until all have come here. Tables are
  /// gone afterwards. Another start may follow.
  void shutdown();
  /// Of a rank that is about to leave after an error: collectives and synchronous calls of this host's other ranks that
  /// this ends are OrderErrors with the words `why`; other hosts' may be errors of its death alone. Of several ranks'
  /// words the first are the world's; returns those.
  std::string give_up(const std::string& why);

  explicit Session(std::shared_ptr<SessionCore> core);
  /// What Pleiad's own files need.
  [[nodiscard]] SessionCore& core() const { return *core_; }

 private:
  std::shared_ptr<SessionCore> core_;
};

/// Runs body(session) on `ranks` threads, each a rank of one world inside this process, and waits for all. Rethrows the
/// first rank's exception.
PLEIAD_API void run_cluster(int ranks, const std::function<void(Session&)>& body, SessionOptions options = {});

}  // namespace pleiad
