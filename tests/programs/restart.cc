// A job that resumes from its last snapshot: restart FOLDER STEPS [FILE]. With a FILE, all ranks wait before the last
// step until it exists. Every worker's adds depend only on the step and on the worker, so the final tables do not
// depend on how often the job was killed.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "pleiad/pleiad.hpp"
#include "tests/eventually.h"
#include "tests/programs/line.h"

using namespace pleiad;

namespace {

constexpr std::int64_t kCount = 1'000;

void say(int rank, const std::string& key, const std::string& value) {
  print_line("{\"rank\": " + std::to_string(rank) + ", " + json_string(key) + ": " + json_string(value) + "}");
}

template <class T>
std::vector<T> numbers(int worker, std::int64_t step) {
  std::vector<T> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<T>((i * 13 + step * 7 + worker * 5) % 31 - 15);
  }
  return values;
}

template <class T>
std::string digest(const ArrayTable& table) {
  std::vector<T> values(kCount);
  table.get(values);
  std::uint64_t hash = 1469598103934665603U;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 1099511628211U;
  return std::to_string(hash);
}

/// Returns the newest committed snapshot, found without Pleiad's help, or 0.
std::int64_t newest_in(const std::filesystem::path& run) {
  std::int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (!std::filesystem::exists(entry.path() / "manifest.json")) continue;
    newest = std::max<std::int64_t>(newest, std::atoll(name.substr(name.find('-') + 1).c_str()));
  }
  return newest;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argv[1];
  const std::int64_t steps = std::atoll(argv[2]);
  try {
    Session session = Session::start();
    std::ofstream(folder + "/pids", std::ios::app) << getpid() << std::endl;
    TableOptions sums;
    sums.name = "sums";
    sums.dtype = DType::int64;
    const ArrayTable async = session.create_array(kCount, sums);
    TableOptions rounds;
    rounds.name = "rounds";
    rounds.clock = "sync";
    rounds.apply = "round";
    rounds.ordered = true;
    rounds.updater.rule = "adam";
    const ArrayTable sync = session.create_array(kCount, rounds);

    Snapshots snapshots(session, folder + "/run", {.every_steps = 3});
    if (session.rank() == 0) say(0, "newest", std::to_string(newest_in(folder + "/run")));
    const auto note = snapshots.load_last();
    if (session.rank() == 0) say(0, "from", std::to_string(note ? note->step : 0));
    for (std::int64_t step = note ? note->step + 1 : 1; step <= steps; ++step) {
      if (step == steps && argc > 3) (void)eventually([&] { return access(argv[3], F_OK) == 0; });
      async.add(numbers<std::int64_t>(session.worker_id(), step));
      sync.add(numbers<float>(session.worker_id(), step));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      snapshots.step(step);
    }
    snapshots.save({.step = steps, .text = {}});
    say(session.rank(), "sums", digest<std::int64_t>(async));
    say(session.rank(), "rounds", digest<float>(sync));
    snapshots.wait();
    session.shutdown();
  } catch (const std::exception& error) {
    say(-1, "ended", error.what());
    return 1;
  }
  return 0;
}
