// The requests that tables send to each other across hosts.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/control.h"
#include "updater/updater.h"

namespace pleiad {

enum class TableOperation : std::uint32_t {
  add = 1,   ///< the deltas of stripes [first, first + count) follow
  get,       ///< reply: the values
  add_get,   ///< add and get, each stripe under one lock
  add_rows,  ///< `count` row ids follow, then their deltas
  get_rows,  ///< `count` row ids follow; reply: the rows
  begin,     ///< to the home of the clocks: `call` on `table` wants to start; reply when it may
  end,       ///< to the home of the clocks: the call is complete
  entry,     ///< reply: the ledger's entry of call `first`
  extent,    ///< tables with rows; reply: the number of rows and of stripes in use
  /// stripes [first, first + count) and the change count seen for each follow; reply: the new counts and the changed
  /// rows
  changed,
  evict,   ///< drops the rows that may be dropped; reply: their number
  settle,  ///< to the home of the clocks: Clock::settle; reply: its result
};

/// The header of every request.
struct TableHead {
  std::uint32_t table = 0;
  std::uint32_t shard = 0;  ///< index of the shard among the table's shards on that host
  std::int32_t worker = 0;
  Call call = Call::idle;
  std::uint64_t round = 0;
  std::uint64_t closed = 0;  ///< backup workers: the last round that the requester knows to be closed
  Rates rates;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t kept = 0;  ///< add, add_get: number of ranges of the shard's elements that precede the deltas
};
static_assert(std::is_trivially_copyable_v<TableHead> && sizeof(TableHead) % 8 == 0);

/// Backup workers: the reply to begin.
struct BackupTurn {
  std::uint64_t round = 0;  ///< the round that an add belongs to
  std::uint64_t closed = 0;
  std::uint64_t dropped = 0;
};

}  // namespace pleiad
