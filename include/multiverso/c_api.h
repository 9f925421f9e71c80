/* Multiverso's API for C: the symbols of libmultiverso.
 *
 * Where the original would exit, these leave the outputs alone, log to stderr and set the error that
 * pleiad_last_error() of pleiad/pleiad.h returns; functions that return a number return -1. Any thread may call them.
 * In a process that was forked after MV_Init they all fail. A session that is still open when the process exits counts
 * as shut down for the other ranks, and mpirun takes the exit for a failure.
 */
#ifndef MULTIVERSO_C_API_H_
#define MULTIVERSO_C_API_H_

#include "pleiad/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A table, until MV_ShutDown; of a later session, or of none, it is refused. There is nothing to free. */
typedef void* TableHandler;

/* Joins the launcher's world (mpirun, srun), or makes a world of one. Takes flags of the form -name=value out of argv;
 * what is left keeps its order, argc becomes its number, and the flags taken stand behind it. Both may be null.
 *
 *   sync           true: synchronous tables (BSP)
 *   updater_type   default, sgd, momentum_sgd, adagrad, dcasgd or dcasgda
 *   ps_role        default, worker, server or none
 *   ma             true: model averaging, so no servers and no tables
 *   timeout, ...   the session's options, as docs/parameters.md lists them
 *   updater.NAME   the updater's options: -updater.momentum=0.9
 *   table.NAME     other options of the tables: -table.check_finite=true
 *
 * backup_worker_ratio, omp_threads, logtostderr, machine_file, port, allocator_type, allocator_alignment and
 * is_pipelined are taken and mean nothing here. Any other is left in argv, with a warning. A second MV_Init fails, and
 * the first session goes on; after MV_ShutDown another one may follow.
 *
 * Where MV_Init fails, it prints the error and returns. If the program then ends with code 0 and has not read the error
 * (pleiad_last_error(), pleiad_last_error_code(), pleiad_clear_error()), the process ends with code 1 instead. */
PLEIAD_API void MV_Init(int* argc, char* argv[]);
/* Collective: flushes, and waits until all have come here. */
PLEIAD_API void MV_ShutDown(void);
/* Flushes this worker's asynchronous adds, then waits for all ranks. */
PLEIAD_API void MV_Barrier(void);
PLEIAD_API int MV_NumWorkers(void);
/* -1 for a rank that is none. */
PLEIAD_API int MV_WorkerId(void);
PLEIAD_API int MV_ServerId(void);

/* Collective: all ranks create the same tables in the same order. Zeros at first. *out becomes null on a rank that is
 * no worker. A table may be smaller than the number of servers. */
PLEIAD_API void MV_NewArrayTable(int size, TableHandler* out);
PLEIAD_API void MV_NewMatrixTable(int num_row, int num_col, TableHandler* out);

/* `size` is the number of floats in `data`, and must be that of the table. Asynchronous adds copy `data`, or apply it,
 * before they return. */
PLEIAD_API void MV_GetArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddAsyncArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_GetMatrixTableAll(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddMatrixTableAll(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddAsyncMatrixTableAll(TableHandler handler, float* data, int size);

/* Rows lie one after the other in `data`: size == row_ids_n * columns. A row asked for twice comes twice; deltas of a
 * row named twice are summed; row_ids_n may be 0. */
PLEIAD_API void MV_GetMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);
PLEIAD_API void MV_AddMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);
PLEIAD_API void MV_AddAsyncMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);

#ifdef __cplusplus
}
#endif

#endif /* MULTIVERSO_C_API_H_ */
