/* Multiverso's API for C: the symbols of libmultiverso.
 *
 * Where the original would exit, these functions leave the outputs unchanged, log to stderr and set the error that
 * pleiad_last_error() of pleiad/pleiad.h returns; functions that return an integer return -1. Any thread may call them.
 * In a process that was forked after MV_Init they all fail. A session that is still open when the process exits counts
 * as shut down for the other ranks, but mpirun treats the exit as a failure.
 */
#ifndef MULTIVERSO_C_API_H_
#define MULTIVERSO_C_API_H_

#include "pleiad/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A table handle, valid until MV_ShutDown. A handle from another session is refused. There is nothing to free. */
typedef void* TableHandler;

/* Joins the launcher's world (mpirun, srun), or makes a world of one rank. Removes flags of the form -name=value from
 * argv: the remaining arguments keep their order, argc becomes their number, and the removed flags are moved behind
 * them. Both pointers may be null.
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
 * is_pipelined are removed and have no effect. Unknown flags stay in argv, with a warning. A second MV_Init fails, and
 * the first session continues; after MV_ShutDown, another MV_Init may follow.
 *
 * If MV_Init fails, it prints the error and returns. If the program then exits with code 0 and has not read the error
 * (pleiad_last_error(), pleiad_last_error_code(), pleiad_clear_error()), the process exits with code 1 instead. */
PLEIAD_API void MV_Init(int* argc, char* argv[]);
/* Collective: completes this worker's adds, then waits until all ranks have called it. */
PLEIAD_API void MV_ShutDown(void);
/* Completes this worker's asynchronous adds, then blocks until every rank has arrived. */
PLEIAD_API void MV_Barrier(void);
PLEIAD_API int MV_NumWorkers(void);
/* MV_WorkerId and MV_ServerId return -1 if this rank is not a worker or not a server. */
PLEIAD_API int MV_WorkerId(void);
PLEIAD_API int MV_ServerId(void);

/* Collective: all ranks create the same tables in the same order. Tables start as zeros. *out becomes null on a rank
 * that is not a worker. A table may have fewer elements than there are servers. */
PLEIAD_API void MV_NewArrayTable(int size, TableHandler* out);
PLEIAD_API void MV_NewMatrixTable(int num_row, int num_col, TableHandler* out);

/* `size` is the number of floats in `data`, and must be that of the table. Asynchronous adds copy or apply `data`
 * before they return. */
PLEIAD_API void MV_GetArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddAsyncArrayTable(TableHandler handler, float* data, int size);
PLEIAD_API void MV_GetMatrixTableAll(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddMatrixTableAll(TableHandler handler, float* data, int size);
PLEIAD_API void MV_AddAsyncMatrixTableAll(TableHandler handler, float* data, int size);

/* Rows are contiguous in `data`: size == row_ids_n * columns. A get copies a repeated row each time; an add sums the
 * deltas of a repeated row; row_ids_n may be 0. */
PLEIAD_API void MV_GetMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);
PLEIAD_API void MV_AddMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);
PLEIAD_API void MV_AddAsyncMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n);

#ifdef __cplusplus
}
#endif

#endif /* MULTIVERSO_C_API_H_ */
