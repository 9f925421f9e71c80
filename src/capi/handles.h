// The objects behind the handles of pleiad.h. A handle must not keep a world alive after its shutdown: otherwise a
// forgotten handle would prevent MPI from being finalised and another world from being joined.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "pleiad/pleiad.h"
#include "session/core.h"
#include "table/table.h"

namespace pleiad {

/// A session from start to shutdown, shared by its handle, its tables and its pending operations.
class CSession {
 public:
  explicit CSession(std::shared_ptr<SessionCore> core);

  /// Returns the core for the duration of one call: the session's tables and engine live as long as the result. Throws
  /// a StateError after the shutdown and in a forked child.
  [[nodiscard]] std::shared_ptr<SessionCore> use(std::string_view where) const;
  /// The same, but returns null after the shutdown.
  [[nodiscard]] std::shared_ptr<SessionCore> use_if_open(std::string_view where) const;
  [[nodiscard]] bool in_forked_child() const;

  [[nodiscard]] std::shared_ptr<Table> create(TableSpec spec, ConstView initial);
  /// Called when the handle of the table is freed. Each table has one handle.
  void release(const std::weak_ptr<Table>& table);
  void shutdown();
  /// Ends the session without waiting for the other ranks.
  void drop();
  /// Called when the process exits. The other ranks continue without this rank if the status is 0, and treat any other
  /// status as its death.
  void leave_at_exit(int status);

  void set_interrupt(pleiad_interrupt callback, void* data);

  /// Registers a pending operation. An operation refers to its engine, so ending the session first stores the outcomes
  /// of all registered operations. Returns false if the session is already over.
  [[nodiscard]] bool enlist(pleiad_pending* pending);
  void delist(pleiad_pending* pending);

 private:
  struct State {
    std::vector<std::shared_ptr<Table>> tables;  // guarded by mutex_
    std::shared_ptr<SessionCore> core;
  };

  bool interrupted() const;
  void close();

  const std::uint64_t generation_;
  mutable std::mutex mutex_;
  std::shared_ptr<State> state_;                 // guarded by mutex_; null after the session has ended
  std::unordered_set<pleiad_pending*> pending_;  // guarded by mutex_

  mutable std::mutex interrupt_mutex_;
  pleiad_interrupt interrupt_ = nullptr;  // guarded by interrupt_mutex_
  void* interrupt_data_ = nullptr;        // guarded by interrupt_mutex_
  std::atomic<bool> given_up_{false};
};

/// Returns a text that lives until this thread's next call.
[[nodiscard]] const char* keep_text(std::string text);

}  // namespace pleiad

struct pleiad_session {
  std::shared_ptr<pleiad::CSession> session;
};

namespace pleiad {

/// Keeps a table alive during one call from C: neither the end of the session nor close() releases it in the meantime.
class TableLease {
 public:
  explicit TableLease(std::shared_ptr<Table> table) : table_(std::move(table)), use_(*table_) {}
  Table* operator->() const { return table_.get(); }
  Table& operator*() const { return *table_; }
  [[nodiscard]] const std::shared_ptr<Table>& table() const { return table_; }

 private:
  std::shared_ptr<Table> table_;
  TableUse use_;
};

}  // namespace pleiad

struct pleiad_table {
  std::shared_ptr<pleiad::CSession> session;
  std::weak_ptr<pleiad::Table> table;  // the session owns the table until its shutdown or until this handle is freed

  [[nodiscard]] std::shared_ptr<pleiad::Table> find(std::string_view where) const;
  [[nodiscard]] pleiad::TableLease use(std::string_view where) const { return pleiad::TableLease(find(where)); }
};

struct pleiad_pending {
  std::shared_ptr<pleiad::CSession> session;
  mutable std::mutex mutex;
  std::shared_ptr<pleiad::Pending> operation;  // guarded by mutex; null after the outcome is known
  int code = PLEIAD_OK;                        // guarded by mutex; the outcome
  std::string message;                         // guarded by mutex

  /// Waits and stores the outcome. The operation is not needed afterwards.
  void finish();
  /// Stores the outcome for an operation whose session ends before it is complete.
  void give_up();
};
