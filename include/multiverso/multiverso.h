// Multiverso's API for C++, over Pleiad. Tables: multiverso/table/.
//
// Nothing here throws. Where the original would exit, these leave the outputs alone, log to stderr and set the error
// that pleiad_last_error() returns; functions that return a number return -1. Any thread may call them, collectives one
// at a time.
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

/// See MV_Init of multiverso/c_api.h, which opens the same session.
PLEIAD_API void MV_Init(int* argc = nullptr, char* argv[] = nullptr);
/// Collective: flushes this worker's asynchronous adds, then waits for all ranks.
PLEIAD_API void MV_Barrier();
/// Collective. MPI stays as it is until the process exits, whatever `finalize_net` says, so another MV_Init may follow.
PLEIAD_API void MV_ShutDown(bool finalize_net = true);

PLEIAD_API int MV_Rank();
PLEIAD_API int MV_Size();
PLEIAD_API int MV_NumWorkers();
PLEIAD_API int MV_NumServers();
/// -1 for a rank that is none.
PLEIAD_API int MV_WorkerId();
PLEIAD_API int MV_ServerId();
PLEIAD_API int MV_WorkerIdToRank(int worker_id);
PLEIAD_API int MV_ServerIdToRank(int server_id);

/// Sets a flag as argv would, for every MV_Init from now on; argv wins. `sync`, `updater_type`, `updater.NAME` and
/// `table.NAME` count for the tables that the present session creates from now on, too. An unknown flag changes
/// nothing.
template <typename T>
void MV_SetFlag(const std::string& name, const T& value) {
  detail::SetFlag(name.c_str(), detail::TextOf(value).c_str());
}

/// Collective: all ranks create the same tables in the same order. Null on a rank that is no worker, and on failure.
/// Deleting the result is allowed at any time, and leaves the table's numbers to the others.
template <typename OptionType>
typename OptionType::WorkerTableType* MV_CreateTable(const OptionType& option) {
  auto* table = new typename OptionType::WorkerTableType(option);
  if (table->created() && MV_WorkerId() >= 0) return table;
  delete table;
  return nullptr;
}

/// Collective: the sum over all ranks, in place, with the same bits on every rank. For float, double and int.
template <typename ElemType>
void MV_Aggregate(ElemType* data, int size) {
  detail::Aggregate(data, size, detail::TypeOf<ElemType>());
}

/// A launcher (mpirun, srun) starts the world and says who is where: these fail with -1 and change nothing.
PLEIAD_API int MV_NetBind(int rank, char* endpoint);
PLEIAD_API int MV_NetConnect(int* ranks, char* endpoints[], int size);
/// Does nothing: MPI ends with the process.
PLEIAD_API void MV_NetFinalize();

}  // namespace multiverso
