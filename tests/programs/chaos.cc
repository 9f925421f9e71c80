// A rank of a job under faults (tests/chaos.py). It adds ones to tables of every kind and clock, reads them, and
// records its operations in FOLDER/history-RANK (tests/history.py checks them):
//   chaos FOLDER [--twice] [--no-deduplication]
// It runs until the file FOLDER/stop exists, and then reads everything once more.
//
// --twice delivers every tenth request of another host twice, as a resend after a lost reply does.
// --no-deduplication removes the mark by which a service recognises the second delivery. The checker must notice that.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/rpc_transport.h"
#include "file/atomic.h"
#include "file/mapped.h"
#include "pleiad/pleiad.hpp"
#include "session/core.h"
#include "table/table_service.h"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;

enum class Event : std::int32_t { add = 1, added, add_failed, get, got, get_failed };

struct Record {
  std::int64_t time = 0;  ///< time by a clock that all hosts of the test share
  Event event = Event::add;
  std::int32_t table = 0;
  std::int64_t key = 0;
  std::int64_t low = 0;  ///< the least and the greatest value read
  std::int64_t high = 0;
};

/// The history survives the death of the process: each record is in the file when `put` returns.
class History {
 public:
  explicit History(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}

  void put(Event event, int table, std::int64_t key, std::int64_t low = 0, std::int64_t high = 0) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const Record record{now.tv_sec * 1'000'000'000LL + now.tv_nsec, event, table, key, low, high};
    (void)!write(file_, &record, sizeof record);
    if (event == Event::added) ++acknowledged_;
    if (event == Event::add_failed) ++unknown_;
  }
  [[nodiscard]] std::int64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] std::int64_t unknown() const { return unknown_; }

 private:
  int file_;
  std::atomic<std::int64_t> acknowledged_{0};
  std::atomic<std::int64_t> unknown_{0};
};

/// Receives the requests before the tables do.
class Twice final : public RequestHandler {
 public:
  Twice(RequestHandler& inner, bool deduplicates) : inner_(inner), deduplicates_(deduplicates) {}

  bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)> answer) override {
    const bool done = inner_.handle(request, answer);
    const auto operation = static_cast<TableOperation>(request.operation);
    const bool adds = operation == TableOperation::add || operation == TableOperation::add_rows;
    if (!done || !adds || ++count_ % 10 != 0) return done;
    IncomingRequest again = request;
    again.repeated = deduplicates_;
    return inner_.handle(again, answer);
  }
  void tick() override { inner_.tick(); }
  [[nodiscard]] bool unanswered() const override { return inner_.unanswered(); }

 private:
  RequestHandler& inner_;
  bool deduplicates_;
  int count_ = 0;
};

/// A counter of the histories: a table, or the file. Ones are added under a key.
struct Target {
  int number = 0;
  std::int64_t keys = 1;
  std::function<void(std::int64_t key)> add;
  std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t key)> get;
};

