// The functions of pleiad.h for sessions and collectives.
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "capi/guard.h"
#include "capi/handles.h"
#include "core/option_list.h"

using pleiad::checked_view;
using pleiad::ConstView;
using pleiad::CSession;
using pleiad::ErrorKind;
using pleiad::guarded;
using pleiad::InvalidArgument;
using pleiad::keep_text;
using pleiad::need;
using pleiad::ReduceOp;
using pleiad::Session;
using pleiad::SessionCore;
using pleiad::View;

// The codes and types in C have the same values as those in C++.
static_assert(PLEIAD_INVALID_ARGUMENT == static_cast<int>(ErrorKind::invalid_argument));
static_assert(PLEIAD_STATE == static_cast<int>(ErrorKind::state));
static_assert(PLEIAD_ORDER == static_cast<int>(ErrorKind::order));
static_assert(PLEIAD_TRANSPORT == static_cast<int>(ErrorKind::transport));
static_assert(PLEIAD_TIMEOUT == static_cast<int>(ErrorKind::timeout));
static_assert(PLEIAD_MEMORY == static_cast<int>(ErrorKind::memory));
static_assert(PLEIAD_INTERRUPTED == static_cast<int>(ErrorKind::interrupted));
static_assert(PLEIAD_INTERNAL == static_cast<int>(ErrorKind::internal));
static_assert(PLEIAD_FILE == static_cast<int>(ErrorKind::file));
static_assert(PLEIAD_RULE == static_cast<int>(ErrorKind::rule));
static_assert(PLEIAD_FLOAT32 == static_cast<int>(pleiad::DType::float32));
static_assert(PLEIAD_FLOAT64 == static_cast<int>(pleiad::DType::float64));
static_assert(PLEIAD_INT32 == static_cast<int>(pleiad::DType::int32));
static_assert(PLEIAD_INT64 == static_cast<int>(pleiad::DType::int64));
static_assert(PLEIAD_SUM == static_cast<int>(ReduceOp::sum));
static_assert(PLEIAD_MIN == static_cast<int>(ReduceOp::min));
static_assert(PLEIAD_MAX == static_cast<int>(ReduceOp::max));
static_assert(PLEIAD_MEAN == static_cast<int>(ReduceOp::mean));

namespace {

// The open sessions, which leave their worlds when the process exits. Never destroyed, because it is needed until the
// very end.
struct OpenSessions {
  std::mutex mutex;
  std::vector<std::weak_ptr<CSession>> sessions;  // guarded by mutex
};

OpenSessions& open_sessions() {
  static auto* const all = new OpenSessions;
  return *all;
}

void leave_all_at_exit(int status, void*) {
  OpenSessions& all = open_sessions();
  std::vector<std::weak_ptr<CSession>> sessions;
  {
    // in a forked child, the lock may be held by a thread that does not exist there
    const std::unique_lock lock(all.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;
    sessions.swap(all.sessions);
  }
  for (const auto& weak : sessions) {
    const auto session = weak.lock();
    if (session == nullptr) continue;
    try {
      session->leave_at_exit(status);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the process ends anyway, and no caller can receive the error
    }
  }
}

void remember(const std::shared_ptr<CSession>& session) {
  OpenSessions& all = open_sessions();
  {
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.sessions, [](const auto& weak) { return weak.expired(); });
    all.sessions.push_back(session);
  }
  // Registered for every session: handlers run in reverse order, and this one must run before that of an MPI library
  // that has just been loaded.
  (void)on_exit(leave_all_at_exit, nullptr);
}

// A Session for one call. Destroying it does not end the session, because the handle keeps the core.
struct SessionUse {
  SessionUse(const pleiad_session* handle, std::string_view where)
      : core(need(handle, where, "session").session->use(where)), session(core) {
    core->engine().members().check_usable(where);
  }
  std::shared_ptr<SessionCore> core;
  Session session;
};

ReduceOp checked_op(int op, std::string_view where) {
  if (op < PLEIAD_SUM || op > PLEIAD_MEAN) {
    throw InvalidArgument(
        fmt::format("[{}] unknown operation {}; known: 0 (sum), 1 (min), 2 (max), 3 (mean)", where, op));
  }
  return static_cast<ReduceOp>(op);
}

// The number of elements in the blocks of all ranks.
std::int64_t total_count(std::int64_t count, int ranks, std::string_view where) {
  if (count > std::numeric_limits<std::int64_t>::max() / 8 / ranks) {
    throw InvalidArgument(
        fmt::format("[{}] {} blocks of {} elements are beyond any address space", where, ranks, count));
  }
  return count * ranks;
}

template <class F>
int number_of(const pleiad_session* session, std::string_view where, std::int32_t* out, F&& ask) {
  return guarded([&] {
    std::int32_t& to = need(out, where, "the result");
    to = ask(SessionUse(session, where).session);
  });
}

template <class F>
int text_of(const pleiad_session* session, std::string_view where, const char** out, F&& ask) {
  return guarded([&] {
    const char*& to = need(out, where, "the result");
    to = keep_text(ask(SessionUse(session, where).session));
  });
}

}  // namespace

