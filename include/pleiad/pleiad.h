/* Pleiad's API for C (C99), and for whatever calls C: LuaJIT's FFI, Python's ctypes.
 *
 * Every function that can fail returns a pleiad_code, PLEIAD_OK (0) on success. On failure nothing was written to the
 * caller's memory unless the function says so, and pleiad_last_error() has the words. A null pointer where one is
 * needed is PLEIAD_INVALID_ARGUMENT. Nothing here throws, aborts or exits.
 *
 * Any thread may call any function; what a table or collective asks of its callers beyond that stands with it. In a
 * process that was forked after pleiad_session_start all calls on that session fail with PLEIAD_STATE.
 */
#ifndef PLEIAD_PLEIAD_H
#define PLEIAD_PLEIAD_H

#include <stdint.h>

#include "pleiad/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of pleiad::ErrorKind and never change. */
typedef enum pleiad_code {
  PLEIAD_OK = 0,
  PLEIAD_INVALID_ARGUMENT = 1, /* the caller's mistake */
  PLEIAD_STATE = 2,            /* after shutdown, in a forked child, or two threads where one is allowed */
  PLEIAD_ORDER = 3,            /* ranks called a synchronous table or a collective differently */
  PLEIAD_TRANSPORT = 4,        /* a peer died or cannot be reached */
  PLEIAD_TIMEOUT = 5,          /* a deadline passed; the words say whom it waited for */
  PLEIAD_MEMORY = 6,           /* a segment could not be allocated */
  PLEIAD_INTERRUPTED = 7,      /* the interrupt callback ended the wait */
  PLEIAD_INTERNAL = 8,         /* a defect of Pleiad's */
  PLEIAD_FILE = 9,             /* a file is missing, damaged or cannot be written */
  PLEIAD_RULE = 10             /* an update rule of the user's failed */
} pleiad_code;

typedef enum pleiad_dtype { PLEIAD_FLOAT32 = 0, PLEIAD_FLOAT64 = 1, PLEIAD_INT32 = 2, PLEIAD_INT64 = 3 } pleiad_dtype;

typedef enum pleiad_op { PLEIAD_SUM = 0, PLEIAD_MIN = 1, PLEIAD_MAX = 2, PLEIAD_MEAN = 3 } pleiad_op;

typedef struct pleiad_session pleiad_session;
typedef struct pleiad_table pleiad_table;
typedef struct pleiad_pending pleiad_pending;

/* "0.1.0" */
PLEIAD_API const char* pleiad_version(void);

/* The words and the code of the last call of this thread that failed: "" and PLEIAD_OK before the first. A call that
 * succeeds leaves them alone. Never null; valid until this thread's next failure. */
PLEIAD_API const char* pleiad_last_error(void);
PLEIAD_API int pleiad_last_error_code(void);
/* Forgets them: for functions that have no code to return, like those of multiverso/c_api.h. */
PLEIAD_API void pleiad_clear_error(void);

/* --- Session: a process's handle on its world --------------------------------------------------------------------- */

/* Joins the world that the launcher made (mpirun, srun), or makes a world of one where there is no launcher. `options`
 * is null or a list "timeout=60, log_level=warn"; docs/parameters.md has the names. The environment wins:
 * PLEIAD_TIMEOUT. A process takes part in one launched world at a time. A session that is still open when the process
 * exits counts as shut down for the other ranks, and mpirun takes the exit for a failure. */
PLEIAD_API int pleiad_session_start(const char* options, pleiad_session** out);

/* Collective: flushes, lets the others go on without this worker, and waits until all have come here. Whatever it
 * returns (other than for a null pointer or in a forked child), the session is over: further calls on it and on its
 * tables fail with PLEIAD_STATE, and another start may follow. */
PLEIAD_API int pleiad_session_shutdown(pleiad_session* session);

/* Releases the handle. The other ranks take a session that was not shut down for dead. Null is allowed. */
PLEIAD_API void pleiad_session_free(pleiad_session* session);

