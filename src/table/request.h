// What tables ask of each other over the wire.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/control.h"
#include "updater/updater.h"

namespace pleiad {

enum class TableOperation : std::uint32_t {
  add = 1,   ///< stripes [first, first + count): their deltas follow
  get,       ///< answered by the values
  add_get,   ///< both, each stripe under one lock
  add_rows,  ///< `count` row ids follow, then their deltas
  get_rows,  ///< `count` row ids follow; answered by the rows
  begin,     ///< to the clocks' home: `call` of `table` wants to start; answered when it may
  end,       ///< it is complete
  entry,     ///< answered by the ledger's entry of call `first`
  extent,    ///< of rows: answered by how many there are, and how many stripes hold something
  changed,   ///< stripes [first, first + count) and what was seen of each follow; answered by that and changed rows
  evict,     ///< rows that may go are dropped; answered by their number
  settle,    ///< to the clocks' home: Clock::settle; answered by its number
};

/// Stands at the beginning of every request.
struct TableHead {
  std::uint32_t table = 0;
  std::uint32_t shard = 0;  ///< which of the table's shards on that host
  std::int32_t worker = 0;
  Call call = Call::idle;
  std::uint64_t round = 0;
  std::uint64_t closed = 0;  ///< backup workers: the last round that the asker knows to be closed
  Rates rates;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t kept = 0;  ///< add, add_get: so many ranges of the shard's elements stand before the deltas
};
static_assert(std::is_trivially_copyable_v<TableHead> && sizeof(TableHead) % 8 == 0);

/// Backup workers: the answer to begin.
struct BackupTurn {
  std::uint64_t round = 0;  ///< that an add belongs to
  std::uint64_t closed = 0;
  std::uint64_t dropped = 0;
};

/// Which rank holds the clocks and the ledger of a session on several hosts.
inline constexpr int kHome = 0;

}  // namespace pleiad
