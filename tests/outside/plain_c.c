/* pleiad.h from C: a table of each kind and every collective, with exact results at any number of processes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pleiad/pleiad.h"

#define MUST(call)                                                                                       \
  do {                                                                                                   \
    const int code = (call);                                                                             \
    if (code != PLEIAD_OK) {                                                                             \
      fprintf(stderr, "%s:%d: %s: code %d: %s\n", __FILE__, __LINE__, #call, code, pleiad_last_error()); \
      return 1;                                                                                          \
    }                                                                                                    \
  } while (0)
#define SAME(left, right)                                                                 \
  do {                                                                                    \
    const double a = (double)(left), b = (double)(right);                                 \
    if (a != b) {                                                                         \
      fprintf(stderr, "%s:%d: %s is %g; expected %g\n", __FILE__, __LINE__, #left, a, b); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

enum { kSize = 1000, kRows = 7, kCols = 3 };

static int arrays(pleiad_session* session, const pleiad_world* world) {
  static int64_t initial[kSize], delta[kSize], values[kSize];
  pleiad_table* table = NULL;
  pleiad_pending* pending = NULL;
  for (int i = 0; i < kSize; ++i) {
    initial[i] = INT64_C(4000000000) + i;
    delta[i] = i * (world->rank + 1);
  }
  MUST(pleiad_array_create(session, kSize, PLEIAD_INT64, "name=counts", initial, &table));
  MUST(pleiad_table_add(table, delta, kSize, PLEIAD_INT64, NULL));
  MUST(pleiad_table_add_async(table, delta, kSize, PLEIAD_INT64, NULL, &pending));
  MUST(pleiad_pending_wait(pending));
  pleiad_pending_free(pending);
  MUST(pleiad_barrier(session));
  MUST(pleiad_table_get(table, values, kSize, PLEIAD_INT64));
  const int64_t sum = (int64_t)world->size * (world->size + 1) / 2;
  for (int i = 0; i < kSize; ++i) SAME(values[i], initial[i] + 2 * i * sum);
  pleiad_table_free(table);
  return 0;
}

static int matrices(pleiad_session* session, const pleiad_world* world) {
  const int64_t ids[] = {0, 6, 6, 2};
  double delta[4 * kCols], rows[4 * kCols], all[kRows * kCols];
  pleiad_table* table = NULL;
  pleiad_pending* pending = NULL;
  for (int i = 0; i < 4 * kCols; ++i) delta[i] = i + 1;
  MUST(pleiad_matrix_create(session, kRows, kCols, PLEIAD_FLOAT64, "updater=sgd, updater.learning_rate=0.5", NULL,
                            &table));
  pleiad_add_options options;
  memset(&options, 0, sizeof options);
  options.set = PLEIAD_SET_LEARNING_RATE;
  options.learning_rate = 2;
  MUST(pleiad_table_add_rows(table, ids, 4, delta, 4 * kCols, PLEIAD_FLOAT64, &options));
  MUST(pleiad_barrier(session));
  MUST(pleiad_table_get_rows_async(table, ids, 4, rows, 4 * kCols, PLEIAD_FLOAT64, &pending));
  MUST(pleiad_pending_wait(pending));
  pleiad_pending_free(pending);
  MUST(pleiad_table_get(table, all, kRows * kCols, PLEIAD_FLOAT64));
  for (int c = 0; c < kCols; ++c) {
    const double twice = -2.0 * world->size * (delta[kCols + c] + delta[2 * kCols + c]);
    SAME(rows[c], -2.0 * world->size * delta[c]);
    SAME(rows[kCols + c], twice);
    SAME(rows[2 * kCols + c], twice);
    SAME(rows[3 * kCols + c], -2.0 * world->size * delta[3 * kCols + c]);
    SAME(all[6 * kCols + c], twice);
    SAME(all[1 * kCols + c], 0);
  }
  pleiad_table_free(table);
  return 0;
}

static int collectives(pleiad_session* session, const pleiad_world* world) {
  enum { kMost = 64 };
  float sum = (float)(world->rank + 1);
  int32_t mine = world->rank * 10, gathered[kMost], blocks[kMost], block = 0, word = world->rank == 0 ? 77 : 0;
  if (world->size > kMost) return 1;
  MUST(pleiad_all_reduce(session, &sum, 1, PLEIAD_FLOAT32, PLEIAD_SUM));
  SAME(sum, world->size * (world->size + 1) / 2);
  MUST(pleiad_broadcast(session, &word, 1, PLEIAD_INT32, 0));
  SAME(word, 77);
  MUST(pleiad_all_gather(session, &mine, 1, PLEIAD_INT32, gathered));
  for (int r = 0; r < world->size; ++r) SAME(gathered[r], r * 10);
  for (int r = 0; r < world->size; ++r) blocks[r] = r + world->rank;
  MUST(pleiad_reduce_scatter(session, blocks, &block, 1, PLEIAD_INT32, PLEIAD_MAX));
  SAME(block, world->rank + world->size - 1);
  const int next = (world->rank + 1) % world->size, before = (world->rank + world->size - 1) % world->size;
  int32_t received = -1;
  MUST(pleiad_send(session, next, 5, &mine, 1, PLEIAD_INT32));
  MUST(pleiad_receive(session, before, 5, &received, 1, PLEIAD_INT32));
  SAME(received, before * 10);
  return 0;
}

int main(void) {
  pleiad_session* session = NULL;
  pleiad_world world;
  MUST(pleiad_session_start("timeout=600, log_level=warn", &session));
  MUST(pleiad_session_world(session, &world));
  if (arrays(session, &world) != 0 || matrices(session, &world) != 0 || collectives(session, &world) != 0) return 1;
  MUST(pleiad_session_shutdown(session));
  pleiad_session_free(session);
  printf("plain_c %s: rank %d of %d is right\n", pleiad_version(), world.rank, world.size);
  return 0;
}