void add(History& history, const Target& target, std::int64_t key) {
  history.put(Event::add, target.number, key);
  try {
    target.add(key);
    history.put(Event::added, target.number, key);
  } catch (const Error&) {
    history.put(Event::add_failed, target.number, key);
    // Every add of unknown outcome weakens the checks, so the rank makes few of them.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool get(History& history, const Target& target, std::int64_t key) {
  history.put(Event::get, target.number, key);
  try {
    const auto [low, high] = target.get(key);
    history.put(Event::got, target.number, key, low, high);
    return true;
  } catch (const Error&) {
    history.put(Event::get_failed, target.number, key);
    return false;
  }
}

std::pair<std::int64_t, std::int64_t> extremes(const std::vector<std::int64_t>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

constexpr std::int64_t kSize = 40;
constexpr std::int64_t kRows = 12;
constexpr std::int64_t kColumns = 3;
constexpr int kFirstClocked = 10;
constexpr int kSecondsToFinish = 8;
constexpr std::int64_t kLast = 1'000'000'000'000;  // in a synchronous table: marks the last round

TableOptions counts(const std::string& name, const std::string& clock = "async") {
  TableOptions options;
  options.name = name;
  options.dtype = DType::int64;
  options.clock = clock;
  if (clock == "ssp") options.staleness = 2;
  return options;
}

/// True in the thread of the rounds.
thread_local bool counts_rounds = false;

/// Runs rounds on the tables with clocks: an add to each, then a get of each. Ends at the first error, or on all
/// workers after the same round: the one in which some worker added kLast to the first table.
std::string run_rounds(History& history, const std::vector<ArrayTable>& tables, const std::function<bool()>& over) {
  std::vector<std::int64_t> out(kSize);
  for (bool last = false; !last;) {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const int number = kFirstClocked + static_cast<int>(i);
      const std::int64_t value = i == 0 && over() ? kLast : 1;
      history.put(Event::add, number, 0);
      try {
        tables[i].add(std::vector<std::int64_t>(kSize, value));
        history.put(Event::added, number, 0);
        history.put(Event::get, number, 0);
        tables[i].get(out);
        const auto [low, high] = extremes(out);
        if (i == 0) last = high >= kLast;
        if (!last) history.put(Event::got, number, 0, low, high);
      } catch (const Error& error) {
        history.put(Event::get_failed, number, 0);
        return error.what();
      }
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto has = [&](const char* word) {
    return std::any_of(argv + 1, argv + argc, [&](const char* one) { return std::strcmp(one, word) == 0; });
  };
  Session session = Session::start();
  const std::string rank = std::to_string(session.rank());
  const ArrayTable array = session.create_array(kSize, counts("array"));
  const MatrixTable matrix = session.create_matrix(kRows, kColumns, counts("matrix"));
  const SparseTable sparse = session.create_sparse(kColumns, counts("sparse"));
  const KeyValueTable pairs = session.create_key_value(1, counts("key_value"));
  const ArrayTable bounded = session.create_array(kSize, counts("bounded", "ssp"));
  const ArrayTable rounds = session.create_array(kSize, counts("rounds", "sync"));
  TableOptions by_round = counts("sums", "sync");
  by_round.apply = "round";
  const ArrayTable sums = session.create_array(kSize, by_round);
  Twice twice(*session.core().context().service, !has("--no-deduplication"));
  if (has("--twice")) session.core().engine().rpc()->set_handler(&twice);
  session.barrier();

  History history(folder + "/history-" + rank);
  const std::vector<std::int64_t> ones(kSize, 1);
  const auto row = [&](auto& table) {
    return Target{0, kRows,
                  [&](std::int64_t key) { table.add(std::vector<RowId>{key}, std::vector<std::int64_t>(kColumns, 1)); },
                  [&](std::int64_t key) {
                    std::vector<std::int64_t> out(kColumns);
                    table.get(std::vector<RowId>{key}, out);
                    return extremes(out);
                  }};
  };
  const auto whole = [&](const ArrayTable& table) {
    return Target{0, 1, [&](std::int64_t) { table.add(ones); },
                  [&](std::int64_t) {
                    std::vector<std::int64_t> out(kSize);
                    table.get(out);
                    return extremes(out);
                  }};
  };
  // A file that is replaced again and again, on a disk that may be full. Its version counts the adds.
  Target file{0, 1, {}, {}};
  const std::string path = folder + "/disk/rank-" + rank;
  constexpr std::size_t kPadding = 20'000;
  const auto version = [&]() -> std::int64_t {
    if (access(path.c_str(), F_OK) != 0) return 0;
    const MappedFile content(path);
    const std::string text(reinterpret_cast<const char*>(content.bytes().data()), content.bytes().size());
    return text.size() > kPadding ? std::stoll(text.substr(kPadding)) : -1;
  };
  file.add = [&](std::int64_t) {
    const std::string text = std::string(kPadding, ' ') + std::to_string(version() + 1);
    write_whole_file(path, std::as_bytes(std::span(text)));
  };
  file.get = [&](std::int64_t) {
    const std::int64_t now = version();
    return std::pair(now, now);
  };
  std::vector<Target> targets = {
      whole(array),
      {0, kRows, [&](std::int64_t key) { matrix.add_row(key, std::vector<std::int64_t>(kColumns, 1)); },
       [&](std::int64_t key) {
         std::vector<std::int64_t> out(kColumns);
         matrix.get_row(key, out);
         return extremes(out);
       }},
      row(sparse),
      {0, kRows, [&](std::int64_t key) { pairs.add(std::vector<RowId>{key}, std::vector<std::int64_t>{1}); },
       [&](std::int64_t key) {
         std::vector<std::int64_t> out(1);
         pairs.get(std::vector<RowId>{key}, out);
         return extremes(out);
       }},
      file,
  };
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].number = static_cast<int>(i);
  const auto over = [&] { return access((folder + "/stop").c_str(), F_OK) == 0; };
  print_line("{\"rank\": " + rank + ", \"ready\": true, \"pid\": " + std::to_string(getpid()) + "}");

  // Clocked tables wait for the slowest rank, so they have a thread of their own. After an error on one rank, the
  // others would wait for its next round until the timeout.
  session.set_interrupt([&] {
    struct stat stopped{};
    if (!counts_rounds || stat((folder + "/stop").c_str(), &stopped) != 0) return false;
    return time(nullptr) - stopped.st_mtime > kSecondsToFinish;
  });
  std::thread clocked([&] {
    counts_rounds = true;
    const std::string error = run_rounds(history, {rounds, sums, bounded}, over);
    print_line("{\"rank\": " + rank + ", \"clocked\": " + json_string(error) + "}");
  });
  std::mt19937_64 random(static_cast<std::uint64_t>(session.rank()) + 1);
  while (!over()) {
    const Target& target = targets[random() % 64 == 0 ? 4 : random() % 4];
    const auto key = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(target.keys));
    add(history, target, key);
    if (random() % 4 == 0 || target.number == 4) (void)get(history, target, key);
  }
  clocked.join();
  for (const Target& target : targets) {
    for (std::int64_t key = 0; key < target.keys; ++key) {
      for (int attempt = 0; attempt < 20 && !get(history, target, key); ++attempt) {
      }
    }
  }
  print_line("{\"rank\": " + rank + ", \"acknowledged\": " + std::to_string(history.acknowledged()) +
             ", \"unknown\": " + std::to_string(history.unknown()) + "}");
  // The others may still read this rank's shards.
  while (access((folder + "/end").c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  _exit(0);
}
