// The state that all tables of a session share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "table/failed_calls.h"
#include "table/ledger.h"
#include "table/queue.h"

namespace pleiad {

/// The ranks that are workers and servers, in rank order.
struct Roster {
  std::vector<int> workers;
  std::vector<int> servers;
  int worker = -1;  ///< this rank's index among the workers, or -1; likewise `server`
  int server = -1;
};

class TableService;

class TableContext {
 public:
  TableContext(std::shared_ptr<Engine> the_engine, Roster the_roster);
  ~TableContext();

  const std::shared_ptr<Engine> engine;
  const Roster roster;
  CallLedger ledger;
  FailedCalls failures;
  OperationQueue clocked;     ///< pending operations on synchronous tables, in order
  OperationQueue background;  ///< large asynchronous gets; with several hosts also adds
  std::atomic<bool> in_clocked_call{false};
  std::function<void(std::uint32_t)> forget;  ///< removes a table from the session's list
  std::unique_ptr<TableService> service;      ///< only with several hosts, until the session ends
};

}  // namespace pleiad