typedef struct pleiad_world {
  int32_t rank;
  int32_t size;
  int32_t workers;
  int32_t servers;
  int32_t worker_id; /* -1 for a rank that is no worker */
  int32_t server_id; /* -1 for a rank that is no server */
  int32_t hosts;
  int32_t host; /* the host of this rank */
} pleiad_world;
PLEIAD_API int pleiad_session_world(const pleiad_session* session, pleiad_world* out);

/* The rank of a worker or server, given its number. */
PLEIAD_API int pleiad_session_worker_rank(const pleiad_session* session, int32_t worker, int32_t* rank);
PLEIAD_API int pleiad_session_server_rank(const pleiad_session* session, int32_t server, int32_t* rank);
/* Which host a rank lives on, counted from that of rank 0. */
PLEIAD_API int pleiad_session_host_of(const pleiad_session* session, int32_t rank, int32_t* host);
/* 0 for a rank that died, else 1; ranks of other hosts count as alive. */
PLEIAD_API int pleiad_session_alive(const pleiad_session* session, int32_t rank, int32_t* alive);

/* Texts. *text is valid until this thread's next call of a function that hands out a text. */
PLEIAD_API int pleiad_session_host_name(const pleiad_session* session, int32_t rank, const char** text);
/* "solo" or "mpi". */
PLEIAD_API int pleiad_session_engine(const pleiad_session* session, const char** text);
/* Counters and timings, as a small table. */
PLEIAD_API int pleiad_session_stats(const pleiad_session* session, const char** text);
/* What every rank of this host is doing now, a line each. */
PLEIAD_API int pleiad_session_report(const pleiad_session* session, const char** text);

/* Asked about twenty times a second in every call that waits, on the thread that made the call. Not zero ends the wait
 * with PLEIAD_INTERRUPTED. It must not call Pleiad. A null callback takes the present one away; when this returns, the
 * present one is not running and is not called again. */
typedef int (*pleiad_interrupt)(void* data);
PLEIAD_API int pleiad_session_set_interrupt(pleiad_session* session, pleiad_interrupt callback, void* data);

/* --- Collectives: called by all ranks in the same order, by one thread at a time -----------------------------------
 */

/* Flushes this worker's asynchronous adds, then waits for all ranks. */
PLEIAD_API int pleiad_barrier(pleiad_session* session);
/* In place. Reduces in rank order, so all ranks get the same bits. After a failure the contents are undefined. */
PLEIAD_API int pleiad_all_reduce(pleiad_session* session, void* data, int64_t count, int dtype, int op);
/* After a failure the contents are undefined. */
PLEIAD_API int pleiad_broadcast(pleiad_session* session, void* data, int64_t count, int dtype, int32_t root);
/* `in` has `count` elements, `out` receives size * count, by rank. After a failure the contents of `out` are undefined.
 */
PLEIAD_API int pleiad_all_gather(pleiad_session* session, const void* in, int64_t count, int dtype, void* out);
/* `in` has size * count elements; `out` receives the `count` reduced elements of this rank's block. After a failure the
 * contents of `out` are undefined. */
PLEIAD_API int pleiad_reduce_scatter(pleiad_session* session, const void* in, void* out, int64_t count, int dtype,
                                     int op);

/* Returns when `data` may be changed again. Messages of one sender and tag arrive in order. Any thread may send and
 * receive. */
PLEIAD_API int pleiad_send(pleiad_session* session, int32_t to, uint32_t tag, const void* data, int64_t count,
                           int dtype);
/* The message must have exactly this size. After a failure the contents are undefined. */
PLEIAD_API int pleiad_receive(pleiad_session* session, int32_t from, uint32_t tag, void* data, int64_t count,
                              int dtype);

/* --- Tables: numbers shared by all workers -------------------------------------------------------------------------
 */

/* Collective: all ranks create the same tables in the same order, with the same options. `options` is null or a list
 * "clock=sync, updater=momentum, updater.momentum=0.9"; docs/parameters.md has the names. `initial` is null for zeros,
 * or has the table's size and type; only that of the rank `init_rank` (an option, 0 unless set) is read. When it
 * returns, all ranks see the initial values. A mistake in the arguments of one rank is an error on all ranks. */
