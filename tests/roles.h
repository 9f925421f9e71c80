// A world of threads whose ranks have given roles, on any number of hosts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/inproc.h"
#include "session/core.h"

namespace pleiad::test {

/// Runs body(session) and then a shutdown on a thread for each role. An error that leaves the thread fails the test.
/// Ranks of a host have consecutive numbers.
inline void run_roles(const std::vector<std::string>& roles, int hosts, const std::function<void(Session&)>& body) {
  const auto ranks = static_cast<int>(roles.size());
  std::vector<RankLocation> places;
  std::vector<std::shared_ptr<InprocHost>> memory;
  for (int host = 0; host < hosts; ++host) {
    const int first = ranks * host / hosts;
    const int end = ranks * (host + 1) / hosts;
    memory.push_back(std::make_shared<InprocHost>(end - first));
    for (int r = first; r < end; ++r)
      places.push_back({.host = host, .local = r - first, .name = "node" + std::to_string(host)});
  }
  const auto wire = hosts > 1 ? std::make_shared<InprocTransport>(ranks) : nullptr;
  std::vector<std::shared_ptr<InprocEngine>> engines;
  for (int r = 0; r < ranks; ++r) {
    SessionOptions options;
    options.timeout = 600;
    options.log_level = "off";
    options.role = roles[static_cast<std::size_t>(r)];
    const auto& host = memory[static_cast<std::size_t>(places[static_cast<std::size_t>(r)].host)];
    engines.push_back(std::make_shared<InprocEngine>(options, r, places, host, wire, nullptr));
  }
  if (wire != nullptr) InprocEngine::connect_all(engines, JobKey::random());
  std::vector<std::thread> threads;
  for (auto& engine : engines) {
    threads.emplace_back([&body, engine = std::move(engine)] {
      try {
        Session session(std::make_shared<SessionCore>(engine));
        body(session);
        session.shutdown();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << engine->world().rank() << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace pleiad::test
