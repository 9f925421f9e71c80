#include "plan/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/kernels.h"
#include "pleiad/error.h"

namespace pleiad {

Communicator::Communicator(Session* session) : session_(session) {
  if (session == nullptr) return;
  rank_ = session->rank();
  size_ = session->size();
  workers_ = session->workers();
  for (int worker = 0; worker < workers_; ++worker) {
    if (session->ranks().worker_rank(worker) != worker) {
      throw InvalidArgument(fmt::format("ranks that only serve must come after the workers; worker {} is rank {}",
                                        worker, session->ranks().worker_rank(worker)));
    }
  }
  tasks_ = std::make_unique<TaskThread>();
}

void Communicator::post(std::function<void()> task) {
  if (tasks_ == nullptr) return task();
  tasks_->post(std::move(task));
}

void Communicator::finish() {
  if (tasks_ != nullptr) tasks_->wait();
}

void Communicator::drop() noexcept {
  if (tasks_ != nullptr) tasks_->drop();
}

void Communicator::run(FunctionRef<void()> task) {
  finish();
  task();
}

void Communicator::sum(std::span<double> numbers) {
  if (session_ != nullptr) run([&] { session_->all_reduce(numbers); });
}

void Communicator::sum(std::span<std::int64_t> numbers) {
  if (session_ != nullptr) run([&] { session_->all_reduce(numbers); });
}

bool Communicator::any(bool mine) {
  if (size_ == 1) return mine;
  double votes = mine ? 1 : 0;
  sum({&votes, 1});
  return votes > 0;
}

void Communicator::broadcast(View numbers, int root) {
  if (session_ != nullptr) run([&] { session_->broadcast(numbers, root); });
}

void Communicator::gather(ConstView mine, View all) {
  if (session_ != nullptr) return run([&] { session_->all_gather(mine, all); });
  copy_bytes(all.data, mine.data, static_cast<std::size_t>(mine.count) * size_of(mine.dtype));
}

void Communicator::scatter_sum(ConstView all, View mine) {
  if (session_ != nullptr) return run([&] { session_->reduce_scatter(all, mine); });
  copy_bytes(mine.data, all.data, static_cast<std::size_t>(mine.count) * size_of(mine.dtype));
}

void Communicator::barrier() {
  if (session_ != nullptr) run([&] { session_->barrier(); });
}

std::vector<std::string> Communicator::gather_texts(const std::string& mine) {
  if (session_ == nullptr) return {mine};
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size_));
  gather(std::vector<std::int64_t>{static_cast<std::int64_t>(mine.size())}, lengths);
  // Texts are sent as int32, padded to the longest one.
  const auto words = static_cast<std::size_t>(std::ranges::max(lengths) / 4 + 1);
  std::vector<std::int32_t> packed(words);
  std::memcpy(packed.data(), mine.data(), mine.size());
  std::vector<std::int32_t> all(words * lengths.size());
  gather(packed, all);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + i * words), static_cast<std::size_t>(lengths[i]));
  }
  return texts;
}

}  // namespace pleiad
