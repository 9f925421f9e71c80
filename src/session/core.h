// What a session owns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pleiad/session.h"
#include "session/signal_report.h"
#include "table/context.h"
#include "table/table.h"

namespace pleiad {

class SessionCore {
 public:
  /// Joins the world that the launcher made, or makes a world of one. The environment wins over `options`.
  [[nodiscard]] static std::shared_ptr<SessionCore> start(SessionOptions options, std::function<bool()> interrupt = {});
  /// Collective: the ranks tell each other their roles.
  explicit SessionCore(std::shared_ptr<Engine> engine);
  ~SessionCore();
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] TableContext& context() const { return *context_; }
  [[nodiscard]] std::shared_ptr<Table> create(TableSpec spec, ConstView initial);
  /// In the order of their creation.
  [[nodiscard]] std::vector<std::shared_ptr<Table>> tables() const;
  void flush();
  void shutdown();
  [[nodiscard]] std::string table_name(std::uint32_t id) const;
  [[nodiscard]] std::string stats() const;

  struct CollectiveCounts {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, ns{0};
  };
  CollectiveCounts collectives;
  /// Of what ranks make together, in the same order: the same number on all.
  [[nodiscard]] std::uint32_t next_exchange() { return exchanges_++; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<TableContext> context_;
  std::uint32_t exchanges_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Table>> tables_;  // guarded by mutex_
  std::vector<std::string> names_;              // guarded by mutex_; a table has its name before it is there
  std::unique_ptr<SignalReport> signal_report_;
};

}  // namespace pleiad
