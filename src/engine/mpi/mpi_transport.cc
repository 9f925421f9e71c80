// The module that uses MPI: libpleiad_mpi.so, loaded only under a launcher. None of its functions throws, except the
// caller's WaitCallback at the start.
//
// On one host MPI is called only at the start and at the end. Between hosts one communication thread makes all calls,
// because blocking calls from many threads are a hundred times slower. It polls only while requests are in progress.
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/transport.h"

namespace {

using pleiad::Call;
using pleiad::DType;
using pleiad::TransportRequest;
using pleiad::WaitCallback;

// State that outlives a session, because MPI can be initialised only once in a process.
struct Library {
  bool ours = false;  // we called MPI_Init_thread, so we call MPI_Finalize
  bool clean = true;  // every session so far ended with all its ranks
  int open = 0;       // sessions that have not ended
  pid_t process = 0;
  int threads = 0;
  MPI_Comm world = MPI_COMM_NULL;
};
Library library;

constexpr std::chrono::milliseconds kPollInterval{50};  // how often a wait calls the WaitCallback
constexpr std::chrono::seconds kGone{10};  // how long the shutdown waits for MPI after a neighbour has ended

// The processes of the other ranks on this host. Each is watched through a pidfd, which stays valid if the kernel
// reuses the process id.
class Neighbours {
 public:
  void watch(std::span<const int> pids) {
    for (const pollfd& one : watched_) close(one.fd);
    watched_.clear();
    lost_ = false;
    for (const int pid : pids) {
      const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
      if (fd >= 0) watched_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      lost_ |= fd < 0 && errno == ESRCH;
    }
  }
  /// Returns true if one of the processes has ended.
  bool any_ended() { return lost_ || poll(watched_.data(), watched_.size(), 0) > 0; }

 private:
  std::vector<pollfd> watched_;
  bool lost_ = false;
};
Neighbours& neighbours_of_last =
    *new Neighbours;  // those of the last session; never destroyed, because the exit handler uses it

// Initialises and finalises MPI. MPI_Init_thread waits for all processes of the job and cannot be cancelled, so a
// separate thread calls it. The thread stays, because MPI requires that the same thread calls MPI_Finalize.
class MpiThread {
 public:
  /// Initialises MPI, or continues to wait for an earlier call. Returns MPI's error code.
  int init(const WaitCallback& on_wait) {
    std::unique_lock lock(mutex_);
    if (!started_) {
      started_ = true;
      std::thread([this] { run(); }).detach();
    }
    while (!changed_.wait_for(lock, kPollInterval, [this] { return up_; })) {
      lock.unlock();
      on_wait();
      lock.lock();
    }
    return code_;
  }
  /// MPI_Finalize waits for all processes of the job, and forever if one died after its last session.
  void finalize() {
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    std::optional<std::chrono::steady_clock::time_point> gone;
    while (!changed_.wait_for(lock, kPollInterval, [this] { return down_; })) {
      const auto now = std::chrono::steady_clock::now();
      if (!gone && neighbours_of_last.any_ended()) gone = now;
      if (!gone || now - *gone < kGone) continue;
      std::fprintf(stderr,
                   "pleiad: MPI_Finalize is still waiting %d s after a process of this job ended; exiting without it\n",
                   static_cast<int>(kGone.count()));
      return;
    }
  }

 private:
  void run() {
    int given = 0;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
    std::unique_lock lock(mutex_);
    code_ = code;
    up_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return over_; });
    lock.unlock();
    MPI_Finalize();
    lock.lock();
    down_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false, up_ = false, over_ = false, down_ = false;  // guarded by mutex_
  int code_ = MPI_SUCCESS;                                           // guarded by mutex_
};
MpiThread& mpi_thread = *new MpiThread;  // never destroyed: its thread may outlive main

void finalize_at_exit() {
  // A forked child runs this too. After a world that lost a rank, or whose other ranks are still at work, MPI_Finalize
  // would block.
  if (!library.ours || !library.clean || library.open > 0 || getpid() != library.process) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) mpi_thread.finalize();
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

