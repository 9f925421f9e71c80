#include "capi/handles.h"

#include <utility>

#include <fmt/format.h>

#include "capi/guard.h"
#include "core/process.h"

namespace pleiad {

const char* keep_text(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

CSession::CSession(std::shared_ptr<SessionCore> core)
    : generation_(fork_generation()), state_(std::make_shared<State>()) {
  core->engine().waiter().set_interrupt([this] { return interrupted(); });
  state_->core = std::move(core);
}

bool CSession::in_forked_child() const { return generation_ != fork_generation(); }

std::shared_ptr<SessionCore> CSession::use_if_open(std::string_view where) const {
  // Check this before taking the lock: in a forked child, a thread that does not exist may hold it forever.
  if (in_forked_child()) {
    throw StateError(
        fmt::format("[{}] this process was forked from a rank: it is not a rank and cannot use its session", where));
  }
  const std::lock_guard lock(mutex_);
  return state_ == nullptr ? nullptr : std::shared_ptr<SessionCore>(state_, state_->core.get());
}

std::shared_ptr<SessionCore> CSession::use(std::string_view where) const {
  auto core = use_if_open(where);
  if (core == nullptr) throw StateError(fmt::format("[{}] the session was shut down", where));
  return core;
}

bool CSession::interrupted() const {
  if (given_up_.load()) return true;
  if (!CCall::here()) return false;
  const std::lock_guard lock(interrupt_mutex_);
  return interrupt_ != nullptr && interrupt_(interrupt_data_) != 0;
}

void CSession::set_interrupt(pleiad_interrupt callback, void* data) {
  const std::lock_guard lock(interrupt_mutex_);
  interrupt_ = callback;
  interrupt_data_ = data;
}

std::shared_ptr<Table> CSession::create(TableSpec spec, ConstView initial) {
  const std::string where = std::string("create_") + spec.kind();
  const auto core = use(where);
  auto table = core->create(std::move(spec), initial);
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) throw StateError(fmt::format("[{}] the session was shut down", where));
  state_->tables.push_back(table);
  return table;
}

void CSession::release(const std::weak_ptr<Table>& table) {
  const auto strong = table.lock();
  if (strong == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (state_ != nullptr) std::erase(state_->tables, strong);
}

// The caller holds the core, so the engine lives until all outcomes are stored.
void CSession::close() {
  const std::lock_guard lock(mutex_);
  for (pleiad_pending* pending : pending_) pending->give_up();
  pending_.clear();
  state_.reset();
}

void CSession::shutdown() {
  const auto core = use("shutdown");
  core->engine().members().check_usable("shutdown");
  try {
    core->shutdown();
  } catch (...) {
    close();
    throw;
  }
  close();
}

void CSession::drop() {
  const auto core = use_if_open("free");
  if (core == nullptr) return;
  core->engine().members().abandon(Liveness::dead);
  given_up_.store(true);  // ends the waits of this process's own threads, which would never succeed
  close();
}

void CSession::leave_at_exit(int status) {
  const auto core = use_if_open("exit");
  if (core == nullptr) return;
  Engine& engine = core->engine();
  if (engine.kind() == EngineKind::mpi) {
    engine.log().warn(
        "the process exits with its session open; shut it down first, or mpirun treats the exit as a failure");
  }
  // Other threads may be in the middle of calls, so nothing is destroyed.
  engine.members().abandon(status == 0 ? Liveness::left : Liveness::dead);
}

bool CSession::enlist(pleiad_pending* pending) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return false;
  pending_.insert(pending);
  return true;
}

void CSession::delist(pleiad_pending* pending) {
  const std::lock_guard lock(mutex_);
  pending_.erase(pending);
}

}  // namespace pleiad

std::shared_ptr<pleiad::Table> pleiad_table::find(std::string_view where) const {
  if (!session->in_forked_child()) {
    if (auto strong = table.lock()) return strong;
  }
  (void)session->use(where);
  throw pleiad::StateError(fmt::format("[{}] the table was closed", where));
}

void pleiad_pending::finish() {
  // Keeps the engine alive while this thread waits. If the session is already over, the outcome is known.
  const auto core = session->use_if_open("wait");
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
      if (!started->done()) throw;  // the wait was interrupted, but the operation continues
      outcome = static_cast<int>(error.kind());
      what = error.what();
    }
    session->delist(this);
    const std::lock_guard lock(mutex);
    if (operation != nullptr) {
      code = outcome;
      message = std::move(what);
      operation.reset();
    }
  }
  const std::lock_guard lock(mutex);
  if (code != PLEIAD_OK) throw pleiad::Error(static_cast<pleiad::ErrorKind>(code), message);
}

void pleiad_pending::give_up() {
  const std::lock_guard lock(mutex);
  if (operation == nullptr) return;
  if (operation->done()) {
    try {
      operation->wait();
    } catch (const pleiad::Error& error) {
      code = static_cast<int>(error.kind());
      message = error.what();
    }
  } else {
    code = PLEIAD_STATE;
    message = "[wait] the session ended before the operation was complete";
  }
  operation.reset();
}
