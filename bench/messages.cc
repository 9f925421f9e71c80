// A table on another host against bare ZeroMQ: the same bytes there and back in the same chunks. Two processes, started
// by mpirun with PLEIAD_SPLIT_HOSTS=2: rank 0 is the worker, rank 1 the server of both.
#include <cstdlib>
#include <cstring>
#include <thread>

#include <zmq.hpp>

#include "bench/measure.h"
#include "engine/messenger.h"
#include "session/core.h"

namespace {

using namespace pleiad;

constexpr std::size_t chunk_of(std::size_t bytes) {
  return bytes <= Messenger::kWholeBytes ? bytes : Messenger::kChunkBytes;
}

// Takes all chunks of a ping, then sends as many bytes back.
void pong(zmq::socket_t& socket, std::size_t bytes) {
  static std::vector<char> buffer;
  buffer.resize(bytes);
  const std::size_t chunk = chunk_of(bytes);
  for (;;) {
    for (std::size_t done = 0; done < bytes; done += chunk) {
      const auto got = socket.recv(zmq::mutable_buffer(buffer.data() + done, std::min(chunk, bytes - done)));
      if (got && got->size == 0) return;
    }
    for (std::size_t done = 0; done < bytes; done += chunk) {
      (void)socket.send(zmq::const_buffer(buffer.data() + done, std::min(chunk, bytes - done)));
    }
  }
}

void ping(zmq::socket_t& socket, const std::vector<float>& out, std::vector<float>& in) {
  const std::size_t bytes = out.size() * sizeof(float);
  const auto* from = reinterpret_cast<const char*>(out.data());
  auto* to = reinterpret_cast<char*>(in.data());
  const std::size_t chunk = chunk_of(bytes);
  for (std::size_t done = 0; done < bytes; done += chunk) {
    (void)socket.send(zmq::const_buffer(from + done, std::min(chunk, bytes - done)));
  }
  for (std::size_t done = 0; done < bytes; done += chunk) {
    (void)socket.recv(zmq::mutable_buffer(to + done, std::min(chunk, bytes - done)));
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
    if (server) {
      std::thread peer([&] { pong(socket, static_cast<std::size_t>(size) * sizeof(float)); });
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
    const auto measure = [&](const char* name, const bench::Body& ours) {
      const bench::Plan plan{.name = name, .size = size, .rounds = rounds, .block_ms = 60};
      bench::print(plan, "procs", 2,
                   bench::interleave(plan, ours, [&] { ping(socket, delta, out); }, bench::microseconds_each));
    };
    measure("message", [&] {
      table.add(delta);
      table.get(out);
    });
    measure("message_add_get", [&] { table.add_get(delta, out); });
    (void)socket.send(zmq::message_t(0), zmq::send_flags::none);
    session.barrier();
  }
  session.shutdown();
}
