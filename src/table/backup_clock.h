// The clock of rounds with backup workers, for workers on one host. With several hosts, HomeClock keeps the rounds.
#pragma once

#include "table/backup_rounds.h"
#include "table/clock.h"

namespace pleiad {

class BackupClock final : public Clock {
 public:
  BackupClock(TableContext& context, const Storage& storage, int spare);

  Turn begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call call) const override;
  [[nodiscard]] std::uint64_t round() const override {
    return storage_.clock(context_.roster.worker).adds_issued.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t complete_rounds() const override;
  [[nodiscard]] std::uint64_t settle() const override { return complete_rounds(); }

 private:
  [[nodiscard]] bool closed(std::uint64_t round) const;

  TableContext& context_;
  const Storage& storage_;
  BackupRounds rounds_;
};

}  // namespace pleiad