extern "C" {

int pleiad_session_start(const char* options, pleiad_session** out) {
  return guarded([&] {
    pleiad_session*& to = need(out, "start", "the result");
    pleiad::SessionOptions chosen;
    if (options != nullptr) pleiad::set_options(chosen, options);
    auto handle = std::make_unique<pleiad_session>();
    handle->session = std::make_shared<CSession>(SessionCore::start(std::move(chosen)));
    remember(handle->session);
    to = handle.release();
  });
}

int pleiad_session_shutdown(pleiad_session* session) {
  return guarded([&] { need(session, "shutdown", "session").session->shutdown(); });
}

void pleiad_session_free(pleiad_session* session) {
  if (session == nullptr || session->session->in_forked_child()) return;
  (void)guarded([&] { session->session->drop(); });
  delete session;
}

int pleiad_session_world(const pleiad_session* session, pleiad_world* out) {
  return guarded([&] {
    pleiad_world& to = need(out, "world", "the result");
    const SessionUse use(session, "world");
    const Session& s = use.session;
    to = {.rank = s.rank(),
          .size = s.size(),
          .workers = s.workers(),
          .servers = s.servers(),
          .worker_id = s.worker_id(),
          .server_id = s.server_id(),
          .hosts = s.hosts(),
          .host = s.ranks().host_of(s.rank())};
  });
}

int pleiad_session_worker_rank(const pleiad_session* session, int32_t worker, int32_t* rank) {
  return number_of(session, "worker_rank", rank, [&](const Session& s) { return s.ranks().worker_rank(worker); });
}

int pleiad_session_server_rank(const pleiad_session* session, int32_t server, int32_t* rank) {
  return number_of(session, "server_rank", rank, [&](const Session& s) { return s.ranks().server_rank(server); });
}

int pleiad_session_host_of(const pleiad_session* session, int32_t rank, int32_t* host) {
  return number_of(session, "host_of", host, [&](const Session& s) { return s.ranks().host_of(rank); });
}

int pleiad_session_alive(const pleiad_session* session, int32_t rank, int32_t* alive) {
  return number_of(session, "alive", alive, [&](const Session& s) { return s.ranks().alive(rank) ? 1 : 0; });
}

int pleiad_session_host_name(const pleiad_session* session, int32_t rank, const char** text) {
  return text_of(session, "host_name", text, [&](const Session& s) { return s.ranks().host_name(rank); });
}

int pleiad_session_engine(const pleiad_session* session, const char** text) {
  return text_of(session, "engine", text, [](const Session& s) { return s.engine(); });
}

int pleiad_session_stats(const pleiad_session* session, const char** text) {
  return text_of(session, "stats", text, [](const Session& s) { return s.stats(); });
}

int pleiad_session_report(const pleiad_session* session, const char** text) {
  return text_of(session, "report", text, [](const Session& s) { return s.report(); });
}

int pleiad_session_set_interrupt(pleiad_session* session, pleiad_interrupt callback, void* data) {
  return guarded([&] {
    const SessionUse use(session, "set_interrupt");
    session->session->set_interrupt(callback, data);
  });
}

int pleiad_barrier(pleiad_session* session) {
  return guarded([&] { SessionUse(session, "barrier").session.barrier(); });
}

int pleiad_all_reduce(pleiad_session* session, void* data, int64_t count, int dtype, int op) {
  return guarded([&] {
    SessionUse use(session, "all_reduce");
    const View view = checked_view(data, count, dtype, "all_reduce", "data");
    use.session.all_reduce(view, checked_op(op, "all_reduce"));
  });
}

int pleiad_broadcast(pleiad_session* session, void* data, int64_t count, int dtype, int32_t root) {
  return guarded([&] {
    SessionUse use(session, "broadcast");
    use.session.broadcast(checked_view(data, count, dtype, "broadcast", "data"), root);
  });
}

int pleiad_all_gather(pleiad_session* session, const void* in, int64_t count, int dtype, void* out) {
  return guarded([&] {
    SessionUse use(session, "all_gather");
    const ConstView from = checked_view(in, count, dtype, "all_gather", "in");
    const std::int64_t all = total_count(count, use.session.size(), "all_gather");
    use.session.all_gather(from, checked_view(out, all, dtype, "all_gather", "out"));
  });
}

int pleiad_reduce_scatter(pleiad_session* session, const void* in, void* out, int64_t count, int dtype, int op) {
  return guarded([&] {
    SessionUse use(session, "reduce_scatter");
    const View to = checked_view(out, count, dtype, "reduce_scatter", "out");
    const std::int64_t all = total_count(count, use.session.size(), "reduce_scatter");
    const ConstView from = checked_view(in, all, dtype, "reduce_scatter", "in");
    use.session.reduce_scatter(from, to, checked_op(op, "reduce_scatter"));
  });
}

int pleiad_send(pleiad_session* session, int32_t to, uint32_t tag, const void* data, int64_t count, int dtype) {
  return guarded([&] {
    SessionUse use(session, "send");
    use.session.send(to, tag, checked_view(data, count, dtype, "send", "data"));
  });
}

int pleiad_receive(pleiad_session* session, int32_t from, uint32_t tag, void* data, int64_t count, int dtype) {
  return guarded([&] {
    SessionUse use(session, "receive");
    use.session.receive(from, tag, checked_view(data, count, dtype, "receive", "data"));
  });
}

}  // extern "C"
