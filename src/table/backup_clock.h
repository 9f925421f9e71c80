// Rounds that do not wait for the slowest workers. A round is closed when all but `spare` workers have added to it and
// nobody is in the middle of such an add. Whoever comes later with an add to it has computed on old values: that add is
// dropped and counted, and the worker goes on from the newest values that its next get brings. For workers of one host.
#pragma once

#include "table/clock.h"

namespace pleiad {

class BackupClock final : public Clock {
 public:
  /// Of a ClockSlot it uses adds_issued for the round that the worker is adding to or has added to last, adds_done for
  /// the last round that it has added to, and gets_done for the last closed round that it has seen.
  BackupClock(TableContext& context, const Storage& storage, int spare);

  Turn begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call call) const override;
  [[nodiscard]] std::uint64_t round() const override { return mine().adds_issued.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t complete_rounds() const override;

 private:
  [[nodiscard]] ClockSlot& mine() const { return storage_.clock(context_.roster.worker); }
  /// The round that must be closed before `call` may start.
  [[nodiscard]] std::uint64_t needed(Call call) const;
  [[nodiscard]] std::uint64_t next_round() const;
  /// Closes every round that can be, and says whether `round` is.
  [[nodiscard]] bool closed(std::uint64_t round) const;
  [[nodiscard]] bool lacks(std::uint64_t round, int worker) const;

  TableContext& context_;
  const Storage& storage_;
  int spare_;
};

}  // namespace pleiad
