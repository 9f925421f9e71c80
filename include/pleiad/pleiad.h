/* Pleiad's API for C (C99), and for languages that call C: LuaJIT's FFI, Python's ctypes.
 *
 * Every function that can fail returns a pleiad_code, PLEIAD_OK (0) on success. On failure nothing was written to the
 * caller's memory unless the function says so, and pleiad_last_error() returns the message. A null pointer where one
 * is required is PLEIAD_INVALID_ARGUMENT. Nothing here throws, aborts or exits.
 *
 * Any thread may call any function, with the restrictions that tables and collectives state below. In a process that
 * was forked after pleiad_session_start, all calls on that session fail with PLEIAD_STATE.
 */
#ifndef PLEIAD_PLEIAD_H
#define PLEIAD_PLEIAD_H

#include <stdint.h>

#include "pleiad/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values are those of pleiad::ErrorKind and never change. */
typedef enum pleiad_code {
  PLEIAD_OK = 0,
  PLEIAD_INVALID_ARGUMENT = 1, /* the caller's mistake */
  PLEIAD_STATE = 2,            /* called after shutdown or in a forked child, or two threads where one is allowed */
  PLEIAD_ORDER = 3,            /* ranks called a synchronous table or a collective differently */
  PLEIAD_TRANSPORT = 4,        /* a peer died or cannot be reached */
  PLEIAD_TIMEOUT = 5,          /* a deadline passed; the message names the rank that the call waited for */
  PLEIAD_MEMORY = 6,           /* memory could not be allocated */
  PLEIAD_INTERRUPTED = 7,      /* the interrupt callback ended the wait */
  PLEIAD_INTERNAL = 8,         /* a defect in Pleiad */
  PLEIAD_FILE = 9,             /* a file is missing, damaged or cannot be written */
  PLEIAD_RULE = 10             /* a user's update rule failed */
} pleiad_code;

typedef enum pleiad_dtype { PLEIAD_FLOAT32 = 0, PLEIAD_FLOAT64 = 1, PLEIAD_INT32 = 2, PLEIAD_INT64 = 3 } pleiad_dtype;

typedef enum pleiad_op { PLEIAD_SUM = 0, PLEIAD_MIN = 1, PLEIAD_MAX = 2, PLEIAD_MEAN = 3 } pleiad_op;

typedef struct pleiad_session pleiad_session;
typedef struct pleiad_table pleiad_table;
typedef struct pleiad_pending pleiad_pending;

/* Such as "0.2.0". */
PLEIAD_API const char* pleiad_version(void);

/* The message and the code of this thread's last call that failed; "" and PLEIAD_OK before the first failure. A
 * successful call does not change them. Never null; valid until this thread's next failure or
 * pleiad_clear_error. */
PLEIAD_API const char* pleiad_last_error(void);
PLEIAD_API int pleiad_last_error_code(void);
/* Clears both. Useful with functions that return no code, such as those of multiverso/c_api.h. */
PLEIAD_API void pleiad_clear_error(void);

/* --- Session: a process's membership in a world of ranks
 * ------------------------------------------------------------ */

/* Joins the world that the launcher made (mpirun, srun), or makes a world of one rank if there is no launcher.
 * `options` is null or a list such as "timeout=60, log_level=warn"; docs/parameters.md has the names. Environment
 * variables (PLEIAD_TIMEOUT) override it. A process takes part in one launched world at a time. A session that is still
 * open when the process exits with status 0 counts as shut down for the other ranks, but mpirun treats the exit as a
 * failure. With another status, the rank counts as dead. */
PLEIAD_API int pleiad_session_start(const char* options, pleiad_session** out);

/* Collective. Completes this worker's adds, lets the others continue without this worker, and waits until all ranks
 * have called it. Whatever it returns (except for a null pointer or in a forked child), the session is over: further
 * calls on it and on its tables fail with PLEIAD_STATE, and another start may follow. */
PLEIAD_API int pleiad_session_shutdown(pleiad_session* session);

/* Releases the handle. The other ranks treat a session that was not shut down as dead. Null is allowed. */
PLEIAD_API void pleiad_session_free(pleiad_session* session);

