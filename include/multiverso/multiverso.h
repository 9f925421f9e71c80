// Multiverso's API for C++ on top of Pleiad. The tables are in multiverso/table/.
//
// Nothing here throws. Where the original would exit, these functions leave the outputs unchanged, log to stderr and
// set the error that pleiad_last_error() returns; functions that return an integer return -1. Any thread may call them,
// but only one at a time may call a collective.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "multiverso/table_interface.h"
#include "pleiad/api.h"
#include "pleiad/pleiad.h"

namespace multiverso {

namespace detail {

PLEIAD_API void SetFlag(const char* name, const char* value);
PLEIAD_API void Aggregate(void* data, std::int64_t count, int dtype);

inline std::string TextOf(bool value) { return value ? "true" : "false"; }
inline std::string TextOf(const char* value) { return value; }
inline std::string TextOf(const std::string& value) { return value; }
inline std::string TextOf(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}
inline std::string TextOf(int value) { return std::to_string(value); }

}  // namespace detail

/// Opens the session, as MV_Init of multiverso/c_api.h does.
PLEIAD_API void MV_Init(int* argc = nullptr, char* argv[] = nullptr);
/// Collective: completes this worker's asynchronous adds, then blocks until every rank has arrived.
PLEIAD_API void MV_Barrier();
/// Collective. MPI stays initialised until the process exits, whatever `finalize_net` is, so another MV_Init may
/// follow.
PLEIAD_API void MV_ShutDown(bool finalize_net = true);

PLEIAD_API int MV_Rank();
PLEIAD_API int MV_Size();
PLEIAD_API int MV_NumWorkers();
PLEIAD_API int MV_NumServers();
/// MV_WorkerId and MV_ServerId return -1 if this rank is not a worker or not a server.
PLEIAD_API int MV_WorkerId();
PLEIAD_API int MV_ServerId();
PLEIAD_API int MV_WorkerIdToRank(int worker_id);
PLEIAD_API int MV_ServerIdToRank(int server_id);

/// Sets a flag, as argv would, for every later MV_Init; argv takes precedence. `sync`, `updater_type`, `updater.NAME`
/// and `table.NAME` also apply to tables that the current session creates from now on. An unknown flag changes nothing.
template <typename T>
void MV_SetFlag(const std::string& name, const T& value) {
  detail::SetFlag(name.c_str(), detail::TextOf(value).c_str());
}

/// Collective: all ranks create the same tables in the same order. Returns null on a rank that is not a worker, and on
/// failure. The caller may delete the result at any time; the table's values stay available to the other ranks.
template <typename OptionType>
typename OptionType::WorkerTableType* MV_CreateTable(const OptionType& option) {
  auto* table = new typename OptionType::WorkerTableType(option);
  if (table->created() && MV_WorkerId() >= 0) return table;
  delete table;
  return nullptr;
}

/// Collective: computes the sum over all ranks in place, bit-identical on every rank. For float, double and int.
template <typename ElemType>
void MV_Aggregate(ElemType* data, int size) {
  detail::Aggregate(data, size, detail::TypeOf<ElemType>());
}

/// A launcher (mpirun, srun) starts the world and assigns the ranks. These functions fail with -1 and change nothing.
PLEIAD_API int MV_NetBind(int rank, char* endpoint);
PLEIAD_API int MV_NetConnect(int* ranks, char* endpoints[], int size);
/// Does nothing: MPI ends with the process.
PLEIAD_API void MV_NetFinalize();

}  // namespace multiverso
