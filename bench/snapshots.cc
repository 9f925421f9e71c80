// Measures how much periodic background snapshots slow down the workers: bench_snapshots FOLDER ROUNDS EVERY. Every
// worker trains rows of one matrix. In every other turn, the whole matrix with the state of its rule is saved every
// EVERY seconds. Ours is the time of a step with snapshots, the peer's that without. mpirun starts it, one rank per
// core.
#include <cstdlib>
#include <filesystem>
#include <random>

#include "bench/measure.h"
#include "pleiad/pleiad.hpp"

namespace {

using namespace pleiad;

constexpr std::int64_t kRows = 100'000;
constexpr std::int64_t kCols = 100;
constexpr std::size_t kBatch = 256;
constexpr int kSaves = 2;  // in a turn

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
  double seconds = 0;
  // A step of a small model: gets rows, computes for a third of a millisecond, and changes them.
  const auto step = [&] {
    for (RowId& id : ids) id = static_cast<RowId>(random() % kRows);
    table.get_rows(ids, rows);
    for (int pass = 0; pass < 80; ++pass) {
      for (float& x : rows) x = 0.5F * x + 0.001F * x * x + 0.0001F;
    }
    table.add_rows(ids, rows);
    ++steps;
  };
  const auto time_of = [&](std::int64_t ns, std::int64_t count) {
    std::vector<double> us = {static_cast<double>(ns) * 1e-3 / static_cast<double>(count)};
    session.all_reduce(us, ReduceOp::max);
    return us[0];
  };
  const auto without = [&](std::int64_t repeats) {
    session.barrier();
    const std::int64_t start = now_ns();
    for (std::int64_t i = 0; i < repeats; ++i) step();
    return time_of(now_ns() - start, repeats);
  };
  // The measured time is from the beginning of one save to that of the last, and contains as many copies and writes as
  // saves. It omits the first save, whose copy needs new memory, and the wait for the last write, which occurs once per
  // run.
  const auto with = [&](std::int64_t& timed) {
    Snapshots snapshots(session, folder, {.every_seconds = every});
    session.barrier();
    std::int64_t began = 0;
    std::int64_t first = 0;
    for (int saves = 0;;) {
      step();
      const std::int64_t now = now_ns();
      if (!snapshots.step(steps)) continue;
      ++saves;
      if (saves == 2) {
        began = now;
        first = steps;
      } else if (saves == 2 + kSaves) {
        timed = steps - first;
        saved += kSaves;
        seconds += static_cast<double>(now - began) * 1e-9;
        const double us = time_of(now - began, timed);
        snapshots.wait();
        return us;
      }
    }
  };
  std::vector<double> ours;
  std::vector<double> peer;
  std::vector<double> ratios;
  auto repeats = static_cast<std::int64_t>(kSaves * every * 1e6 / without(400));
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) ours.push_back(with(repeats));
    peer.push_back(without(repeats));
    if (round % 2 == 1) ours.push_back(with(repeats));
    ratios.push_back(peer.back() / ours.back());
  }
  std::vector<float> check(kCols);
  const RowId first = 0;
  table.get_rows({&first, 1}, check);
  // A save that is skipped because the previous one is not on the disk yet would cost nothing.
  session.all_reduce(View{&seconds, 1, DType::float64}, ReduceOp::max);  // so that all ranks end together
  const double interval = seconds / static_cast<double>(saved);
  if (interval > 1.2 * every || check[0] == 0) {
    std::fprintf(stderr, "bench: a snapshot every %.2f s was asked for, one every %.2f s was made\n", every, interval);
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
