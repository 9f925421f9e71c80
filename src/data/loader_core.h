// The buffers of the loader and the threads that fill them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/problem.h"
#include "data/sampler.h"
#include "data/transform.h"
#include "pleiad/data.h"

namespace pleiad::data {

inline constexpr std::size_t kBatchAlignment = 64;

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t(kBatchAlignment)); }
};

/// A buffer for one batch. Its content belongs to the thread that fills it, and then to the caller.
struct Slot {
  enum class State : std::uint8_t { empty, filling, ready, held };

  State state = State::empty;  ///< guarded by LoaderCore's mutex
  BatchPlan plan;
  std::vector<Sample> samples;
  std::vector<std::int64_t> records;
  std::unique_ptr<std::byte[], FreeAligned> memory;
  std::optional<Problem> problem;  ///< why the slot has no content
};

/// Threads claim batches in order and fill each into any empty slot. `pending_` preserves the order, whichever is ready
/// first.
class LoaderCore {
 public:
  LoaderCore(std::shared_ptr<const Store> store, LoaderOptions options);
  ~LoaderCore();
  LoaderCore(const LoaderCore&) = delete;
  LoaderCore& operator=(const LoaderCore&) = delete;

  void start();
  [[nodiscard]] std::optional<Batch> next();
  void release(Slot& slot);
  [[nodiscard]] LoaderPosition position() const;
  void restore(const LoaderPosition& position);

  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  [[nodiscard]] const LoaderOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t records() const { return store_->size(); }
  /// Returns the bytes of a field in a slot. Checks the index.
  [[nodiscard]] std::span<const std::byte> bytes(const Slot& slot, std::size_t field) const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void check_options() const;
  void stop();
  void work();
  /// Claims the next batch, if there is one, and fills its slot. Releases the lock while it fills.
  void fill_next(Lock& lock);
  void fill(Slot& slot, std::vector<std::byte>& scratch) const;
  /// Requires mutex_. Returns null if there is none.
  [[nodiscard]] Slot* empty_slot();

  const std::shared_ptr<const Store> store_;
  const LoaderOptions options_;
  std::optional<Transform> transform_;
  std::size_t transformed_ = 0;
  std::vector<Field> fields_;
  std::vector<std::size_t> offsets_;  ///< of the fields in a slot's memory
  std::optional<Sampler> sampler_;
  std::vector<std::thread> threads_;

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable emptied_;
  std::condition_variable filled_;
  std::vector<Slot> slots_;
  std::deque<Slot*> pending_;  ///< filling or ready, in the order of the batches
  bool ended_ = false;         ///< no batch follows those in pending_
  bool stopping_ = false;
  LoaderPosition claim_at_;
  LoaderPosition position_;
};

}  // namespace pleiad::data