// Waits for a request of the start. If `on_wait` throws, the request is abandoned.
int await(MPI_Request& request, const WaitCallback& on_wait) {
  auto next = std::chrono::steady_clock::now() + kPollInterval;
  for (int turn = 0;; ++turn) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done != 0) return code;
    if (turn < 1000) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() < next) continue;
    next += kPollInterval;
    library.clean = false;  // if it throws, MPI_Finalize would wait for this request's other ranks
    on_wait();
    library.clean = true;
  }
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
  }
  return MPI_BYTE;
}

class MpiTransport final : public pleiad::Transport {
 public:
  explicit MpiTransport(WaitCallback on_wait) : on_wait_(std::move(on_wait)) {
    MPI_Comm_rank(library.world, &rank_);
    MPI_Comm_size(library.world, &size_);
    ++library.open;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  pleiad::EngineKind kind() const override { return pleiad::EngineKind::mpi; }
  bool reaches_other_hosts() const override { return true; }

  std::string all_gather(const void* in, void* out, std::size_t bytes) override {
    const int count = static_cast<int>(bytes);
    const auto all = bytes * static_cast<std::size_t>(size_);
    // MPI may write to this memory after `on_wait` has thrown.
    auto* memory = new std::vector<char>(bytes + all);
    std::memcpy(memory->data(), in, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgather(memory->data(), count, MPI_BYTE, memory->data() + bytes, count, MPI_BYTE, library.world,
                              &request);
    if (code == MPI_SUCCESS) code = await(request, on_wait_);
    if (code != MPI_SUCCESS) return text_of(code);
    std::memcpy(out, memory->data() + bytes, all);
    delete memory;
    return "";
  }

  void start(std::shared_ptr<TransportRequest> request) override {
    if (library.threads < MPI_THREAD_MULTIPLE) {
      request->error = "MPI was initialised without MPI_THREAD_MULTIPLE, which a world of several hosts needs";
      end(*request);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_) {
        request->error = "the connection to other hosts was closed after an earlier failure";
        end(*request);
        return;
      }
      fresh_.push_back(std::move(request));
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    filled_.notify_one();
  }

  void finish(bool clean, std::span<const int> neighbours) override {
    if (!finished_) {
      --library.open;
      neighbours_of_last.watch(neighbours);
    }
    finished_ = true;
    library.clean = library.clean && clean;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    filled_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Running {
    std::shared_ptr<TransportRequest> request;
    MPI_Request handle = MPI_REQUEST_NULL;
  };

  static void end(TransportRequest& request) {
    request.done.store(true);
    request.finished.notify();
  }

  int begin(Running& running) const {
    const TransportRequest& r = *running.request;
    const int count = static_cast<int>(r.count);
    const MPI_Op op = r.op == 0 ? MPI_SUM : r.op == 1 ? MPI_MIN : MPI_MAX;
    MPI_Comm world = library.world;
    switch (r.call) {
      case Call::barrier: return MPI_Ibarrier(world, &running.handle);
      case Call::broadcast: return MPI_Ibcast(r.out, count, MPI_BYTE, r.peer, world, &running.handle);
      case Call::all_reduce:
        return MPI_Iallreduce(MPI_IN_PLACE, r.out, count, type_of(r.dtype), op, world, &running.handle);
      case Call::all_gather:
        return MPI_Iallgather(r.in, count, MPI_BYTE, r.out, count, MPI_BYTE, world, &running.handle);
      case Call::reduce_scatter:
        return MPI_Ireduce_scatter_block(r.in, r.out, count, type_of(r.dtype), op, world, &running.handle);
      case Call::send:
        return MPI_Isend(r.in, count, MPI_BYTE, r.peer, static_cast<int>(r.tag & 0x7fffffff), world, &running.handle);
      case Call::receive: return MPI_SUCCESS;  // starts once the message has arrived
      default: return MPI_ERR_ARG;
    }
  }

  // Receives a message only if it has the right size; otherwise it stays for a receive that fits. Only this thread
  // receives, so a probed message cannot disappear.
  static int begin_receive(Running& running, int& done) {
    TransportRequest& r = *running.request;
    const int tag = static_cast<int>(r.tag & 0x7fffffff);
    int there = 0;
    MPI_Status status{};
    int code = MPI_Iprobe(r.peer, tag, library.world, &there, &status);
    if (code != MPI_SUCCESS || there == 0) return code;
    int arrived = 0;
    code = MPI_Get_count(&status, MPI_BYTE, &arrived);
    if (code != MPI_SUCCESS) return code;
    if (static_cast<std::size_t>(arrived) != r.count) {
      r.error = "the message with tag " + std::to_string(r.tag) + " from rank " + std::to_string(r.peer) + " has " +
                std::to_string(arrived) + " bytes; expected " + std::to_string(r.count);
      r.wrong_size = true;
      done = 1;
      return MPI_SUCCESS;
    }
    return MPI_Irecv(r.out, arrived, MPI_BYTE, r.peer, tag, library.world, &running.handle);
  }

  void run() {
    constexpr int kBusyPolls = 2000;
    std::list<Running> running;
    int idle = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (running.empty()) filled_.wait(lock, [&] { return stop_ || !fresh_.empty(); });
        if (stop_) return;
        if (!fresh_.empty()) idle = 0;
        for (; !fresh_.empty(); fresh_.pop_front()) {
          running.push_back({.request = std::move(fresh_.front())});
          if (const int code = begin(running.back()); code != MPI_SUCCESS) {
            running.back().request->error = text_of(code);
            end(*running.back().request);
            running.pop_back();
          }
        }
      }
      bool moved = false;
      for (auto at = running.begin(); at != running.end();) {
        int done = 0;
        const bool receives = at->request->call == Call::receive && at->handle == MPI_REQUEST_NULL;
        const int code = receives ? begin_receive(*at, done) : MPI_Test(&at->handle, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && done == 0) {
          ++at;
          continue;
        }
        if (code != MPI_SUCCESS) at->request->error = text_of(code);
        end(*at->request);
        at = running.erase(at);
        moved = true;
      }
      // A long operation, such as waiting for a slow rank, must not occupy a core.
      idle = moved ? 0 : idle + 1;
      if (idle < kBusyPolls) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(std::min(1000, 50 * (idle - kBusyPolls + 1))));
      }
    }
  }

  WaitCallback on_wait_;
  int rank_ = 0;
  int size_ = 0;
  bool finished_ = false;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::shared_ptr<TransportRequest>> fresh_;  // guarded by mutex_
  bool stop_ = false;                                    // guarded by mutex_
  std::thread thread_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) pleiad::Transport* pleiad_start_transport(const WaitCallback& on_wait,
                                                                                            char* error,
                                                                                            std::size_t error_size) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    std::snprintf(error, error_size, "MPI was finalised in this process and cannot be initialised again");
    return nullptr;
  }
  if (initialized == 0) {
    const int code = mpi_thread.init(on_wait);
    if (code != MPI_SUCCESS) {
      std::snprintf(error, error_size, "MPI_Init_thread failed with code %d", code);
      return nullptr;
    }
    library.ours = true;
    library.process = getpid();
    std::atexit(finalize_at_exit);
  }
  MPI_Query_thread(&library.threads);
  if (library.world == MPI_COMM_NULL) {
    static MPI_Comm world = MPI_COMM_NULL;  // MPI may write to it after `on_wait` has thrown
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Comm_idup(MPI_COMM_WORLD, &world, &request);
    if (code == MPI_SUCCESS) code = await(request, on_wait);
    if (code != MPI_SUCCESS) {
      std::snprintf(error, error_size, "MPI_Comm_idup failed: %s", text_of(code).c_str());
      return nullptr;
    }
    library.world = world;
    MPI_Comm_set_errhandler(library.world, MPI_ERRORS_RETURN);
  }
  return new MpiTransport(on_wait);
}
