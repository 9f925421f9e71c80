// A table cut by owner: the runs of elements or rows that each host's servers hold. What this host holds is a Shard;
// the rest is reached by messages, in chunks of whole stripes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/messenger.h"
#include "table/combiner.h"
#include "table/context.h"
#include "table/request.h"
#include "table/shard.h"

namespace pleiad {

class Pieces {
 public:
  /// Collective. The values are zero.
  Pieces(TableContext& context, std::uint32_t id, const TableSpec& spec, const std::string& name);

  /// The shard where this host holds the whole table, else null.
  [[nodiscard]] Shard* whole() const { return whole_; }
  [[nodiscard]] bool rounds() const { return rounds_; }
  /// Owns the memory of the shard that holds the whole table.
  [[nodiscard]] std::shared_ptr<void> memory() const { return pieces_.empty() ? nullptr : pieces_[0].shard; }
  /// Collective: puts the values of `init_rank` there, if it has any, and lets the other hosts in.
  void start(const TableSpec& spec, ConstView initial);
  /// Stripes of this host whose holder died.
  [[nodiscard]] std::uint64_t torn() const;
  /// Adds that came too late for their round.
  [[nodiscard]] std::uint64_t dropped() const {
    return engine_.one_host() ? whole_->storage().head().dropped_adds.load() : dropped_.load();
  }
  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  /// Backup workers: the shards here know from now on that these rounds are closed, and so do those that are called.
  void close_rounds(std::uint64_t closed);

  /// Parts of this rank's adds that a neighbour sent along with its own.
  [[nodiscard]] std::uint64_t combined() const { return combiner_ == nullptr ? 0 : combiner_->combined(); }

  /// What this host holds: each shard, and its run of the table's rows (a matrix) or elements (an array).
  void each_here(FunctionRef<void(Shard&, ShardRange)> work) const;

  // As a Shard has them; elements and rows are counted from the table's first.
  void add(const Asker& asker, const Rates& rates, Shard::DeltaOf delta_of, std::span<const ElementRange> kept = {});
  void get(Shard::Take take);
  void add_get(const Asker& asker, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take,
               std::span<const ElementRange> kept = {});
  void add_rows(const Asker& asker, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void get_rows(std::span<const RowId> ids, char* out);

  // sparse_pieces.cc
  /// Takes the rows that have changed since `seen`, which then says so of them: of each piece its stripes, as
  /// Shard::take_changed has them. Empty at first.
  void take_changed(std::vector<std::vector<std::uint64_t>>& seen, FunctionRef<void(RowId id, const char* row)> take);
  /// Of a sparse table: how many rows there are.
  [[nodiscard]] std::int64_t rows();
  /// Of a sparse table: drops the rows that may go, and says how many went.
  std::int64_t evict();
  /// Of a sparse table: whether this host is to hold the row.
  [[nodiscard]] bool is_here(RowId id) const { return pieces_[piece_of(id)].shard != nullptr; }

 private:
  struct Piece {
    ShardRange range;
    int host = 0;
    std::uint32_t number = 0;  ///< among its host's shards of this table
    std::int64_t first = 0;    ///< element
    Geometry geometry{};
    std::int64_t chunk_stripes = 1;  ///< of another host's piece
    std::size_t chunks_before = 0;   ///< chunks of the pieces of other hosts that stand before
    std::shared_ptr<Shard> shard{};  ///< null on other hosts
  };
  struct Chunk {
    const Piece* piece = nullptr;
    StripeRange stripes;
    std::int64_t begin = 0;  ///< elements of the piece
    std::int64_t end = 0;
  };
  struct RowChunk {
    const Piece* piece = nullptr;
    std::span<const std::size_t> places;  ///< where the rows stand in the caller's list
  };

  /// What goes to other hosts, and how.
  struct Whole {
    TableOperation operation;
    const Asker& asker;
    const Rates& rates;
    Shard::DeltaOf delta_of;
    Shard::Take take;
    FunctionRef<void(Shard& shard, std::int64_t first)> local;  ///< for what lies here
    std::span<const ElementRange> kept = {};                    ///< elements of the table that the rule does not see
  };

  void cut(const TableSpec& spec);
  void set_up_combiner(const TableSpec& spec);
  void exchange(const Whole& call);
  void exchange_combined(const Whole& call);
  void exchange_chunks(const Whole& call, std::span<const std::size_t> chunks, Combiner::Call* combined,
                       FunctionRef<void()> meanwhile);
  void local_part(const Whole& call) const;
  /// put(element of the chunk, delta, count) for each stripe.
  void each_delta(const Whole& call, const Chunk& chunk,
                  FunctionRef<void(std::int64_t, const char*, std::size_t)> put) const;
  void cut_sparse(const TableSpec& spec);
  void check_row_length(std::int64_t bytes) const;
  /// The kept elements of a chunk, counted from the first element of its piece.
  [[nodiscard]] static std::vector<ElementRange> kept_in(const Chunk& chunk, std::span<const ElementRange> kept);
  struct Extent {
    std::int64_t rows = 0;
    std::int64_t stripes = 0;  ///< that hold something
  };
  /// Of each piece.
  [[nodiscard]] std::vector<Extent> extents();
  /// Asks the other hosts' pieces, each by one request without a body.
  void ask_each(TableOperation operation, Call call, FunctionRef<void(std::size_t piece, std::span<const char>)> take,
                FunctionRef<void(std::size_t piece, Shard&)> local);
  template <class Local>
  void exchange_rows(TableOperation operation, const Asker& asker, const Rates& rates, std::span<const RowId> ids,
                     const char* delta, char* out, Local&& local);
  [[nodiscard]] Chunk chunk(std::size_t index) const;
  [[nodiscard]] TableHead head_for(const Piece& piece, const Asker& asker, const Rates& rates) const;
  [[nodiscard]] std::vector<int> carriers() const;
  [[nodiscard]] std::size_t piece_of(RowId id) const;

  TableContext& context_;
  Engine& engine_;
  std::uint32_t id_;
  DType dtype_;
  std::int64_t width_;
  std::int64_t cols_;
  bool rounds_;
  bool sums_first_;  ///< of a row named twice the deltas must be summed before the rule sees them
  std::vector<Piece> pieces_;
  std::vector<std::size_t> piece_of_server_;    ///< of a sparse table
  std::vector<std::shared_ptr<Shard>> shards_;  ///< of this host, by their number
  std::size_t chunks_ = 0;                      ///< of other hosts
  std::atomic<std::uint64_t> closed_{0};
  std::atomic<std::uint64_t> dropped_{0};
  Shard* whole_ = nullptr;
  std::unique_ptr<Combiner> combiner_;  ///< where ranks of this host may send their adds together
};

}  // namespace pleiad
