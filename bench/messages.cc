// Compares a table on another host with bare ZeroMQ: the same bytes in both directions in the same chunks. Two
// processes, started by mpirun with PLEIAD_SPLIT_HOSTS=2: rank 0 is the worker, rank 1 is the server of both.
//
// An add that is waited for and a get need two round trips, and add_get needs one. Each is compared with the same
// number of round trips of bare ZeroMQ. message_to_one_trip compares the two calls with a single round trip, a ratio
// that no two calls over ZeroMQ can reach.
#include <cstdlib>
#include <cstring>
#include <thread>

#include <zmq.hpp>

#include "bench/measure.h"
#include "engine/rpc_transport.h"
#include "session/core.h"
#include "table/request.h"

namespace {

using namespace pleiad;

// The bytes of a table's request and of its reply beside the values.
constexpr std::size_t kSmall = sizeof(FrameHead) + sizeof(TableHead);

// The header of a ping: its own length and that of the reply. A ping without a reply is the last one.
struct Trip {
  std::size_t there = 0;
  std::size_t back = 0;
};

// Calls one(first byte, bytes) for each chunk.
template <class F>
void by_chunks(std::size_t bytes, F&& one) {
  const std::size_t chunk = bytes <= RpcTransport::kWholeBytes ? bytes : RpcTransport::kChunkBytes;
  for (std::size_t done = 0; done < bytes; done += chunk) one(done, std::min(chunk, bytes - done));
}

void send_all(zmq::socket_t& socket, const std::vector<char>& from, std::size_t bytes) {
  by_chunks(bytes, [&](std::size_t at, std::size_t n) { (void)socket.send(zmq::const_buffer(from.data() + at, n)); });
}

void receive_all(zmq::socket_t& socket, std::vector<char>& to, std::size_t bytes) {
  by_chunks(bytes, [&](std::size_t at, std::size_t n) { (void)socket.recv(zmq::mutable_buffer(to.data() + at, n)); });
}

// The bare ZeroMQ server: receives all chunks of a ping, then sends the requested number of bytes back.
void pong(zmq::socket_t& socket, std::size_t most) {
  std::vector<char> buffer(most);
  for (;;) {
    const auto first = socket.recv(zmq::mutable_buffer(buffer.data(), buffer.size()));
    Trip trip;
    std::memcpy(&trip, buffer.data(), sizeof trip);
    if (trip.back == 0) return;
    by_chunks(trip.there, [&](std::size_t at, std::size_t n) {
      if (at >= first->size) (void)socket.recv(zmq::mutable_buffer(buffer.data() + at, n));
    });
    send_all(socket, buffer, trip.back);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const char* rank_text = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool server = rank_text != nullptr && std::atoi(rank_text) == 1;
  SessionOptions options;
  options.role = server ? "server" : "worker";
  Session session = Session::start(options);
  if (session.hosts() != 2 || session.size() != 2) {
    std::fprintf(stderr, "bench_messages: start it by mpirun -n 2 with PLEIAD_SPLIT_HOSTS=2\n");
    return 1;
  }
  for (const std::int64_t size : {100000, 10000000}) {
    const ArrayTable table = session.create_array(size);
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::pair);
    socket.set(zmq::sockopt::linger, 0);
    std::vector<std::int64_t> port = {0};
    if (server) {
      socket.bind("tcp://127.0.0.1:*");
      const std::string bound = socket.get(zmq::sockopt::last_endpoint);
      port[0] = std::atoll(bound.substr(bound.rfind(':') + 1).c_str());
    }
    session.broadcast(port, 1);
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(float);
    if (server) {
      std::thread peer([&] { pong(socket, bytes); });
      session.barrier();
      peer.join();
      continue;
    }
    socket.connect("tcp://127.0.0.1:" + std::to_string(port[0]));
    std::vector<float> delta(static_cast<std::size_t>(size), 1.0F);
    std::vector<float> out(static_cast<std::size_t>(size), 0.0F);
    table.add(delta);
    table.get(out);
    if (out.front() != 1.0F || out.back() != 1.0F) {
      std::fprintf(stderr, "bench: wrong result in message\n");
      return 1;
    }
    std::vector<char> there(bytes);
    std::vector<char> back(bytes);
    const auto ping = [&](const Trip& trip) {
      std::memcpy(there.data(), &trip, sizeof trip);
      send_all(socket, there, trip.there);
      if (trip.back > 0) receive_all(socket, back, trip.back);
    };
    const auto one_trip = [&] { ping({bytes, bytes}); };
    const auto two_trips = [&] {
      ping({bytes, kSmall});
      ping({kSmall, bytes});
    };
    const auto measure = [&](const char* name, const bench::Body& ours, const bench::Body& peer) {
      const bench::Plan plan{.name = name, .size = size, .rounds = rounds, .block_ms = 60};
      bench::print(plan, "procs", 2, bench::interleave(plan, ours, peer, bench::microseconds_each));
    };
    const auto two_calls = [&] {
      table.add(delta);
      table.get(out);
    };
    for (int i = 0; i < (size > 1'000'000 ? 3 : 500); ++i) {  // buffers grow, and pages are touched for the first time
      two_calls();
      two_trips();
    }
    measure("message", two_calls, two_trips);
    measure("message_add_get", [&] { table.add_get(delta, out); }, one_trip);
    measure("message_to_one_trip", two_calls, one_trip);
    ping({sizeof(Trip), 0});
    session.barrier();
  }
  session.shutdown();
}
