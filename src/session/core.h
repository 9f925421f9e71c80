// The core of a session: the engine, the tables and the context that they share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/session.h"
#include "session/signal_report.h"
#include "table/context.h"
#include "table/table.h"

namespace pleiad {

class SessionCore {
 public:
  /// Joins the world that the launcher made, or makes a world of one rank. The environment overrides `options`.
  [[nodiscard]] static std::shared_ptr<SessionCore> start(SessionOptions options, std::function<bool()> interrupt = {});
  /// Collective: the ranks exchange their roles.
  explicit SessionCore(std::shared_ptr<Engine> engine);
  ~SessionCore();
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] TableContext& context() const { return *context_; }
  [[nodiscard]] std::shared_ptr<Table> create(TableSpec spec, ConstView initial);
  [[noreturn]] void refuse_table(const std::string& why);
  /// Returns the tables in the order of their creation.
  [[nodiscard]] std::vector<std::shared_ptr<Table>> tables() const;
  /// Waits until all pending calls of this rank are complete. Their errors stay recorded.
  void flush();
  /// Collective: flushes, waits for all ranks, releases tables that no rank uses any more, and throws the error of an
  /// earlier call if it has not been thrown yet.
  void barrier();
  /// The same, but an earlier error of one rank is thrown on all of them. `where` begins the message on the other
  /// ranks.
  void barrier_for_all(std::string_view where);
  void shutdown();
  [[nodiscard]] std::string table_name(std::uint32_t id) const;
  [[nodiscard]] std::string stats() const;

  struct CollectiveCounts {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, ns{0};
  };
  CollectiveCounts collectives;
  /// Returns the sequence number of an object that all ranks make together in the same order, so it is the same on all
  /// ranks.
  [[nodiscard]] std::uint32_t next_exchange() { return exchanges_++; }

 private:
  void meet();
  /// Returns true if this rank has dropped all its handles of some table.
  [[nodiscard]] bool has_unused_tables() const;
  /// Collective: releases the tables whose handles every rank has dropped.
  void release_unused_tables();
  void forget(std::uint32_t id);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<TableContext> context_;
  std::uint32_t exchanges_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Table>> tables_;  // guarded by mutex_
  std::vector<std::string> names_;  // guarded by mutex_; a table's name is registered before the table itself
  std::unique_ptr<SignalReport> signal_report_;
};

}  // namespace pleiad
