// The ranks that train one net together, and the one order in which they do what they do together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "plan/worker.h"
#include "pleiad/nn/layer.h"
#include "pleiad/session.h"

namespace pleiad {

/// What is posted is carried out by another thread, in order; what is run, by the caller when everything posted is
/// done. Ranks that post and run the same in the same order so make the same collective calls in the same order,
/// whatever overlaps with what. One thread posts and runs. What a task throws comes out of the next run or finish.
class Crew final : public nn::BatchParts {
 public:
  /// Null: a world of one, without a thread. The session outlives this.
  explicit Crew(Session* session);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// How many compute: the first ones. The others hold tables, and take part in what all do together.
  [[nodiscard]] int workers() const { return workers_; }
  /// Whether there is a session, maybe of one rank.
  [[nodiscard]] bool shared() const { return session_ != nullptr; }
  /// Where there is one.
  [[nodiscard]] Session& session() const { return *session_; }

  void post(std::function<void()> task);
  void finish();
  /// Before what the posted tasks work on goes away, whatever happened.
  void drop() noexcept;
  void run(FunctionRef<void()> task);

  // Collective, in turn; in a world of one they copy or do nothing.
  [[nodiscard]] int count() const override { return size_; }
  [[nodiscard]] int index() const override { return rank_; }
  void sum(std::span<double> numbers) override;
  void sum(std::span<std::int64_t> numbers) override;
  void broadcast(View numbers, int root);
  void gather(ConstView mine, View all);
  void scatter_sum(ConstView all, View mine);
  void barrier();
  /// Every rank's text, by rank.
  [[nodiscard]] std::vector<std::string> gather_texts(const std::string& mine);

 private:
  Session* session_;
  int rank_ = 0;
  int size_ = 1;
  int workers_ = 1;
  std::unique_ptr<Worker> worker_;
};

}  // namespace pleiad
