// The shard map of a table: the consecutive ranges of elements or rows that each host's servers own. The ranges of this
// host are Shards; the others are reached by messages, in chunks of whole stripes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/rpc_transport.h"
#include "table/combiner.h"
#include "table/context.h"
#include "table/request.h"
#include "table/shard.h"

namespace pleiad {

class ShardMap {
 public:
  /// Collective. The values start as zero.
  ShardMap(TableContext& context, std::uint32_t id, const TableSpec& spec, const std::string& name);

  /// Returns the shard if this host holds the whole table, otherwise null.
  [[nodiscard]] Shard* whole() const { return whole_; }
  [[nodiscard]] bool rounds() const { return rounds_; }
  /// Returns an owner of the memory of the shard that holds the whole table.
  [[nodiscard]] std::shared_ptr<void> memory() const { return entries_.empty() ? nullptr : entries_[0].shard; }
  /// Collective: sets the initial values of `init_rank`, if there are any, and opens the table to other hosts.
  void start(const TableSpec& spec, ConstView initial);
  /// Returns the number of this host's stripes whose writer died during a write.
  [[nodiscard]] std::uint64_t torn() const;
  /// Returns the number of adds that came too late for their round.
  [[nodiscard]] std::uint64_t dropped() const {
    return engine_.world().one_host() ? whole_->storage().head().dropped_adds.load() : dropped_.load();
  }
  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  /// Backup workers: tells the shards of this host that these rounds are closed. Later calls to other hosts tell
  /// theirs.
  void close_rounds(std::uint64_t closed);

  /// Returns the number of chunks of this rank's adds that another rank sent along with its own.
  [[nodiscard]] std::uint64_t combined() const { return combiner_ == nullptr ? 0 : combiner_->combined(); }

  /// Calls `work` with each shard of this host and its range of the table's rows (a matrix) or elements (an array).
  void each_local_shard(FunctionRef<void(Shard&, ShardRange)> work) const;

  // The same operations as those of Shard; elements and rows are counted from the start of the table.
  void add(const Requester& requester, const Rates& rates, Shard::DeltaOf delta_of,
           std::span<const ElementRange> kept = {});
  void get(Shard::Take take);
  void add_get(const Requester& requester, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take,
               std::span<const ElementRange> kept = {});
  void add_rows(const Requester& requester, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void get_rows(std::span<const RowId> ids, char* out);

  // The following functions are in sparse_shard_map.cc.
  /// Passes the rows that have changed since `seen` to `take`, and updates `seen`. It has an entry for each stripe of
  /// each shard, as in Shard::take_changed; initially it is empty.
  void take_changed(std::vector<std::vector<std::uint64_t>>& seen, FunctionRef<void(RowId id, const char* row)> take);
  /// Sparse tables: returns the number of rows.
  [[nodiscard]] std::int64_t rows();
  /// Sparse tables: drops the rows that may be dropped, and returns their number.
  std::int64_t evict();
  /// Sparse tables: returns true if this host holds the row.
  [[nodiscard]] bool is_here(RowId id) const { return entries_[entry_of(id)].shard != nullptr; }

 private:
  struct ShardEntry {
    ShardRange range;
    int host = 0;
    std::uint32_t number = 0;  ///< index among its host's shards of this table
    std::int64_t first = 0;    ///< first element
    Geometry geometry{};
    std::int64_t chunk_stripes = 1;  ///< stripes per chunk, for shards of other hosts
    std::size_t chunks_before = 0;   ///< number of chunks of other hosts in the preceding entries
    std::shared_ptr<Shard> shard{};  ///< null for shards of other hosts
  };
  struct Chunk {
    const ShardEntry* entry = nullptr;
    StripeRange stripes;
    std::int64_t begin = 0;  ///< elements of the shard
    std::int64_t end = 0;
  };
  struct RowChunk {
    const ShardEntry* entry = nullptr;
    std::span<const std::size_t> positions;  ///< positions of the rows in the caller's list
  };

  /// A call on the whole table, with the data to exchange with other hosts.
  struct WholeTableCall {
    TableOperation operation;
    const Requester& requester;
    const Rates& rates;
    Shard::DeltaOf delta_of;
    Shard::Take take;
    FunctionRef<void(Shard& shard, std::int64_t first)> local;  ///< runs the call on a shard of this host
    std::span<const ElementRange> kept = {};                    ///< elements of the table that the rule does not see
  };

  void assign_shards(const TableSpec& spec);
  void set_up_combiner(const TableSpec& spec);
  void exchange(const WholeTableCall& call);
  void exchange_combined(const WholeTableCall& call);
  void exchange_chunks(const WholeTableCall& call, std::span<const std::size_t> chunks, Combiner::Call* combined,
                       FunctionRef<void()> meanwhile);
  void run_local(const WholeTableCall& call) const;
  /// Calls put(element of the chunk, delta, count) for each stripe.
  void each_delta(const WholeTableCall& call, const Chunk& chunk,
                  FunctionRef<void(std::int64_t, const char*, std::size_t)> put) const;
  void assign_sparse_shards(const TableSpec& spec);
  void check_row_length(std::int64_t bytes) const;
  /// The kept elements of a chunk, counted from the first element of its piece.
  [[nodiscard]] static std::vector<ElementRange> kept_in(const Chunk& chunk, std::span<const ElementRange> kept);
  struct Extent {
    std::int64_t rows = 0;
    std::int64_t stripes = 0;  ///< number of stripes in use
  };
  /// Returns the extent of each shard.
  [[nodiscard]] std::vector<Extent> extents();
  /// Sends one request without a body to each shard of another host.
  void request_each(TableOperation operation, Call call,
                    FunctionRef<void(std::size_t entry, std::span<const char>)> take,
                    FunctionRef<void(std::size_t entry, Shard&)> local);
  template <class Local>
  void exchange_rows(TableOperation operation, const Requester& requester, const Rates& rates,
                     std::span<const RowId> ids, const char* delta, char* out, Local&& local);
  [[nodiscard]] Chunk chunk(std::size_t index) const;
  [[nodiscard]] TableHead head_for(const ShardEntry& entry, const Requester& requester, const Rates& rates) const;
  [[nodiscard]] std::vector<int> carriers() const;
  [[nodiscard]] std::size_t entry_of(RowId id) const;

  TableContext& context_;
  Engine& engine_;
  std::uint32_t id_;
  DType dtype_;
  std::int64_t width_;
  std::int64_t cols_;
  bool rounds_;
  bool sums_first_;  ///< deltas of a repeated row must be summed before the rule sees them
  std::vector<ShardEntry> entries_;
  std::vector<std::size_t> entry_of_server_;    ///< for a sparse table
  std::vector<std::shared_ptr<Shard>> shards_;  ///< of this host, by their index
  std::size_t chunks_ = 0;                      ///< number of chunks of other hosts
  std::atomic<std::uint64_t> closed_{0};
  std::atomic<std::uint64_t> dropped_{0};
  Shard* whole_ = nullptr;
  std::unique_ptr<Combiner> combiner_;  ///< set if ranks of this host may combine their adds
};

}  // namespace pleiad
