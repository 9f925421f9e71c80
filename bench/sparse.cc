// Compares a sparse table with a bare hash gather: an open-addressing index of the same keys, and rows in the same kind
// of memory, without locks, growth or other users. Runs alone or under mpirun, where all processes work at once.
#include <cstdlib>
#include <cstring>
#include <random>

#include "bench/measure.h"
#include "core/clones.h"
#include "engine/start.h"
#include "session/core.h"
#include "table/row_index.h"

namespace {

using namespace pleiad;
using bench::compare;

constexpr std::int64_t kRows = 10'000'000;
constexpr std::int64_t kCols = 16;
constexpr std::int64_t kPicked = 1000;

#define BARE __attribute__((optimize("O3", "no-tree-loop-distribute-patterns"), noinline)) PLEIAD_CLONES

/// An open-addressing hash index, half full, with linear probing.
struct BareEntry {
  RowId key;
  std::int64_t row;  ///< row number + 1; 0 marks a free entry
};
constexpr std::uint64_t kEntries = std::uint64_t{1} << 25;

inline std::int64_t bare_find(const BareEntry* entries, RowId id) {
  std::uint64_t i = hash_of(id) & (kEntries - 1);
  while (entries[i].row != 0 && entries[i].key != id) i = (i + 1) & (kEntries - 1);
  return entries[i].row - 1;
}

BARE void bare_gather(float* __restrict to, const float* __restrict from, const BareEntry* entries, const RowId* ids) {
  for (std::int64_t r = 0; r < kPicked; ++r) {
    const float* row = from + bare_find(entries, ids[r]) * kCols;
    for (std::int64_t c = 0; c < kCols; ++c) to[r * kCols + c] = row[c];
  }
}

BARE void bare_scatter(float* __restrict to, const float* __restrict from, const BareEntry* entries, const RowId* ids) {
  for (std::int64_t r = 0; r < kPicked; ++r) {
    float* row = to + bare_find(entries, ids[r]) * kCols;
    for (std::int64_t c = 0; c < kCols; ++c) row[c] += from[r * kCols + c];
  }
}

/// Returns the n-th key, a pseudo-random number of 64 bits.
RowId key(std::int64_t n) { return static_cast<RowId>(static_cast<std::uint64_t>(n) * 0x9E3779B97F4A7C15U + 12345); }

void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "bench: wrong result in %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::shared_ptr<Engine> engine = start_engine({});
  {
    Session session(std::make_shared<SessionCore>(engine));
    const SparseTable table = session.create_sparse(kCols);
    const auto index = engine->segments().share(kEntries * sizeof(BareEntry), false);
    const auto memory = engine->segments().share(static_cast<std::size_t>(kRows * kCols) * sizeof(float), false);
    auto* entries = static_cast<BareEntry*>(index->data());
    auto* bare = static_cast<float*>(memory->data());
    std::vector<float> numbers(static_cast<std::size_t>(kPicked * kCols), 1.0F);
    std::vector<RowId> ids(static_cast<std::size_t>(kPicked));
    const std::int64_t share = kRows / session.size();
    for (std::int64_t n = session.rank() * share; n < (session.rank() + 1) * share; n += kPicked) {
      for (std::int64_t i = 0; i < kPicked; ++i) ids[static_cast<std::size_t>(i)] = key((n + i) * 7919 % kRows);
      table.add(ids, numbers);
    }
    if (session.rank() == 0) {
      for (std::int64_t n = 0; n < kRows; ++n) {
        const RowId id = key(n);
        std::uint64_t i = hash_of(id) & (kEntries - 1);
        while (entries[i].row != 0) i = (i + 1) & (kEntries - 1);
        entries[i] = {.key = id, .row = n * 7919 % kRows + 1};
      }
      std::fill_n(bare, kRows * kCols, 1.0F);
    }
    session.barrier();
    check(table.rows() == kRows, "rows");
    std::mt19937_64 random(7 + static_cast<unsigned>(session.rank()));
    // Each call uses other rows, so that they are not all in the cache.
    std::vector<std::vector<RowId>> draws(211, std::vector<RowId>(static_cast<std::size_t>(kPicked)));
    for (auto& draw : draws) {
      for (RowId& id : draw) id = key(static_cast<std::int64_t>(random() % kRows));
    }
    std::size_t next = 0;
    const auto drawn = [&]() -> const std::vector<RowId>& {
      return draws[next = next + 1 == draws.size() ? 0 : next + 1];
    };
    std::vector<float> out(numbers.size());
    table.get(draws[0], out);
    check(out == numbers, "get");
    bare_gather(out.data(), bare, entries, draws[0].data());
    check(out == numbers, "the peer's get");
    session.barrier();
    compare(
        session, {.name = "sparse_get", .size = kPicked, .rounds = rounds}, [&] { table.get(drawn(), out); },
        [&] { bare_gather(out.data(), bare, entries, drawn().data()); });
    compare(
        session, {.name = "sparse_add", .size = kPicked, .rounds = rounds}, [&] { table.add(drawn(), numbers); },
        [&] { bare_scatter(bare, numbers.data(), entries, drawn().data()); });
    session.shutdown();
  }
}
