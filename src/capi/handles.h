// What the handles of pleiad.h point to. They hold nothing that would keep a world alive after its shutdown: MPI could
// not be finalised, nor another world joined, as long as somebody has forgotten to free one.
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

/// A session from its start to its shutdown, as its handle, its tables and its pending operations share it.
class CSession {
 public:
  explicit CSession(std::shared_ptr<SessionCore> core);

  /// The core, for one call: the session's tables and engine stay until the result is gone. Throws a StateError after
  /// the shutdown and in a forked child.
  [[nodiscard]] std::shared_ptr<SessionCore> use(std::string_view where) const;
  /// The same, but null after the shutdown.
  [[nodiscard]] std::shared_ptr<SessionCore> use_if_open(std::string_view where) const;
  [[nodiscard]] bool in_forked_child() const;

  [[nodiscard]] std::shared_ptr<Table> create(TableSpec spec, ConstView initial);
  /// A handle of the table was freed. Each table has one.
  void release(const std::weak_ptr<Table>& table);
  void shutdown();
  /// Ends the session without waiting for the others.
  void drop();
  /// The process exits: the others go on without this rank if the status is 0. Any other status is a death to them.
  void leave_at_exit(int status);

  void set_interrupt(pleiad_interrupt callback, void* data);

  /// Whoever ends the session takes the outcome out of what is enlisted: an operation refers to its engine. False where
  /// the session is over already.
  [[nodiscard]] bool enlist(pleiad_pending* pending);
  void delist(pleiad_pending* pending);

 private:
  struct Parts {
    std::vector<std::shared_ptr<Table>> tables;  // guarded by mutex_
    std::shared_ptr<SessionCore> core;
  };

  bool interrupted() const;
  void close();

  const std::uint64_t generation_;
  mutable std::mutex mutex_;
  std::shared_ptr<Parts> parts_;                   // guarded by mutex_; null once the session is over
  std::unordered_set<pleiad_pending*> under_way_;  // guarded by mutex_

  mutable std::mutex interrupt_mutex_;
  pleiad_interrupt interrupt_ = nullptr;  // guarded by interrupt_mutex_
  void* interrupt_data_ = nullptr;        // guarded by interrupt_mutex_
  std::atomic<bool> given_up_{false};
};

/// Hands out a text that lives until this thread's next one.
[[nodiscard]] const char* keep_text(std::string text);

}  // namespace pleiad

struct pleiad_session {
  std::shared_ptr<pleiad::CSession> session;
};

namespace pleiad {

/// A table during one call from C: neither the end of the session nor close() takes it away.
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
  std::weak_ptr<pleiad::Table> table;  // the session owns it until its shutdown, or until this handle is freed

  [[nodiscard]] std::shared_ptr<pleiad::Table> find(std::string_view where) const;
  [[nodiscard]] pleiad::TableLease use(std::string_view where) const { return pleiad::TableLease(find(where)); }
};

struct pleiad_pending {
  std::shared_ptr<pleiad::CSession> session;
  mutable std::mutex mutex;
  std::shared_ptr<pleiad::Pending> operation;  // guarded by mutex; null once the outcome is known
  int code = PLEIAD_OK;                        // guarded by mutex; the outcome
  std::string words;                           // guarded by mutex

  /// Waits, and keeps the outcome: from then on the operation is not needed any more.
  void finish();
  /// The session is gone with the operation under way.
  void give_up();
};