PLEIAD_API int pleiad_array_create(pleiad_session* session, int64_t size, int dtype, const char* options,
                                   const void* initial, pleiad_table** out);
PLEIAD_API int pleiad_matrix_create(pleiad_session* session, int64_t rows, int64_t cols, int dtype, const char* options,
                                    const void* initial, pleiad_table** out);
/* Rows of `cols` numbers whose ids are any 64 bits; a key-value table has `width` numbers a key. A row is made when it
 * is first added to, as the option `init` says; a get of one that is not there gives the same numbers and makes none.
 * They are read and added to by pleiad_table_get_rows and pleiad_table_add_rows. An add for whose new rows there is no
 * room is PLEIAD_MEMORY: no row of that host was changed, and the table goes on with those that it has. */
PLEIAD_API int pleiad_sparse_create(pleiad_session* session, int64_t cols, int dtype, const char* options,
                                    pleiad_table** out);
PLEIAD_API int pleiad_key_value_create(pleiad_session* session, int64_t width, int dtype, const char* options,
                                       pleiad_table** out);
/* Takes part in the creation of a table that the other ranks make, with an error in place of a table: all ranks get
 * PLEIAD_INVALID_ARGUMENT with the text `why`. For callers that find a mistake in their arguments on one rank. */
PLEIAD_API int pleiad_table_refuse(pleiad_session* session, const char* why);
/* Frees the handle. Once every rank has freed its handle of a table, its memory is released when all ranks next create
 * a table or come to a barrier. Null is allowed. */
PLEIAD_API void pleiad_table_free(pleiad_table* table);
/* Collective: releases the table's memory on every rank now. Later calls fail with PLEIAD_STATE. The handle remains and
 * must be freed. Errors of earlier calls are reported on all ranks, and the table then stays open. */
PLEIAD_API int pleiad_table_close(pleiad_table* table);

/* Checks the updater that a list of table options names, for tables of float32: "updater=sgd,updater.momentum=0.9". */
PLEIAD_API int pleiad_updater_check(const char* options);

typedef struct pleiad_table_info {
  int64_t rows; /* of an array: 1; of a sparse or key-value table: 0, see pleiad_table_rows */
  int64_t cols; /* of an array: its size */
  int32_t dtype;
  int32_t matrix; /* 0 for an array, 1 for a matrix, 2 for a sparse and 3 for a key-value table */
  uint32_t id;    /* the number of the table in its session: 0 for the first */
} pleiad_table_info;
PLEIAD_API int pleiad_table_describe(const pleiad_table* table, pleiad_table_info* out);
/* *text is valid until this thread's next call of a function that hands out a text. */
PLEIAD_API int pleiad_table_name(const pleiad_table* table, const char** text);
/* Which elements (of a matrix: rows) a server owns. */
PLEIAD_API int pleiad_table_shard(const pleiad_table* table, int32_t server, int64_t* begin, int64_t* end);

/* What a table has done for this rank. */
typedef struct pleiad_table_stats {
  uint64_t adds;
  uint64_t gets;
  uint64_t bytes_added;
  uint64_t bytes_got;
  double add_seconds; /* in adds, waiting included */
  double get_seconds;
  double wait_seconds;   /* waiting for other workers */
  uint64_t torn_stripes; /* of the whole host: stripes whose writer died in the middle */
} pleiad_table_stats;
PLEIAD_API int pleiad_table_get_stats(const pleiad_table* table, pleiad_table_stats* out);

/* What one add may change about the table's rule. All zero: nothing. */
enum { PLEIAD_SET_LEARNING_RATE = 1, PLEIAD_SET_MOMENTUM = 2, PLEIAD_SET_RHO = 4, PLEIAD_SET_LAMBDA = 8 };
typedef struct pleiad_add_options {
  uint32_t set; /* which of the fields below count: a sum of PLEIAD_SET_... */
  double learning_rate;
  double momentum;
  double rho;
  double lambda;
} pleiad_add_options;

