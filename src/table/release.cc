// Releases a table's memory before the session ends.
#include <thread>

#include <fmt/format.h>

#include "engine/run_collectively.h"
#include "pleiad/error.h"
#include "table/table.h"
#include "table/table_service.h"

namespace pleiad {

void TableUse::refuse() const {
  table_.users_.fetch_sub(1);
  throw StateError(fmt::format("{} \"{}\" was closed", table_.spec().handle(), table_.name()));
}

void Table::check_same_table(std::string_view call) {
  int other = engine_.world().rank();
  std::uint64_t other_id = id_;
  engine_.collectives().barrier(id_, [&](int rank, std::uint64_t theirs) {
    if (theirs == id_ || other_id != id_) return;
    other = rank;
    other_id = theirs;
  });
  if (other_id == id_) return;
  throw OrderError(
      fmt::format("{} the ranks close different tables at the same time: this one is table {}, {} has table {}",
                  where(call), id_, engine_.members().describe(other), other_id));
}

void Table::close() {
  if (closed_.load()) return;
  engine_.members().check_usable(spec_.handle());
  check_not_in_rule("close");
  run_collectively(engine_, "close", [&] {
    context_->background.drain();
    context_->clocked.drain();
    raise_earlier();
  });
  check_same_table("close");
  closed_.store(true);
  while (users_.load() > 0) std::this_thread::yield();
  context_->background.drain();  // operations that another thread has started in the meantime
  context_->clocked.drain();
  engine_.collectives().barrier();  // from here on, no rank has a pending request to this table
  release();
  if (context_->forget) context_->forget(id_);
}

void Table::release() {
  closed_.store(true);
  if (context_->service != nullptr) context_->service->remove_table(id_);
  clock_.reset();
  shard_ = nullptr;
  shard_map_.reset();
}

}  // namespace pleiad
