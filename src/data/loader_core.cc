#include "data/loader_core.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kBatchAlignment - 1) / kBatchAlignment * kBatchAlignment; }

/// Blocks all signals for this thread and the threads that it starts, so that the caller's thread receives Ctrl-C.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

LoaderCore::LoaderCore(std::shared_ptr<const Store> store, LoaderOptions options)
    : store_(std::move(store)), options_(std::move(options)) {
  check_options();
  fields_ = store_->fields();
  if (!options_.transformed.empty()) {
    transformed_ = store_->field(options_.transformed);
    transform_.emplace(*store_, transformed_, options_.transform, options_.seed);
    fields_[transformed_] = transform_->output();
  }
  sampler_.emplace(store_->size(), options_);
  std::size_t bytes = 0;
  for (const Field& field : fields_) {
    offsets_.push_back(bytes);
    bytes += aligned(field.bytes() * static_cast<std::size_t>(sampler_->max_share()));
  }
  slots_ = std::vector<Slot>(static_cast<std::size_t>(options_.depth));
  for (Slot& slot : slots_) {
    slot.memory.reset(new (std::align_val_t(kBatchAlignment)) std::byte[std::max(bytes, kBatchAlignment)]());
  }
  position_ = claim_at_ = sampler_->plan({}).begin;
}

void LoaderCore::check_options() const {
  const auto fail = [](const std::string& what) { throw InvalidArgument("[Loader] " + what); };
  if (store_ == nullptr) fail("expected a store; received none");
  if (store_->size() < 1) fail(fmt::format("{}: has no records", store_->name()));
  const LoaderOptions& o = options_;
  constexpr std::int64_t kMaxBatch = std::int64_t{1} << 31;
  if (o.batch < 1 || o.batch > kMaxBatch)
    fail(fmt::format("expected a batch of 1 to {}; received {}", kMaxBatch, o.batch));
  if (o.epochs < 0) fail(fmt::format("expected epochs of 0 or more; received {}", o.epochs));
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks) {
    fail(fmt::format("expected a rank from 0 to ranks - 1; received rank {} of {}", o.rank, o.ranks));
  }
  if (o.threads < 0 || o.threads > 256) fail(fmt::format("expected 0 to 256 threads; received {}", o.threads));
  if (o.depth < 1 || o.depth > 4096) fail(fmt::format("expected a depth of 1 to 4,096; received {}", o.depth));
  if (!(o.timeout > 0)) fail(fmt::format("expected a timeout above 0; received {}", o.timeout));
  if (o.last == LastBatch::drop && o.batch > store_->size()) {
    fail(
        fmt::format("expected at least one whole batch of {} records, because incomplete batches are dropped; received "
                    "{} records of {}",
                    grouped(o.batch), grouped(store_->size()), store_->name()));
  }
}

LoaderCore::~LoaderCore() { stop(); }

void LoaderCore::start() {
  const NoSignals no_signals;
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

void LoaderCore::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  emptied_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  stopping_ = false;
}

void LoaderCore::work() {
  Lock lock(mutex_);
  while (true) {
    emptied_.wait(lock, [&] { return stopping_ || (!ended_ && empty_slot() != nullptr); });
    if (stopping_) return;
    fill_next(lock);
  }
}

Slot* LoaderCore::empty_slot() {
  const auto found = std::ranges::find(slots_, Slot::State::empty, &Slot::state);
  return found == slots_.end() ? nullptr : &*found;
}

void LoaderCore::fill_next(Lock& lock) {
  Slot& slot = *empty_slot();
  slot.plan = sampler_->plan(claim_at_);
  if (slot.plan.count == 0) {
    ended_ = true;
    filled_.notify_all();
    return;
  }
  claim_at_ = slot.plan.end;
  pending_.push_back(&slot);
  slot.state = Slot::State::filling;
  slot.problem.reset();
  lock.unlock();
  thread_local std::vector<std::byte> scratch;
  try {
    fill(slot, scratch);
  } catch (...) {
    slot.problem = Problem::current();
  }
  lock.lock();
  slot.state = Slot::State::ready;
  filled_.notify_all();
}