/* `count` elements of `dtype` must be what the table holds, or `n` rows of it: nothing is cut or converted. Rows lie
 * one after the other. A row asked for twice comes twice; deltas of a row named twice are summed first; n may be 0. A
 * get sees every add that this worker has waited for. `options` may be null. After a code other than
 * PLEIAD_INVALID_ARGUMENT and PLEIAD_STATE, `out` may be partly written and `delta` partly applied.
 *
 * Any thread may call an asynchronous table. The synchronous tables of a session are called in one order, the same on
 * every worker: a second thread that calls one meanwhile gets PLEIAD_STATE, and workers whose calls differ all get
 * PLEIAD_ORDER. */
PLEIAD_API int pleiad_table_get(pleiad_table* table, void* out, int64_t count, int dtype);
PLEIAD_API int pleiad_table_add(pleiad_table* table, const void* delta, int64_t count, int dtype,
                                const pleiad_add_options* options);
/* Arrays only. An add of `delta`, then a get into `out` (which may be `delta`): on an asynchronous table in one pass
 * over the memory. */
PLEIAD_API int pleiad_table_add_get(pleiad_table* table, const void* delta, void* out, int64_t count, int dtype,
                                    const pleiad_add_options* options);
/* Arrays only. Adds values - last, then fills both with the table: how a worker brings its own copy and the table
 * together. `last` is what the exchange before left there (at first, a get); the two do not overlap. */
PLEIAD_API int pleiad_table_exchange(pleiad_table* table, void* values, void* last, int64_t count, int dtype,
                                     const pleiad_add_options* options);
PLEIAD_API int pleiad_table_get_rows(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count,
                                     int dtype);
PLEIAD_API int pleiad_table_add_rows(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta,
                                     int64_t count, int dtype, const pleiad_add_options* options);

/* How many rows there are now: of a sparse table those that were made, on all hosts. */
PLEIAD_API int pleiad_table_rows(pleiad_table* table, int64_t* rows);
/* Sparse and key-value tables with the option evict or max_age: drops the rows that may go. `gone` may be null. */
PLEIAD_API int pleiad_table_evict(pleiad_table* table, int64_t* gone);
/* Tables with rows and the option track_changes. Calls `take` once, on this thread, with the rows that have changed
 * since this rank's last call (at first all): their ids and their numbers, valid until it returns. It must not call
 * Pleiad. */
typedef void (*pleiad_take_rows)(void* data, const int64_t* ids, int64_t n, const void* rows);
PLEIAD_API int pleiad_table_get_changed(pleiad_table* table, pleiad_take_rows take, void* data);

/* The same, started. `out` must live until the handle was waited for or freed; `ids` and `delta` are free again on
 * return: the add was applied, or copied. An add's `pending` may be null: it is carried out all the same, at the latest
 * by the next barrier or shutdown. */
PLEIAD_API int pleiad_table_get_async(pleiad_table* table, void* out, int64_t count, int dtype,
                                      pleiad_pending** pending);
PLEIAD_API int pleiad_table_add_async(pleiad_table* table, const void* delta, int64_t count, int dtype,
                                      const pleiad_add_options* options, pleiad_pending** pending);
PLEIAD_API int pleiad_table_get_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count,
                                           int dtype, pleiad_pending** pending);
PLEIAD_API int pleiad_table_add_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta,
                                           int64_t count, int dtype, const pleiad_add_options* options,
                                           pleiad_pending** pending);

/* Returns when the operation is complete, with what went wrong in it; again, if asked again. After the session's
 * shutdown too: what was under way was completed by it. */
PLEIAD_API int pleiad_pending_wait(pleiad_pending* pending);
/* *done becomes 1 once a wait would return at once, else 0. */
PLEIAD_API int pleiad_pending_done(const pleiad_pending* pending, int32_t* done);
/* Releases the handle without waiting: an add is carried out all the same, a get leaves its buffer alone from then on.
 * Null is allowed. */
PLEIAD_API void pleiad_pending_free(pleiad_pending* pending);

#ifdef __cplusplus
}
#endif

#endif /* PLEIAD_PLEIAD_H */
