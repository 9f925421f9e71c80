// The service thread of an RpcTransport.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <shared_mutex>

#include "engine/listener.h"
#include "engine/rpc_transport.h"

namespace pleiad {

inline constexpr std::int64_t kHeartbeatInterval = 500'000'000;  ///< nanoseconds between two heartbeats
/// A thread that wakes up this much too late was stopped with its process, or had no core.
inline constexpr std::int64_t kPauseThreshold = 2'000'000'000;

/// Removes a value from the front of `bytes`. Returns false if there are too few.
template <class T>
bool take(std::span<const char>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

class RpcTransport::Server {
 public:
  explicit Server(RpcTransport& rpc);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens at these addresses and returns the port. Call it before start().
  int listen(const std::vector<std::uint32_t>& addresses);
  void start();
  void stop();
  void set_handler(RequestHandler* handler);
  void notify_change();
  void answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body = {});
  void report_waiting(const ReturnAddress& back, std::span<const std::int32_t> ranks);

 private:
  // The last requests of one client on one connection, and their results.
  struct Client {
    static constexpr std::uint64_t kRemembered = 4 * kWindow;
    /// executing: a thread runs the handler; deferred: the handler replies later.
    enum class State : std::uint8_t { unknown, executing, deferred, done };
    struct Entry {
      std::uint64_t sequence = 0;
      State state = State::unknown;
      std::optional<Problem> problem;
      std::optional<ReturnAddress> retry;  ///< set if the request is repeated while it is executed
    };
    std::uint64_t highest = 0;
    std::vector<Entry> entries{kRemembered};
    [[nodiscard]] Entry& entry(std::uint64_t sequence) { return entries[sequence % kRemembered]; }
  };
  using ClientName = std::pair<int, std::uint64_t>;

  // The heartbeats that this process exchanges with another host.
  struct HeartbeatLink {
    int host = 0;
    std::size_t next = 0;  ///< index of the host's rank to try next
    std::vector<int> ranks;
    std::unique_ptr<RpcConnection> connection;
    std::int64_t began = 0;
    std::int64_t heard = 0;
    std::int64_t sent = 0;
  };

  /// Held by the thread that currently serves, the leader.
  using LeaderLock = std::unique_lock<std::mutex>;

  void run(int thread);
  void serve(LeaderLock& leader_lock);
  /// Lets another thread serve while this one waits for a lock. Returns false if too many threads wait already.
  bool delegate_leadership();
  void regain_leadership(LeaderLock& leader_lock);
  void release_leadership();
  void log_problem(const std::string& problem);
  /// Handles one message. Returns false if there is none.
  bool handle_one(LeaderLock& leader_lock);
  void handle_frame(LeaderLock& leader_lock, const std::string& connection, zmq::message_t& message);
  void handle_hello(const std::string& connection, const Frame& frame);
  void handle_response(const std::string& connection, const Frame& frame);
  void handle_request(LeaderLock& leader_lock, const std::string& connection, const Frame& frame);
  [[nodiscard]] Client& client_of(const FrameHead& head);
  /// Returns null if the request has been forgotten.
  [[nodiscard]] Client::Entry* entry_of(const FrameHead& head);
  void send(const std::string& connection, zmq::message_t& frame);
  [[nodiscard]] zmq::message_t reply_to(const FrameHead& request, FrameKind kind, std::size_t bytes) const;
  [[nodiscard]] Nonce nonce_for(const std::string& connection, const Nonce& client) const;

  /// Records that the service runs, and detects that it did not run for a while.
  void detect_pause(std::int64_t now);
  void exchange_heartbeats(std::int64_t now, bool at_once);
  [[nodiscard]] std::vector<char> make_heartbeat() const;
  void read_heartbeat(int from, std::span<const char> body);

  RpcTransport& rpc_;
  const World& world_;
  const Log& log_;
  // One thread serves at a time. It holds leader_mutex_, which guards all members below that name no other guard. A
  // thread that waits for a lock during a request passes the lead to a new thread and takes it back briefly to reply.
  std::mutex leader_mutex_;
  int leader_ = 0;                 ///< the thread that continues to serve
  std::atomic<int> returning_{0};  ///< threads that take the lead back briefly
  std::condition_variable returned_;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ended_;
  std::optional<ZapHandler> check_;  // authenticates the router's clients if the transport is encrypted
  zmq::socket_t router_;
  std::optional<Listener> listener_;
  int wake_ = -1;
  JobKey secret_;
  std::map<std::string, int> authenticated_;                    // authenticated connections and their ranks
  std::map<int, std::deque<std::string>> connections_of_rank_;  // the same by rank, oldest first
  std::map<ClientName, Client> clients_;
  std::deque<ClientName> client_order_;
  std::vector<HeartbeatLink> links_;
  std::atomic<bool> stop_{false};
  std::shared_mutex handler_mutex_;
  RequestHandler* handler_ = nullptr;  // guarded by handler_mutex_
  std::string problem_;                // the last one that was logged
  std::int64_t problem_logged_ = 0;
};

}  // namespace pleiad
