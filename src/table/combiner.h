// Adds of one host's ranks become one before they cross the network. For a chunk of another host's values the rank that
// comes first leads: it sends its own delta and what its neighbours have put beside it meanwhile; they wait until that
// is acknowledged. Nothing is sent later than the patience below, so no add waits for a neighbour that does not come.
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
  /// Chunks are worked on in runs of this many: so adds of any length are combined in little memory.
  static constexpr std::size_t kRun = 32;
  static constexpr int kMostRanks = 64;

  /// Collective. `chunk_bytes` is the longest chunk. In rounds every one of the `workers` on this host comes once.
  Combiner(Engine& engine, DType dtype, std::size_t chunks, std::size_t chunk_bytes, bool rounds, int workers);

  /// One add. At its end, by an error too, neighbours whose deltas it has taken learn how that ended.
  class Call {
   public:
    Call(Combiner& combiner, const Asker& asker, const Rates& rates);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// True where a neighbour sends this rank's delta along with its own; else this rank sends it. put(sum, fresh)
    /// copies it to `sum` where that is fresh, else adds it.
    [[nodiscard]] bool join(std::size_t chunk, FunctionRef<void(char* sum, bool fresh)> put);
    /// Waits a moment for neighbours to join what this rank is about to send.
    void gather(std::size_t bytes);
    /// Before chunk is sent (again): adds to `delta` what the neighbours have put beside it. The lowest worker among
    /// them and its rates stand for all.
    void close(std::size_t chunk, std::span<char> delta, Asker& asker, Rates& rates);
    /// The other host has carried it out.
    void acknowledged(std::size_t chunk);
    /// Waits for the neighbours that this rank has joined, and throws the first thing that went wrong with them.
    void finish();
    /// The same for those that are done.
    void collect();
    /// What the neighbours hear of the chunks that are not acknowledged by the end.
    void fail(Problem problem) { failure_ = std::move(problem); }

   private:
    struct Led {
      std::size_t chunk;
      std::size_t slot;
    };
    struct Followed {
      std::size_t slot;
      int leader;
    };
    [[nodiscard]] std::optional<std::size_t> led(std::size_t chunk) const;
    [[nodiscard]] bool all_here() const;
    void pick_up(std::size_t slot);

    Combiner& combiner_;
    Engine& engine_;
    Asker asker_;
    Rates rates_;
    std::vector<Led> led_;
    std::vector<Followed> followed_;
    std::optional<Problem> problem_;  ///< of those that this rank has joined
    std::optional<Problem> failure_;
  };

  /// Chunks of this rank that a neighbour has sent along.
  [[nodiscard]] std::uint64_t combined() const { return combined_.load(); }

 private:
  enum class State : std::uint32_t { free, open, closed, done, failed };
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> lock{0};
    std::atomic<State> state{State::free};
    std::atomic<std::uint32_t> joined{0};
    // All guarded by lock.
    std::int32_t leader = 0;
    std::int32_t worker = 0;  ///< the lowest that joined, and its rates
    Rates rates;
    Rates lowest_rates;
    std::uint64_t chunk = 0;
    std::uint64_t round = 0;
    std::uint64_t members = 0;  ///< local ranks that joined and have not picked up the end
    std::uint32_t filled = 0;
    std::uint32_t torn = 0;  ///< a neighbour died in the middle of joining
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
