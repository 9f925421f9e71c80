// What all tables of a session share.
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

/// Which ranks are workers and servers, in rank order.
struct Roster {
  std::vector<int> workers;
  std::vector<int> servers;
  int worker = -1;  ///< this rank's number among the workers, or -1
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
  OperationQueue clocked;     ///< operations on synchronous tables that must wait, in order
  OperationQueue background;  ///< large asynchronous gets; on several hosts adds too
  std::atomic<bool> in_clocked_call{false};
  std::function<void(std::uint32_t)> forget;  ///< removes a table from the session's list
  std::unique_ptr<TableService> service;      ///< of a world on several hosts, until the session ends
};

}  // namespace pleiad