typedef struct pleiad_world {
  int32_t rank;
  int32_t size;
  int32_t workers;
  int32_t servers;
  int32_t worker_id; /* -1 for a rank that is not a worker */
  int32_t server_id; /* -1 for a rank that is not a server */
  int32_t hosts;
  int32_t host; /* the host of this rank */
} pleiad_world;
PLEIAD_API int pleiad_session_world(const pleiad_session* session, pleiad_world* out);

/* The rank of a worker or server, given its number. */
PLEIAD_API int pleiad_session_worker_rank(const pleiad_session* session, int32_t worker, int32_t* rank);
PLEIAD_API int pleiad_session_server_rank(const pleiad_session* session, int32_t server, int32_t* rank);
/* Returns the host of a rank. Hosts are numbered from that of rank 0. */
PLEIAD_API int pleiad_session_host_of(const pleiad_session* session, int32_t rank, int32_t* host);
/* *alive is 0 for a rank that is known to have died, otherwise 1. */
PLEIAD_API int pleiad_session_alive(const pleiad_session* session, int32_t rank, int32_t* alive);

/* Functions that return text: *text is valid until this thread's next call of any function that returns a text. */
PLEIAD_API int pleiad_session_host_name(const pleiad_session* session, int32_t rank, const char** text);
/* "solo", "local" or "mpi". */
PLEIAD_API int pleiad_session_engine(const pleiad_session* session, const char** text);
/* Counters and timings, as a small table of text. */
PLEIAD_API int pleiad_session_stats(const pleiad_session* session, const char** text);
/* What every rank of this host is doing now, one line each. */
PLEIAD_API int pleiad_session_report(const pleiad_session* session, const char** text);

/* Sets a function that every waiting call calls about twenty times a second, on the thread of that call. If it returns
 * nonzero, the wait ends with PLEIAD_INTERRUPTED. It must not call Pleiad. A null callback removes the current one.
 * When this function returns, the previous callback is not running and is not called again. */
typedef int (*pleiad_interrupt)(void* data);
PLEIAD_API int pleiad_session_set_interrupt(pleiad_session* session, pleiad_interrupt callback, void* data);

/* --- Collectives: called by all ranks in the same order, by one thread at a time
 * -------------------------------------- */

/* Completes this worker's asynchronous adds, then blocks until every rank has arrived. */
PLEIAD_API int pleiad_barrier(pleiad_session* session);
/* In place. The result is bit-identical on all ranks. On one host it is reduced in rank order; between hosts MPI
 * chooses the order. After a failure the contents are
 * undefined. */
PLEIAD_API int pleiad_all_reduce(pleiad_session* session, void* data, int64_t count, int dtype, int op);
/* After a failure the contents are undefined. */
PLEIAD_API int pleiad_broadcast(pleiad_session* session, void* data, int64_t count, int dtype, int32_t root);
/* `in` has `count` elements; `out` receives size * count elements in rank order. After a failure the contents of `out`
 * are undefined. */
PLEIAD_API int pleiad_all_gather(pleiad_session* session, const void* in, int64_t count, int dtype, void* out);
/* `in` has size * count elements; `out` receives the `count` reduced elements of this rank's block. After a failure the
 * contents of `out` are undefined. */
PLEIAD_API int pleiad_reduce_scatter(pleiad_session* session, const void* in, void* out, int64_t count, int dtype,
                                     int op);

/* Returns when the caller may change `data` again. Messages from the same sender with the same tag arrive in order. Any
 * thread may send and receive. */
PLEIAD_API int pleiad_send(pleiad_session* session, int32_t to, uint32_t tag, const void* data, int64_t count,
                           int dtype);
/* The message must have exactly this size. After a failure the contents are undefined. */
PLEIAD_API int pleiad_receive(pleiad_session* session, int32_t from, uint32_t tag, void* data, int64_t count,
                              int dtype);

/* --- Tables: values shared by all workers
 * ----------------------------------------------------------------------------- */

/* Collective: all ranks create the same tables in the same order, with the same options. `options` is null or a list
 * such as "clock=sync, updater=momentum, updater.momentum=0.9"; docs/parameters.md has the names. `initial` is null for
 * zeros, or has the table's size and type; only the values of rank `init_rank` (an option, 0 by default) are used. When
 * the call returns, all ranks see the initial values. A mistake in the arguments of one rank is an error on all
 * ranks. */
