// Combines the adds of one host's ranks before they cross the network. For each chunk of another host's values, the
// rank that arrives first becomes the leader: it sends the sum of its own delta and those that other ranks of the host
// have joined to it in the meantime. These ranks wait for the acknowledgement. The leader waits for others only for a
// limited time, so no add waits for a rank that does not come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "core/problem.h"
#include "engine/engine.h"
#include "table/shard.h"

namespace pleiad {

class Combiner {
 public:
  /// Number of chunks that are processed together, which limits the memory for adds of any length.
  static constexpr std::size_t kRun = 32;
  static constexpr int kMostRanks = 64;

  /// Collective. `chunk_bytes` is the size of the longest chunk. With rounds, each of the `workers` on this host
  /// arrives exactly once.
  Combiner(Engine& engine, DType dtype, std::size_t chunks, std::size_t chunk_bytes, bool rounds, int workers);

  /// One add. When it ends, also by an error, the ranks whose deltas it has taken learn the result.
  class Call {
   public:
    Call(Combiner& combiner, const Requester& requester, const Rates& rates);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Returns true if another rank of the host sends this rank's delta along with its own; otherwise this rank must
    /// send it. put(sum, fresh) copies the delta to `sum` if fresh, and adds it otherwise.
    [[nodiscard]] bool join(std::size_t chunk, FunctionRef<void(char* sum, bool fresh)> put);
    /// Waits briefly for other ranks to join what this rank is about to send.
    void gather(std::size_t bytes);
    /// Called before the chunk is sent, also when it is sent again. Adds to `delta` what the other ranks have joined.
    /// The lowest worker among them and its rates represent all of them.
    void close(std::size_t chunk, std::span<char> delta, Requester& requester, Rates& rates);
    /// Records that the other host has applied the chunk.
    void acknowledged(std::size_t chunk);
    /// Waits for the leaders that this rank has joined. Throws the first error among them.
    void finish();
    /// Collects the results of the sends that have completed, without waiting.
    void collect();
    /// Sets the error for the ranks whose chunks are not acknowledged by the end.
    void fail(Problem problem) { failure_ = std::move(problem); }

   private:
    struct LedSlot {
      std::size_t chunk;
      std::size_t slot;
    };
    struct JoinedSlot {
      std::size_t slot;
      int leader;
    };
    [[nodiscard]] std::optional<std::size_t> led(std::size_t chunk) const;
    [[nodiscard]] bool all_here() const;
    void pick_up(std::size_t slot);

    Combiner& combiner_;
    Engine& engine_;
    Requester requester_;
    Rates rates_;
    std::vector<LedSlot> led_;
    std::vector<JoinedSlot> joined_;
    std::optional<Problem> problem_;  ///< of the leaders that this rank has joined
    std::optional<Problem> failure_;
  };

  /// Returns the number of chunks of this rank that another rank has sent together with its own.
  [[nodiscard]] std::uint64_t combined() const { return combined_.load(); }

 private:
  enum class State : std::uint32_t { free, open, closed, done, failed };
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> lock{0};
    std::atomic<State> state{State::free};
    std::atomic<std::uint32_t> joined{0};
    // The following members are guarded by lock.
    std::int32_t leader = 0;
    std::int32_t worker = 0;  ///< the lowest worker that joined; lowest_rates are its rates
    Rates rates;
    Rates lowest_rates;
    std::uint64_t chunk = 0;
    std::uint64_t round = 0;
    std::uint64_t members = 0;  ///< local ranks that have joined and not yet picked up the result
    std::uint32_t filled = 0;
    std::uint32_t torn = 0;  ///< a rank died in the middle of joining
    ErrorKind kind = ErrorKind::internal;
    char problem[512] = {};
  };

  [[nodiscard]] Slot& slot(std::size_t index) const { return reinterpret_cast<Slot*>(segment_->data())[index]; }
  [[nodiscard]] char* sum(std::size_t index) const;
  [[nodiscard]] Event& moved() const;
  void reap(Slot& slot) const;
  void end(Slot& slot, const Problem* problem) const;

  Engine& engine_;
  DType dtype_;
  std::size_t width_;
  std::size_t classes_;
  std::size_t chunk_bytes_;
  bool rounds_;
  int workers_;
  std::shared_ptr<Segment> segment_;
  std::atomic<std::uint64_t> combined_{0};
};

}  // namespace pleiad
