// The ranks that train one net together. Gives all of them the same order of collective calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "plan/task_thread.h"
#include "pleiad/nn/layer.h"
#include "pleiad/session.h"

namespace pleiad {

/// A communicator with a background thread. The thread runs posted tasks in order. run() executes its task in the
/// caller after all posted tasks have finished. Ranks that post and run the same tasks in the same order therefore make
/// the same collective calls in the same order, even when communication overlaps with computation. Only one thread may
/// call post, run and finish. An exception that a task throws is rethrown by the next run or finish.
class Communicator final : public nn::BatchParts {
 public:
  /// A null session makes a group of one rank without a thread. The session must outlive this object.
  explicit Communicator(Session* session);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Returns the number of ranks that compute; they come first. The other ranks only hold tables and join collective
  /// calls.
  [[nodiscard]] int workers() const { return workers_; }
  /// Returns true if there is a session, even if it has only one rank.
  [[nodiscard]] bool shared() const { return session_ != nullptr; }
  /// Requires shared().
  [[nodiscard]] Session& session() const { return *session_; }

  void post(std::function<void()> task);
  void finish();
  /// Waits for the running task and discards the others and their errors. Call it before destroying what posted tasks
  /// use.
  void drop() noexcept;
  void run(FunctionRef<void()> task);

  // Collective calls, ordered like run(). Without a session they copy or do nothing.
  [[nodiscard]] int count() const override { return size_; }
  [[nodiscard]] int index() const override { return rank_; }
  void sum(std::span<double> numbers) override;
  void sum(std::span<std::int64_t> numbers) override;
  void broadcast(View numbers, int root);
  void gather(ConstView mine, View all);
  void scatter_sum(ConstView all, View mine);
  void barrier();
  /// Returns true if `mine` is true on any rank.
  [[nodiscard]] bool any(bool mine);
  /// Returns the text of every rank, by rank.
  [[nodiscard]] std::vector<std::string> gather_texts(const std::string& mine);

 private:
  Session* session_;
  int rank_ = 0;
  int size_ = 1;
  int workers_ = 1;
  std::unique_ptr<TaskThread> tasks_;
};

}  // namespace pleiad