PLEIAD_API int pleiad_array_create(pleiad_session* session, int64_t size, int dtype, const char* options,
                                   const void* initial, pleiad_table** out);
PLEIAD_API int pleiad_matrix_create(pleiad_session* session, int64_t rows, int64_t cols, int dtype, const char* options,
                                    const void* initial, pleiad_table** out);
/* Tables of rows whose ids are any 64-bit integers: a sparse table has `cols` values per row, a key-value table `width`
 * values per key. A row is created by its first add, with the initial values of the option `init`. A get of a missing
 * row returns these initial values and creates nothing. Use pleiad_table_get_rows and pleiad_table_add_rows. An add
 * without room for its new rows is PLEIAD_MEMORY: no row of that host has then been changed, and the table remains
 * usable with its existing rows. */
PLEIAD_API int pleiad_sparse_create(pleiad_session* session, int64_t cols, int dtype, const char* options,
                                    pleiad_table** out);
PLEIAD_API int pleiad_key_value_create(pleiad_session* session, int64_t width, int dtype, const char* options,
                                       pleiad_table** out);
/* Collective counterpart to a create call of the other ranks, for a caller that finds a mistake in its own arguments:
 * all ranks get PLEIAD_INVALID_ARGUMENT with the text `why`. */
PLEIAD_API int pleiad_table_refuse(pleiad_session* session, const char* why);
/* Frees the handle. Once every rank has freed its handle of a table, the table's memory is released when all ranks next
 * create a table or reach a barrier. Null is allowed. */
PLEIAD_API void pleiad_table_free(pleiad_table* table);
/* Collective: releases the table's memory on every rank now. Later calls fail with PLEIAD_STATE. The handle remains and
 * must be freed. Errors of earlier calls are reported on all ranks; in that case the table stays open. */
PLEIAD_API int pleiad_table_close(pleiad_table* table);

/* Checks the updater in a list of table options, for tables of float32: "updater=sgd,updater.momentum=0.9". */
PLEIAD_API int pleiad_updater_check(const char* options);

typedef struct pleiad_table_info {
  int64_t rows; /* 1 for an array; 0 for a sparse or key-value table, see pleiad_table_rows */
  int64_t cols; /* for an array: its size */
  int32_t dtype;
  int32_t matrix; /* 0 for an array, 1 for a matrix, 2 for a sparse and 3 for a key-value table */
  uint32_t id;    /* the index of the table in its session, starting at 0 */
} pleiad_table_info;
PLEIAD_API int pleiad_table_describe(const pleiad_table* table, pleiad_table_info* out);
/* *text is valid until this thread's next call of a function that hands out a text. */
PLEIAD_API int pleiad_table_name(const pleiad_table* table, const char** text);
/* The range [begin, end) of elements (of a matrix: rows) that a server owns. */
PLEIAD_API int pleiad_table_shard(const pleiad_table* table, int32_t server, int64_t* begin, int64_t* end);

/* Counters of a table for this rank. */
typedef struct pleiad_table_stats {
  uint64_t adds;
  uint64_t gets;
  uint64_t bytes_added;
  uint64_t bytes_got;
  double add_seconds; /* time spent in adds, including waits */
  double get_seconds;
  double wait_seconds;   /* time spent waiting for other workers */
  uint64_t torn_stripes; /* stripes whose writer died during a write, counted over the whole host */
} pleiad_table_stats;
PLEIAD_API int pleiad_table_get_stats(const pleiad_table* table, pleiad_table_stats* out);

/* Overrides of the rule's settings for a single add. All zero: no overrides. */
enum { PLEIAD_SET_LEARNING_RATE = 1, PLEIAD_SET_MOMENTUM = 2, PLEIAD_SET_RHO = 4, PLEIAD_SET_LAMBDA = 8 };
typedef struct pleiad_add_options {
  uint32_t set; /* which of the fields below apply: a sum of PLEIAD_SET_... values */
  double learning_rate;
  double momentum;
  double rho;
  double lambda;
} pleiad_add_options;

