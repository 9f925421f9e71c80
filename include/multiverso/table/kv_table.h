// A map from keys to values, shared by all workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "multiverso/multiverso.h"
#include "multiverso/table/partition.h"
#include "multiverso/table_interface.h"
#include "multiverso/util/log.h"
#include "pleiad/api.h"

namespace multiverso {

template <typename Key, typename Val>
struct KVTableOption;

namespace detail {

/// Maps a value type to its pleiad_dtype.
template <typename T>
constexpr int ValueTypeOf() {
  static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value ||
                    (std::is_integral<T>::value && std::is_signed<T>::value && (sizeof(T) == 4 || sizeof(T) == 8)),
                "the values of a KVTable are float, double, or signed integers of 32 or 64 bits");
  return std::is_same<T, float>::value    ? PLEIAD_FLOAT32
         : std::is_same<T, double>::value ? PLEIAD_FLOAT64
         : sizeof(T) == 4                 ? PLEIAD_INT32
                                          : PLEIAD_INT64;
}

/// The non-template part of a KVWorkerTable. Functions log the error and return false on failure.
class PLEIAD_API KeyValue {
 public:
  explicit KeyValue(int dtype);
  ~KeyValue();
  KeyValue(const KeyValue&) = delete;
  KeyValue& operator=(const KeyValue&) = delete;

  bool created() const { return table_ != nullptr; }
  bool get(const std::int64_t* keys, std::size_t n, void* values) const;
  bool add(const std::int64_t* keys, std::size_t n, const void* values) const;

 private:
  pleiad_table* table_ = nullptr;
  int dtype_;
};

}  // namespace detail

/// Adds always sum, whatever the flag updater_type says. A key without adds has the value 0.
template <typename Key, typename Val>
class KVWorkerTable {
  static_assert(std::is_integral<Key>::value && sizeof(Key) <= 8, "the keys of a KVTable are integers");

 public:
  /// Collective, like MV_CreateTable.
  KVWorkerTable() : shared_(detail::ValueTypeOf<Val>()) {}
  explicit KVWorkerTable(const KVTableOption<Key, Val>&) : KVWorkerTable() {}

  bool created() const { return shared_.created(); }

  /// Fetches values into raw().
  void Get(Key key) { get(&key, 1); }
  void Get(const std::vector<Key>& keys) { get(keys.data(), keys.size()); }
  void Add(Key key, Val value) {
    const auto wide = static_cast<std::int64_t>(key);
    shared_.add(&wide, 1, &value);
  }
  void Add(const std::vector<Key>& keys, const std::vector<Val>& values) {
    CHECK(keys.size() == values.size());
    const std::vector<std::int64_t> wide(keys.begin(), keys.end());
    shared_.add(wide.data(), wide.size(), values.data());
  }

  /// Returns this worker's copy: the value of each key at its last Get.
  std::unordered_map<Key, Val>& raw() { return copy_; }

  /// `kv` holds the keys and their values (optional). Key k belongs to server k modulo the number of servers.
  int Partition(const std::vector<Blob>& kv, MsgType, Partitions* out) const {
    CHECK((kv.size() == 1 || kv.size() == 2) && out != nullptr);
    const int servers = MV_NumServers() > 0 ? MV_NumServers() : 1;
    std::unordered_map<int, std::vector<std::size_t>> of_server;
    for (std::size_t i = 0; i < kv[0].size<Key>(); ++i) {
      of_server[static_cast<int>(kv[0].As<Key>(i) % static_cast<Key>(servers))].push_back(i);
    }
    for (const auto& entry : of_server) {
      std::vector<Blob>& part = (*out)[entry.first];
      part.push_back(Blob(entry.second.size() * sizeof(Key)));
      if (kv.size() == 2) part.push_back(Blob(entry.second.size() * sizeof(Val)));
      for (std::size_t i = 0; i < entry.second.size(); ++i) {
        part[0].template As<Key>(i) = kv[0].As<Key>(entry.second[i]);
        if (kv.size() == 2) part[1].template As<Val>(i) = kv[1].As<Val>(entry.second[i]);
      }
    }
    return static_cast<int>(out->size());
  }

 private:
  void get(const Key* keys, std::size_t n) {
    const std::vector<std::int64_t> wide(keys, keys + n);
    std::vector<Val> values(n);
    if (!shared_.get(wide.data(), n, values.data())) return;
    for (std::size_t i = 0; i < n; ++i) copy_[keys[i]] = values[i];
  }

  detail::KeyValue shared_;
  std::unordered_map<Key, Val> copy_;
};

template <typename Key, typename Val>
class KVServerTable : public ServerTable {
 public:
  explicit KVServerTable(const KVTableOption<Key, Val>&) {}
};

template <typename Key, typename Val>
struct KVTableOption {
  typedef KVWorkerTable<Key, Val> WorkerTableType;  ///< the class that MV_CreateTable makes
  typedef KVServerTable<Key, Val> ServerTableType;
};

}  // namespace multiverso
