// Requests to processes of other hosts, by ZeroMQ. A caller's thread speaks to them over connections of its own and
// waits in the kernel; what others ask of this process is answered by its one service thread, which also tells the
// other hosts how this one is, and hears from them.
//
// A request has a number on its connection. After a connection was lost it is sent again over the next one, and whoever
// has carried it out before only says so again: nothing that was acknowledged is lost, nothing is carried out twice.
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
#include "engine/address.h"
#include "engine/channel.h"
#include "engine/engine.h"

namespace pleiad {

/// One request of an exchange: at most about kChunkBytes, but for what cannot be cut.
struct Part {
  int to = 0;  ///< a rank
  std::uint32_t operation = 0;
  bool repeatable = false;  ///< carrying it out twice does no harm: so another rank of the host may do it
  std::size_t bytes = 0;
};

/// Requests that belong together. Functions are called by the caller's thread, `fill` again where a part must be sent
/// again; until its `take` the caller's data stays as it is.
struct Exchange {
  Call call = Call::idle;
  std::size_t count = 0;
  FunctionRef<Part(std::size_t)> part;
  FunctionRef<void(std::size_t, std::span<char>)> fill;
  FunctionRef<void(std::size_t, std::span<const char>)> take;
  FunctionRef<void()> meanwhile;  ///< called once, when the first requests are on their way
  bool ordered = false;           ///< as Engine::Waiting has them
  bool in_step = false;
};

/// Where an answer goes to.
struct ReturnAddress {
  std::string connection;
  FrameHead head;
};

struct Request {
  int from = 0;
  std::uint32_t operation = 0;
  bool repeated = false;  ///< it was carried out before, or waits: only the answer is missing
  std::span<const char> body;
  ReturnAddress back;
};

/// What the layer above does with requests, on the service thread: it must not wait for other ranks. What it throws is
/// the answer.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  /// Calls answer(bytes) at most once, for room to write into; returns false where the answer comes later, by
  /// Messenger::answer.
  virtual bool handle(const Request& request, FunctionRef<std::span<char>(std::size_t)> answer) = 0;
  /// Called about twenty times a second while unanswered() says so.
  virtual void tick() = 0;
  [[nodiscard]] virtual bool unanswered() const = 0;
};

/// Another host was silent for `host_timeout`. In a synchronous step all ranks are told.
class SilenceError final : public TransportError {
 public:
  using TransportError::TransportError;
};

class Messenger {
 public:
  /// Listens on loopback at once if `loopback`, otherwise from listen() on; serves from start() on.
  Messenger(Engine& engine, const JobKey& key, bool loopback);
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// This process's; with the port as soon as it listens.
  [[nodiscard]] const Addresses& addresses() const { return own_; }
  /// Listens at those of its addresses at which ranks of other hosts reach it, and at no other. `all` are the addresses
  /// of all ranks.
  void listen(const std::vector<Addresses>& all);
  /// `all` are those of all ranks.
  void start(const std::vector<Addresses>& all);
  /// Tells the others for the last time how this host is, and ends the service.
  void stop();
  /// In a forked child: everything belongs to the parent.
  void forget();

  /// From now on requests go to `handler`, null for none. Returns when the one before is no longer in use.
  void set_handler(RequestHandler* handler);

  /// Sends all parts and takes all answers. At most kWindow are under way on each connection: further ones wait. The
  /// first error of a part is thrown when no other is under way; a host that is silent for `host_timeout` seconds is a
  /// TransportError that names it.
  void exchange(const Exchange& exchange);
  /// A rank of `host` that is not known to be dead, nor silent if another one is left: which one differs from rank to
  /// rank.
  [[nodiscard]] int carrier(int host) const;

  /// As far as is known here.
  [[nodiscard]] Life life(int rank) const { return lives_[static_cast<std::size_t>(rank)].load(); }
  /// Seconds for which nothing was heard from `host`. Time in which this process did not run does not count.
  [[nodiscard]] double silence(int host) const;
  /// Something of this host has changed: the others are told at once.
  void news();

  // On the service thread only: answers to requests that were put off.
  void answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body = {});
  void note(const ReturnAddress& back, std::span<const std::int32_t> waits_for);

  /// A longer message is not heard.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  static constexpr std::size_t kChunkBytes = 256 * 1024;
  /// What is no longer is not cut: its chunks would overlap too little to pay for themselves.
  static constexpr std::size_t kWholeBytes = 512 * 1024;
  static constexpr std::size_t kWindow = 16;

 private:
  class Talk;
  class Service;

  [[nodiscard]] bool avoided(int rank) const;
  [[nodiscard]] std::unique_ptr<Channel> take_channel(int to);
  [[nodiscard]] std::unique_ptr<Channel> new_channel(int to);
  void give_back(std::unique_ptr<Channel> channel);

  Engine& engine_;
  JobKey key_;
  std::optional<TransportKeys> keys_;  // nothing: what is sent is not encrypted
  Addresses own_;
  FramePool frames_;  // its messages end with the context
  zmq::context_t context_;
  std::vector<std::string> endpoints_;
  std::vector<std::atomic<Life>> lives_;
  std::vector<std::atomic<std::int64_t>> heard_;    // by host
  std::vector<std::atomic<std::int64_t>> avoided_;  // by rank: until when others carry its host's calls
  std::atomic<std::int64_t> served_{0};             // the service's last turn
  std::counting_semaphore<16> talkers_{16};
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Channel>>> idle_;  // guarded by mutex_
  std::unique_ptr<Service> service_;
};

}  // namespace pleiad