/* `count` elements of `dtype` must be exactly the content of the table, or `n` rows of it: nothing is truncated or
 * converted. Rows are contiguous, one after the other. A get copies a repeated row each time; an add sums the deltas of
 * a repeated row first; n may be 0. A get sees all earlier adds of this worker. `options` may be null. After
 * a code other than PLEIAD_INVALID_ARGUMENT and PLEIAD_STATE, `out` may be partly written and `delta` partly applied.
 *
 * Any thread may call an asynchronous table. Synchronous tables of a session must be called in one order, the same on
 * every worker: a second thread that calls one at the same time gets PLEIAD_STATE, and if workers make different calls,
 * all of them get PLEIAD_ORDER. */
PLEIAD_API int pleiad_table_get(pleiad_table* table, void* out, int64_t count, int dtype);
PLEIAD_API int pleiad_table_add(pleiad_table* table, const void* delta, int64_t count, int dtype,
                                const pleiad_add_options* options);
/* Arrays only. Adds `delta`, then copies the table into `out` (which may be `delta`). An asynchronous table does both
 * in one pass over memory. */
PLEIAD_API int pleiad_table_add_get(pleiad_table* table, const void* delta, void* out, int64_t count, int dtype,
                                    const pleiad_add_options* options);
/* Arrays only. Adds values - last, then copies the table into both: this synchronises a worker's own copy with the
 * table. `last` must hold what the previous exchange left there (at first, the result of a get); the two must not
 * overlap. */
PLEIAD_API int pleiad_table_exchange(pleiad_table* table, void* values, void* last, int64_t count, int dtype,
                                     const pleiad_add_options* options);
PLEIAD_API int pleiad_table_get_rows(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count,
                                     int dtype);
PLEIAD_API int pleiad_table_add_rows(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta,
                                     int64_t count, int dtype, const pleiad_add_options* options);

/* The current number of rows; for a sparse table, the number of rows that exist on all hosts. */
PLEIAD_API int pleiad_table_rows(pleiad_table* table, int64_t* rows);
/* For sparse and key-value tables with the option evict or max_age: drops the rows that may be dropped. `gone` receives
 * their number and may be null. */
PLEIAD_API int pleiad_table_evict(pleiad_table* table, int64_t* gone);
/* For tables with rows and the option track_changes. Calls `take` once, on this thread, with the rows that have changed
 * since this rank's last call (all rows at the first call): their ids and values, which are valid until it returns.
 * `take` must not call Pleiad. */
typedef void (*pleiad_take_rows)(void* data, const int64_t* ids, int64_t n, const void* rows);
PLEIAD_API int pleiad_table_get_changed(pleiad_table* table, pleiad_take_rows take, void* data);

/* The asynchronous forms. `out` must live until the handle has been waited for or freed. The caller may reuse `ids` and
 * `delta` on return: the add has been applied or copied. `pending` may be null for an add, which is then complete at
 * the next barrier or shutdown at the latest. */
PLEIAD_API int pleiad_table_get_async(pleiad_table* table, void* out, int64_t count, int dtype,
                                      pleiad_pending** pending);
PLEIAD_API int pleiad_table_add_async(pleiad_table* table, const void* delta, int64_t count, int dtype,
                                      const pleiad_add_options* options, pleiad_pending** pending);
PLEIAD_API int pleiad_table_get_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count,
                                           int dtype, pleiad_pending** pending);
PLEIAD_API int pleiad_table_add_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta,
                                           int64_t count, int dtype, const pleiad_add_options* options,
                                           pleiad_pending** pending);

/* Blocks until the operation is complete, and returns its error code if it failed. May be called repeatedly, also after
 * the session's shutdown, which completes all pending operations. */
PLEIAD_API int pleiad_pending_wait(pleiad_pending* pending);
/* *done becomes 1 if a wait would return immediately, otherwise 0. */
PLEIAD_API int pleiad_pending_done(const pleiad_pending* pending, int32_t* done);
/* Releases the handle: an add is still applied, and a get no longer writes to its buffer. If a get is writing to its
 * buffer just now, the call waits until it has finished. Null is
 * allowed. */
PLEIAD_API void pleiad_pending_free(pleiad_pending* pending);

#ifdef __cplusplus
}
#endif

#endif /* PLEIAD_PLEIAD_H */
