// Multiverso's table factory, another name for MV_CreateTable.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "multiverso/multiverso.h"
#include "multiverso/table_interface.h"

namespace multiverso {
namespace table_factory {

namespace detail {
struct ServerTables {
  std::mutex mutex;
  std::vector<std::unique_ptr<ServerTable>> tables;
  static ServerTables& the() {
    static ServerTables tables;
    return tables;
  }
};
}  // namespace detail

/// Keeps the object until FreeServerTables. The object has no function: see ServerTable.
inline void PushServerTable(ServerTable* table) {
  const std::lock_guard<std::mutex> lock(detail::ServerTables::the().mutex);
  detail::ServerTables::the().tables.emplace_back(table);
}
inline void FreeServerTables() {
  const std::lock_guard<std::mutex> lock(detail::ServerTables::the().mutex);
  detail::ServerTables::the().tables.clear();
}

/// Collective: see MV_CreateTable.
template <typename OptionType>
typename OptionType::WorkerTableType* CreateTable(const OptionType& option) {
  return MV_CreateTable(option);
}

}  // namespace table_factory
}  // namespace multiverso