void LoaderCore::fill(Slot& slot, std::vector<std::byte>& scratch) const {
  sampler_->samples(slot.plan, slot.samples);
  slot.records.clear();
  for (const Sample& sample : slot.samples) slot.records.push_back(sample.record);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    std::byte* out = slot.memory.get() + offsets_[f];
    if (transform_ && f == transformed_) {
      auto* floats = reinterpret_cast<float*>(out);
      for (const Sample& sample : slot.samples) {
        transform_->apply(sample, scratch, floats);
        floats += fields_[f].count();
      }
    } else {
      store_->read(f, slot.records, {out, slot.records.size() * fields_[f].bytes()});
    }
  }
}

std::optional<Batch> LoaderCore::next() {
  Lock lock(mutex_);
  if (std::ranges::all_of(slots_, [](const Slot& slot) { return slot.state == Slot::State::held; })) {
    throw StateError(
        fmt::format("[Loader.next] the caller holds all {} batches that there is room for: release one, or "
                    "give the loader more depth",
                    slots_.size()));
  }
  if (options_.threads == 0) {
    if (pending_.empty() && !ended_) fill_next(lock);
  } else {
    const auto done = [&] { return pending_.empty() ? ended_ : pending_.front()->state == Slot::State::ready; };
    const auto wait = std::chrono::duration<double>(std::min(options_.timeout, 1e8));
    if (!filled_.wait_for(lock, wait, done)) {
      const LoaderPosition& at = pending_.empty() ? claim_at_ : pending_.front()->plan.begin;
      throw TimeoutError(fmt::format("[Loader.next] no batch after {} s: {} {} (epoch {}, position {})",
                                     options_.timeout,
                                     pending_.empty() ? "no thread has started to read" : "a thread is still reading",
                                     store_->name(), at.epoch, grouped(at.offset)));
    }
  }
  if (pending_.empty()) return std::nullopt;
  Slot& slot = *pending_.front();
  if (slot.problem) slot.problem->raise();
  pending_.pop_front();
  slot.state = Slot::State::held;
  position_ = slot.plan.end;
  return Batch(this, &slot);
}

void LoaderCore::release(Slot& slot) {
  {
    const std::scoped_lock lock(mutex_);
    slot.state = Slot::State::empty;
  }
  emptied_.notify_all();
}

LoaderPosition LoaderCore::position() const {
  const std::scoped_lock lock(mutex_);
  return position_;
}

void LoaderCore::restore(const LoaderPosition& position) {
  if (position.seed != options_.seed || position.records != store_->size()) {
    throw InvalidArgument(fmt::format(
        "[Loader.restore] the position belongs to seed {} over {} records; {} has {} records, and the seed is {}",
        position.seed, grouped(position.records), store_->name(), grouped(store_->size()), options_.seed));
  }
  if (position.epoch < 0 || position.offset < 0 || position.offset > position.records) {
    throw InvalidArgument(fmt::format("[Loader.restore] epoch {}, offset {} is not a position in {} records",
                                      position.epoch, position.offset, grouped(position.records)));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.state == Slot::State::held; })) {
      throw StateError("[Loader.restore] the caller still holds a batch: release it first");
    }
  }
  stop();
  for (Slot& slot : slots_) {
    slot.state = Slot::State::empty;
    slot.problem.reset();
  }
  pending_.clear();
  ended_ = false;
  position_ = claim_at_ = sampler_->plan(position).begin;
  start();
}

std::span<const std::byte> LoaderCore::bytes(const Slot& slot, std::size_t field) const {
  if (field >= fields_.size()) {
    throw InvalidArgument(
        fmt::format("[Batch] {} has {} fields; received the index {}", store_->name(), fields_.size(), field));
  }
  return {slot.memory.get() + offsets_[field], slot.records.size() * fields_[field].bytes()};
}

}  // namespace pleiad::data
