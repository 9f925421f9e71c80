// What periodic snapshots in the background cost the workers: bench_snapshots FOLDER ROUNDS EVERY. Every worker trains
// rows of one matrix; in every other turn all of it, with what its rule keeps, is saved every EVERY seconds. Ours is
// the time of a step with snapshots, the peer the same without. Started by mpirun, one rank a core.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>

#include "bench/measure.h"
#include "pleiad/pleiad.hpp"

namespace {

using namespace pleiad;

constexpr std::int64_t kRows = 100'000;
constexpr std::int64_t kCols = 100;
constexpr std::size_t kBatch = 256;

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "snapshots";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  const double every = argc > 3 ? std::atof(argv[3]) : 2;
  Session session = Session::start();
  const MatrixTable table = session.create_matrix(
      kRows, kCols, {.name = "embedding", .updater = {.rule = "momentum", .learning_rate = 0.01, .momentum = 0.9}});
  std::mt19937_64 random(static_cast<unsigned>(session.rank()));
  std::vector<RowId> ids(kBatch);
  std::vector<float> rows(kBatch * kCols);
  std::int64_t steps = 0;
  std::int64_t saved = 0;
  // A step of a small model: rows are got, worked on for about a millisecond, and changed.
  const auto step = [&] {
    for (RowId& id : ids) id = static_cast<RowId>(random() % kRows);
    table.get_rows(ids, rows);
    for (int pass = 0; pass < 80; ++pass) {
      for (float& x : rows) x = 0.5F * x + 0.001F * x * x + 0.0001F;
    }
    table.add_rows(ids, rows);
    ++steps;
  };
  // A turn ends with its last snapshot on the disk: none of its cost is left to the other's turn.
  const auto turn = [&](const bench::Body& body, std::int64_t repeats, bool saves) {
    std::optional<Snapshots> snapshots;
    if (saves) snapshots.emplace(session, folder, SnapshotOptions{.every_seconds = every});
    session.barrier();
    const std::int64_t start = now_ns();
    for (std::int64_t i = 0; i < repeats; ++i) {
      body();
      // The watch costs a broadcast, so it is looked at every hundredth step, as a trainer would.
      if (steps % 100 == 0 && saves && snapshots->step(steps)) ++saved;
    }
    if (saves) snapshots->wait();
    std::vector<double> us = {static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(repeats)};
    session.all_reduce(us, ReduceOp::max);
    return us[0];
  };
  const double once = turn(step, 400, false);
  const auto repeats = static_cast<std::int64_t>(2.5 * every * 1e6 / once);  // two snapshots a turn
  std::vector<double> ours;
  std::vector<double> peer;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) ours.push_back(turn(step, repeats, true));
    peer.push_back(turn(step, repeats, false));
    if (round % 2 == 1) ours.push_back(turn(step, repeats, true));
    ratios.push_back(peer.back() / ours.back());
  }
  std::vector<float> check(kCols);
  const RowId first = 0;
  table.get_rows({&first, 1}, check);
  if (saved < rounds || check[0] == 0) {
    std::fprintf(stderr, "bench: %lld snapshots in %d turns\n", static_cast<long long>(saved), rounds);
    return 1;
  }
  const bench::Plan plan{.name = "snapshots", .size = kRows * kCols, .rounds = rounds, .block_ms = 0};
  if (session.rank() == 0) {
    bench::print(plan, "procs", session.size(),
                 {.median_us = bench::median(ours),
                  .spread = bench::spread(ours),
                  .peer_us = bench::median(peer),
                  .ratio = bench::median(ratios)});
  }
  session.shutdown();
}
