// Requests to processes of other hosts, over ZeroMQ. A calling thread sends them over connections of its own and sleeps
// until the replies arrive. One service thread answers the requests of other processes and exchanges heartbeats with
// the other hosts.
//
// Requests are numbered on their connection. After a connection was lost, a request is sent again over the next one. A
// server that has executed it already only repeats the reply: no acknowledged request is lost, and none is executed
// twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/function_ref.h"
#include "core/problem.h"
#include "engine/activity.h"
#include "engine/address.h"
#include "engine/membership.h"
#include "engine/order_failure.h"
#include "engine/rpc_connection.h"
#include "engine/waiter.h"
#include "engine/world.h"

namespace pleiad {

class Engine;

/// One request of a batch. Its body has at most about kChunkBytes, unless the data cannot be split.
struct OutgoingRequest {
  int to = 0;  ///< the receiving rank
  std::uint32_t operation = 0;
  bool idempotent = false;  ///< executing it twice is harmless, so another rank of the host may execute it
  std::size_t bytes = 0;
};

/// Requests that belong together. The caller's thread calls the functions. It calls `fill` again if a request must be
/// sent again, so the caller's data must not change before the `take` of that request.
struct RequestBatch {
  Call call = Call::idle;
  std::size_t count = 0;
  FunctionRef<OutgoingRequest(std::size_t)> request;
  FunctionRef<void(std::size_t, std::span<char>)> fill;
  FunctionRef<void(std::size_t, std::span<const char>)> take;
  FunctionRef<void()> meanwhile;  ///< called once, after the first requests are sent
  bool ordered = false;           ///< see Waiting
  bool in_step = false;
  /// True if only the rank that `request` names can answer. Otherwise a silent or dead rank is replaced by another rank
  /// of its host.
  bool fixed_rank = false;
};

/// The destination of a reply.
struct ReturnAddress {
  std::string connection;
  FrameHead head;
};

struct IncomingRequest {
  int from = 0;
  std::uint32_t operation = 0;
  bool repeated = false;  ///< it was executed before, or waits; only the reply is missing
  std::span<const char> body;
  ReturnAddress back;
};

/// Executes requests on the service thread, so it must not wait for other ranks. An exception becomes the reply.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  /// Calls answer(bytes) at most once to get memory for the reply. Returns false if the reply follows later, through
  /// RpcTransport::answer.
  virtual bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)> answer) = 0;
  /// Called about twenty times a second while unanswered() returns true.
  virtual void tick() = 0;
  [[nodiscard]] virtual bool unanswered() const = 0;
};

class RpcTransport {
 public:
  /// Listens on loopback at once if `loopback` is true, otherwise from listen() on. Serves requests from start() on.
  /// Takes the parts that it uses from `engine`.
  RpcTransport(Engine& engine, const JobKey& key, bool loopback);
  ~RpcTransport();
  RpcTransport(const RpcTransport&) = delete;
  RpcTransport& operator=(const RpcTransport&) = delete;

  /// The addresses of this process. The port is set once it listens.
  [[nodiscard]] const Addresses& addresses() const { return own_; }
  /// Listens only at those of this process's addresses that ranks of other hosts use. `all` are the addresses of all
  /// ranks.
  void listen(const std::vector<Addresses>& all);
  /// Starts the service. `all` are the addresses of all ranks.
  void start(const std::vector<Addresses>& all);
  /// Sends a last heartbeat with the state of this host and ends the service.
  void stop();
  /// In a forked child: releases everything to the parent without closing it.
  void release_to_parent();

  /// Passes requests to `handler` from now on; null for none. Returns when the previous handler is no longer in use.
  void set_handler(RequestHandler* handler);

  /// Sends all requests and receives all replies. At most kWindow requests are in progress on each connection. Throws
  /// the first error of a request once no other is in progress, and a TransportError that names the host if it is
  /// silent for `host_timeout` seconds.
  void exchange(const RequestBatch& exchange);
  /// Returns a rank of `host` to send requests to: not known to be dead, and not silent if another one is left.
  /// Different callers get different ranks.
  [[nodiscard]] int serving_rank(int host) const;

  /// The state of a rank of another host, as far as it is known here.
  [[nodiscard]] Liveness liveness(int rank) const { return liveness_[static_cast<std::size_t>(rank)].load(); }
  /// The seconds since the last frame from `host`. Time in which this process did not run does not count.
  [[nodiscard]] double silence(int host) const;
  /// Tells the other hosts at once that the state of this host has changed.
  void notify_change();

  // Replies to requests that the handler deferred. Only the service thread may call them.
  void answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body = {});
  void report_waiting(const ReturnAddress& back, std::span<const std::int32_t> waits_for);

  /// Longer messages are ignored.
  static constexpr std::int64_t kMaxBytes = std::int64_t{256} << 20;
  static constexpr std::size_t kChunkBytes = 256 * 1024;
  /// Messages up to this length are not split: their chunks would overlap too little to be worthwhile.
  static constexpr std::size_t kWholeBytes = 512 * 1024;
  static constexpr std::size_t kWindow = 16;

 private:
  class PeerExchange;
  class Server;

  [[nodiscard]] bool is_avoided(int rank) const;
  [[nodiscard]] std::unique_ptr<RpcConnection> acquire_connection(int to);
  [[nodiscard]] std::unique_ptr<RpcConnection> new_connection(int to);
  void release_connection(std::unique_ptr<RpcConnection> connection);

  const World& world_;
  const SessionOptions& options_;
  const Log& log_;
  Membership& members_;
  OrderFailure& failure_;
  Activity& activity_;
  Waiter& waiter_;
  JobKey key_;
  std::optional<TransportKeys> keys_;  // empty: no encryption
  Addresses own_;
  FramePool frames_;  // must outlive the context, which owns its messages
  zmq::context_t zmq_;
  std::vector<std::string> endpoints_;
  std::vector<std::atomic<Liveness>> liveness_;
  std::vector<std::atomic<std::int64_t>> heard_;    // by host
  std::vector<std::atomic<std::int64_t>> avoided_;  // by rank: until when other ranks receive the requests to its host
  std::atomic<std::int64_t> served_{0};             // time of the service's last turn
  std::counting_semaphore<16> exchange_slots_{16};
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<RpcConnection>>> idle_;  // guarded by mutex_
  std::unique_ptr<Server> server_;
};

}  // namespace pleiad
