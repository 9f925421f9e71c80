// The job's key reaches every rank, and nobody who reads the connection learns it.
#include "engine/key_agreement.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "pleiad/error.h"

namespace pleiad {
namespace {

// Ranks as threads that exchange their messages over a connection that records everything.
class Recorder {
 public:
  explicit Recorder(int ranks) : ranks_(static_cast<std::size_t>(ranks)), arrived_(ranks), left_(ranks) {}

  void gather(int rank, const void* mine, void* all, std::size_t bytes) {
    if (rank == 0) board_.assign(bytes * ranks_, '\0');
    arrived_.arrive_and_wait();
    std::memcpy(board_.data() + static_cast<std::size_t>(rank) * bytes, mine, bytes);
    left_.arrive_and_wait();
    if (rank == 0) {
      heard += board_;
      if (disturb && bytes > 32) board_[5] = static_cast<char>(board_[5] ^ 1);
    }
    arrived_.arrive_and_wait();
    std::memcpy(all, board_.data(), board_.size());
    left_.arrive_and_wait();
  }

  std::string heard;
  bool disturb = false;

 private:
  std::size_t ranks_;
  std::string board_;
  std::barrier<> arrived_;
  std::barrier<> left_;
};

std::vector<JobKey> agree(Recorder& recorder, int ranks, std::vector<std::string>* errors = nullptr) {
  std::vector<JobKey> keys(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto gather = [&](const void* mine, void* all, std::size_t bytes) { recorder.gather(r, mine, all, bytes); };
      try {
        keys[static_cast<std::size_t>(r)] = agree_on_key(r, ranks, gather);
      } catch (const TransportError& error) {
        if (errors != nullptr) (*errors)[static_cast<std::size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return keys;
}

TEST(KeyAgreement, EveryRankReceivesTheKeyAndAListenerNoPartOfIt) {
  for (const int ranks : {1, 2, 3, 8, 13}) {
    Recorder recorder(ranks);
    const std::vector<JobKey> keys = agree(recorder, ranks);
    for (const JobKey& key : keys) EXPECT_EQ(key, keys[0]) << ranks;
    const std::string text(reinterpret_cast<const char*>(&keys[0]), sizeof keys[0]);
    for (std::size_t at = 0; at + 4 <= text.size(); at += 4) {
      EXPECT_EQ(recorder.heard.find(text.substr(at, 4)), std::string::npos) << ranks;
    }
    Recorder again(ranks);
    EXPECT_NE(agree(again, ranks)[0], keys[0]) << "each job has a key of its own";
  }
}

TEST(KeyAgreement, AChangedBoxIsAnErrorOfItsReceiver) {
  Recorder recorder(2);
  recorder.disturb = true;
  std::vector<std::string> errors(2);
  (void)agree(recorder, 2, &errors);
  EXPECT_NE(errors[1].find("was altered in transit"), std::string::npos) << errors[1];
}

}  // namespace
}  // namespace pleiad
