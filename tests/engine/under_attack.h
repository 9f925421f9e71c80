// Two ranks that work while a foreign process attacks one of them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/inproc.h"
#include "engine/rpc_transport.h"
#include "session/core.h"
#include "table/request.h"

namespace pleiad {

inline SessionOptions options_for_tests() {
  SessionOptions options;
  options.timeout = 600;
  options.host_timeout = 120;  // on a busy machine, a service's thread may not run for a while
  options.log_level = "off";
  options.split_hosts = 2;
  options.transport_security = "off";  // the checks below the encryption must suffice without it
  return options;
}

// Two ranks on two hosts. `attack` runs on rank 0's thread with the endpoint of rank 1's service and the job's key,
// while both ranks use the table of integers.
struct Target {
  std::string endpoint;
  JobKey key;
};

inline void under_attack(const std::function<void(const Target&)>& attack, const std::string& security = "off") {
  SessionOptions options = options_for_tests();
  options.transport_security = security;
  const JobKey key = JobKey::random();
  std::vector<RankLocation> places = {{.host = 0, .local = 0, .name = "left"},
                                      {.host = 1, .local = 0, .name = "right"}};
  const auto wire = std::make_shared<InprocTransport>(2);
  std::vector<std::shared_ptr<InprocEngine>> engines;
  for (int r = 0; r < 2; ++r) {
    engines.push_back(
        std::make_shared<InprocEngine>(options, r, places, std::make_shared<InprocHost>(1), wire, nullptr));
  }
  InprocEngine::connect_all(engines, key);
  const Target target{.endpoint = endpoint_to(engines[1]->rpc()->addresses(), {}), .key = key};
  constexpr int kAdds = 40;
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      Session session(std::make_shared<SessionCore>(engines[static_cast<std::size_t>(r)]));
      TableOptions table_options;
      table_options.dtype = DType::int64;
      const ArrayTable table = session.create_array(1000, table_options);
      std::thread attacker;
      if (r == 0) attacker = std::thread([&] { attack(target); });
      const std::vector<std::int64_t> ones(1000, 1);
      std::vector<std::int64_t> out(1000);
      for (int i = 0; i < kAdds; ++i) {
        table.add(ones);
        table.get(out);
      }
      if (attacker.joinable()) attacker.join();
      session.barrier();
      table.get(out);
      for (const std::int64_t value : out) ASSERT_EQ(value, 2 * kAdds);
      session.shutdown();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Waits until the channel is authenticated. Returns false if that does not happen in time.
inline bool welcomed(RpcConnection& channel, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!channel.authenticated() && std::chrono::steady_clock::now() < end) {
    channel.send_hello(std::chrono::steady_clock::now().time_since_epoch().count());
    (void)channel.receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return channel.authenticated();
}

inline zmq::message_t add_request(RpcConnection& channel, std::uint64_t sequence, std::size_t elements) {
  FrameHead head = channel.head(FrameKind::request);
  head.sequence = sequence;
  head.operation = static_cast<std::uint32_t>(TableOperation::add);
  zmq::message_t frame = make_frame(head, sizeof(TableHead) + elements * sizeof(std::int64_t));
  TableHead table;
  table.count = 1;
  std::memset(body_of(frame).data(), 0, body_of(frame).size());
  std::memcpy(body_of(frame).data(), &table, sizeof table);
  return frame;
}

}  // namespace pleiad
