// How Multiverso distributes the keys and values of a call over the servers. Pleiad has its own shard map and does not
// use this code. It exists for programs and tests that call Partition.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "multiverso/blob.h"
#include "multiverso/message.h"
#include "multiverso/multiverso.h"
#include "multiverso/util/log.h"

namespace multiverso {

/// The blobs for each server.
typedef std::unordered_map<int, std::vector<Blob>> Partitions;

namespace detail {

/// Splits `count` items into equal consecutive runs over the servers; the last one also takes the remainder. Server s
/// has [first(s), last(s)).
struct EqualRuns {
  EqualRuns(std::size_t items, int n) : count(items), servers(n > 0 ? n : 1) {}
  std::size_t length() const {
    const std::size_t each = count / static_cast<std::size_t>(servers);
    return each > 0 ? each : 1;
  }
  std::size_t first(int s) const { return at_most(length() * static_cast<std::size_t>(s)); }
  std::size_t last(int s) const {
    return s + 1 == servers ? count : at_most(length() * static_cast<std::size_t>(s + 1));
  }
  int server_of(std::size_t item) const {
    const std::size_t s = item / length();
    return s < static_cast<std::size_t>(servers) ? static_cast<int>(s) : servers - 1;
  }
  std::size_t at_most(std::size_t item) const { return item < count ? item : count; }

  std::size_t count;
  int servers;
};

/// Copies a part of a blob into a new blob.
inline Blob PartOf(const Blob& blob, std::size_t first, std::size_t bytes) {
  return Blob(static_cast<const void*>(blob.data() + first), bytes);
}

/// `kv` holds the key -1, the values of the whole table (optional) and the options (optional).
inline int PartitionWhole(const std::vector<Blob>& kv, std::size_t items, std::size_t item_bytes, Partitions* out) {
  const EqualRuns runs(items, MV_NumServers());
  for (int s = 0; s < runs.servers; ++s) {
    if (runs.first(s) == runs.last(s)) continue;
    std::vector<Blob>& part = (*out)[s];
    part.push_back(kv[0]);
    if (kv.size() > 1) {
      CHECK(kv[1].size() == items * item_bytes);
      part.push_back(PartOf(kv[1], runs.first(s) * item_bytes, (runs.last(s) - runs.first(s)) * item_bytes));
    }
    if (kv.size() > 2) part.push_back(kv[2]);
  }
  return static_cast<int>(out->size());
}

/// `kv` holds row ids, their rows (optional) and the options (optional).
inline int PartitionRows(const std::vector<Blob>& kv, std::size_t rows, std::size_t row_bytes, Partitions* out) {
  const EqualRuns runs(rows, MV_NumServers());
  std::unordered_map<int, std::vector<std::size_t>> of_server;
  for (std::size_t i = 0; i < kv[0].size<integer_t>(); ++i) {
    const integer_t id = kv[0].As<integer_t>(i);
    CHECK(id >= 0 && static_cast<std::size_t>(id) < rows);
    of_server[runs.server_of(static_cast<std::size_t>(id))].push_back(i);
  }
  for (const auto& entry : of_server) {
    const std::vector<std::size_t>& positions = entry.second;
    std::vector<Blob>& part = (*out)[entry.first];
    part.push_back(Blob(positions.size() * sizeof(integer_t)));
    if (kv.size() > 1) part.push_back(Blob(positions.size() * row_bytes));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      part[0].As<integer_t>(i) = kv[0].As<integer_t>(positions[i]);
      if (kv.size() > 1) {
        std::memcpy(part[1].data() + i * row_bytes, kv[1].data() + positions[i] * row_bytes, row_bytes);
      }
    }
    if (kv.size() > 2) part.push_back(kv[2]);
  }
  return static_cast<int>(out->size());
}

}  // namespace detail
}  // namespace multiverso
