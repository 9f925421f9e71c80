#include "capi/handles.h"

#include <utility>

#include <fmt/format.h>

#include "capi/guard.h"
#include "core/process.h"

namespace pleiad {

thread_local int CCall::depth = 0;

const char* keep_text(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

CSession::CSession(std::shared_ptr<SessionCore> core) : generation_(fork_generation()), core_(std::move(core)) {
  core_->engine().set_interrupt([this] { return interrupted(); });
}

bool CSession::in_forked_child() const { return generation_ != fork_generation(); }

std::shared_ptr<SessionCore> CSession::use(std::string_view where) const {
  // Before the lock: in a forked child somebody else may hold it for ever.
  if (in_forked_child()) {
    throw StateError(fmt::format("[{}] this process was forked from a rank: it is not a rank and cannot use its session", where));
  }
  const std::lock_guard lock(mutex_);
  if (core_ == nullptr) throw StateError(fmt::format("[{}] the session was shut down", where));
  return core_;
}

bool CSession::interrupted() const {
  if (exiting_.load()) return true;
  if (!CCall::here()) return false;
  const std::lock_guard lock(interrupt_mutex_);
  return interrupt_ != nullptr && interrupt_(interrupt_data_) != 0;
}

void CSession::set_interrupt(pleiad_interrupt callback, void* data) {
  const std::lock_guard lock(interrupt_mutex_);
  interrupt_ = callback;
  interrupt_data_ = data;
}

void CSession::shutdown() {
  const auto core = use("shutdown");
  core->engine().check_usable("shutdown");
  const auto end = [&] {
    settle_pending();
    const std::lock_guard lock(mutex_);
    core_.reset();
  };
  try {
    core->shutdown();
  } catch (...) {
    end();
    throw;
  }
  end();
}

void CSession::drop() {
  if (in_forked_child()) return;
  {
    const std::lock_guard lock(mutex_);
    if (core_ == nullptr) return;
    core_->engine().abandon(Life::dead);
  }
  exiting_.store(true);  // what its own threads wait for will not come
  settle_pending();
  std::shared_ptr<SessionCore> core;
  const std::lock_guard lock(mutex_);
  core.swap(core_);
}

void CSession::leave_at_exit() {
  if (in_forked_child()) return;
  std::shared_ptr<SessionCore> core;
  {
    const std::lock_guard lock(mutex_);
    core = core_;
  }
  if (core == nullptr) return;
  Engine& engine = core->engine();
  engine.abandon(Life::finished);
  bool all_live = true;
  for (int r = 0; r < engine.size(); ++r) all_live &= engine.life(r) != Life::dead;
  // Other threads may be in the middle of calls, so all stays in place. Only where a rank died the engine has to go: it keeps
  // MPI from waiting for that rank.
  if (!all_live) drop();
}

void CSession::enlist(pleiad_pending* pending) {
  const std::lock_guard lock(mutex_);
  under_way_.insert(pending);
}

void CSession::delist(pleiad_pending* pending) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(pending);
}

// An operation refers to its engine, so its outcome is taken out of it while there is one.
void CSession::settle_pending() {
  const std::lock_guard lock(mutex_);
  for (pleiad_pending* pending : under_way_) pending->give_up();
  under_way_.clear();
}

}  // namespace pleiad

std::shared_ptr<pleiad::Table> pleiad_table::use(std::string_view where) const {
  if (!session->in_forked_child()) {
    if (auto strong = table.lock()) return strong;
  }
  (void)session->use(where);
  throw pleiad::StateError(fmt::format("[{}] the session was shut down", where));
}

void pleiad_pending::finish() {
  const std::shared_ptr<pleiad::Pending> started = [&] {
    const std::lock_guard lock(mutex);
    return operation;
  }();
  if (started != nullptr) {
    int outcome = PLEIAD_OK;
    std::string what;
    try {
      started->wait();
    } catch (const pleiad::Error& error) {
      // Giving up the wait is not the end of the operation.
      if (!started->done()) throw;
      outcome = static_cast<int>(error.kind());
      what = error.what();
    }
    session->delist(this);
    const std::lock_guard lock(mutex);
    if (operation != nullptr) {
      code = outcome;
      words = std::move(what);
      operation.reset();
    }
  }
  const std::lock_guard lock(mutex);
  if (code != PLEIAD_OK) throw pleiad::Error(static_cast<pleiad::ErrorKind>(code), words);
}

void pleiad_pending::give_up() {
  const std::lock_guard lock(mutex);
  if (operation == nullptr) return;
  if (operation->done()) {
    try {
      operation->wait();
    } catch (const pleiad::Error& error) {
      code = static_cast<int>(error.kind());
      words = error.what();
    }
  } else {
    code = PLEIAD_STATE;
    words = "[wait] the session ended before the operation was complete";
  }
  operation.reset();
}
