// The service thread of a Messenger.
#pragma once

#include <deque>

#include "engine/messenger.h"

namespace pleiad {

class Messenger::Service {
 public:
  Service(Messenger& messenger, bool loopback);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void start();
  void stop();
  void set_handler(RequestHandler* handler);
  void news();
  void answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body = {});
  void note(const ReturnAddress& back, std::span<const std::int32_t> ranks);

 private:
  // What one client has asked for over one channel: the last requests, and how they ended.
  struct Client {
    static constexpr std::uint64_t kRemembered = 4 * kWindow;
    enum class State : std::uint8_t { unknown, waits, done };
    struct Entry {
      std::uint64_t sequence = 0;
      State state = State::unknown;
      std::optional<Problem> problem;
    };
    std::uint64_t highest = 0;
    std::vector<Entry> entries{kRemembered};
    [[nodiscard]] Entry& entry(std::uint64_t sequence) { return entries[sequence % kRemembered]; }
  };
  using ClientName = std::pair<int, std::uint64_t>;

  // How this process hears from another host.
  struct Watch {
    int host = 0;
    std::size_t next = 0;  ///< which of the host's ranks is tried next
    std::vector<int> ranks;
    std::unique_ptr<Channel> channel;
    std::int64_t began = 0;
    std::int64_t heard = 0;
    std::int64_t sent = 0;
  };

  void run();
  void serve();
  /// Takes one message; false where there is none.
  bool take_one();
  void hear(const std::string& connection, zmq::message_t& message);
  void greet(const std::string& connection, const Frame& frame);
  void prove(const std::string& connection, const Frame& frame);
  void carry_out(const std::string& connection, const Frame& frame);
  void send(const std::string& connection, zmq::message_t& frame);
  [[nodiscard]] zmq::message_t reply_to(const FrameHead& request, FrameKind kind, std::size_t bytes) const;
  [[nodiscard]] Nonce nonce_for(const std::string& connection, const Nonce& client) const;

  void keep_watch(std::int64_t now, bool at_once);
  void put_beat(zmq::message_t& frame) const;
  [[nodiscard]] std::vector<char> beat() const;
  void read_beat(int from, std::span<const char> body);

  Messenger& messenger_;
  Engine& engine_;
  std::optional<ClientCheck> check_;  // of those who connect to the router, where the transport is encrypted
  zmq::socket_t router_;
  int wake_ = -1;
  JobKey secret_;
  std::map<std::string, int> known_;                // connections that have proved themselves, and their rank
  std::map<int, std::deque<std::string>> of_rank_;  // the same, by rank, oldest first
  std::map<ClientName, Client> clients_;
  std::deque<ClientName> client_order_;
  std::vector<Watch> watches_;
  std::atomic<bool> stop_{false};
  std::mutex handler_mutex_;
  RequestHandler* handler_ = nullptr;  // guarded by handler_mutex_
  std::vector<std::uint64_t> aligned_;
  std::thread thread_;
};

}  // namespace pleiad
