// Compares tables with plain loops over the same kind of memory, in the same number of processes. Starts alone or by
// mpirun.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "bench/measure.h"
#include "core/clones.h"
#include "engine/inproc.h"
#include "engine/start.h"
#include "session/core.h"

namespace {

using namespace pleiad;
using bench::compare;

#define BARE __attribute__((optimize("O3", "no-tree-loop-distribute-patterns"), noinline)) PLEIAD_CLONES

BARE void bare_copy(float* __restrict to, const float* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}
BARE void bare_add(float* __restrict to, const float* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}
BARE void bare_gather(float* __restrict to, const float* __restrict from, const std::int64_t* ids, std::int64_t n,
                      std::int64_t cols) {
  for (std::int64_t r = 0; r < n; ++r) {
    const float* row = from + ids[r] * cols;
    for (std::int64_t c = 0; c < cols; ++c) to[r * cols + c] = row[c];
  }
}
BARE void bare_scatter(float* __restrict to, const float* __restrict from, const std::int64_t* ids, std::int64_t n,
                       std::int64_t cols) {
  for (std::int64_t r = 0; r < n; ++r) {
    float* row = to + ids[r] * cols;
    for (std::int64_t c = 0; c < cols; ++c) row[c] += from[r * cols + c];
  }
}

// Memory that was never touched would be slower than that of a table.
std::vector<float> touched(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "bench: wrong result in %s\n", what);
  std::exit(1);
}

void array_bench(Session& session, Engine& engine, const std::string& clock, std::int64_t size, int rounds) {
  TableOptions options;
  options.clock = clock;
  ArrayTable table = session.create_array(size, options);
  const auto memory = engine.segments().share(static_cast<std::size_t>(size) * 4, false);
  auto* bare = static_cast<float*>(memory->data());
  auto delta = touched(size, 1.0F);
  auto out = touched(size, 0.0F);
  session.barrier();
  table.add(delta);
  session.barrier();
  table.get(out);
  check(out.front() == static_cast<float>(session.size()) && out.back() == out.front(), "array");
  compare(
      session, {.name = "array_" + clock, .size = size, .rounds = rounds},
      [&] {
        table.add(delta);
        table.get(out);
      },
      [&] {
        bare_add(bare, delta.data(), size);
        bare_copy(out.data(), bare, size);
      });
}

void matrix_bench(Session& session, Engine& engine, std::int64_t rows, std::int64_t cols, std::int64_t picked,
                  int rounds) {
  MatrixTable table = session.create_matrix(rows, cols);
  const auto memory = engine.segments().share(static_cast<std::size_t>(rows * cols) * 4, false);
  auto* bare = static_cast<float*>(memory->data());
  if (session.rank() == 0) std::memset(bare, 0, static_cast<std::size_t>(rows * cols) * 4);
  {
    const auto whole = touched(rows * cols, 0.0F);
    table.add(whole);
  }
  std::mt19937_64 random(7 + static_cast<unsigned>(session.rank()));
  // Each call uses other rows, so that they are not all in the cache.
  std::vector<std::vector<RowId>> draws(211, std::vector<RowId>(static_cast<std::size_t>(picked)));
  for (auto& draw : draws) {
    for (RowId& id : draw) id = static_cast<RowId>(random() % static_cast<std::uint64_t>(rows));
  }
  std::size_t next = 0;
  const auto ids = [&]() -> const std::vector<RowId>& { return draws[next = next + 1 == draws.size() ? 0 : next + 1]; };
  auto numbers = touched(picked * cols, 1.0F);
  session.barrier();
  const std::string suffix = picked == 1 ? "_one_row_of_" + std::to_string(rows) : "";
  compare(
      session, {.name = "matrix_get" + suffix, .size = picked, .rounds = rounds},
      [&] { table.get_rows(ids(), numbers); }, [&] { bare_gather(numbers.data(), bare, ids().data(), picked, cols); });
  compare(
      session, {.name = "matrix_add" + suffix, .size = picked, .rounds = rounds},
      [&] { table.add_rows(ids(), numbers); }, [&] { bare_scatter(bare, numbers.data(), ids().data(), picked, cols); });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::string only = argc > 2 ? argv[2] : "";
  const auto wants = [&](const char* name) { return only.empty() || only == name; };
  std::shared_ptr<Engine> engine = start_engine({});
  {
    Session session(std::make_shared<SessionCore>(engine));
    if (wants("array_async")) {
      for (const std::int64_t size : {1000, 100000, 10000000}) array_bench(session, *engine, "async", size, rounds);
    }
    if (wants("array_sync")) {
      for (const std::int64_t size : {1000, 100000, 10000000}) array_bench(session, *engine, "sync", size, rounds);
    }
    if (wants("matrix")) {
      matrix_bench(session, *engine, 1000000, 50, 1000, rounds);
      matrix_bench(session, *engine, 1000, 50, 1, rounds);
      matrix_bench(session, *engine, 1000000, 50, 1, rounds);
    }
    session.shutdown();
  }
}
