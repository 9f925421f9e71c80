#include "tests/fuzz/request_target.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "engine/inproc.h"
#include "pleiad/session.h"
#include "session/core.h"
#include "table/table_service.h"

namespace pleiad::fuzz {

namespace {

/// Two ranks on two hosts with an array, a matrix and a sparse table. The inputs are sent to rank 0's service.
class World {
 public:
  World() {
    thread_ = std::thread([this] {
      SessionOptions options;
      options.split_hosts = 2;
      options.log_level = "off";
      options.timeout = 1e6;
      options.host_timeout = 1e5;
      run_inproc(2, options, nullptr, [this](const std::shared_ptr<InprocEngine>& engine) { live(engine); });
    });
    ready_.acquire();
  }
  ~World() {
    over_.release(2);
    thread_.join();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] TableService& service() const { return *service_; }

 private:
  void live(const std::shared_ptr<InprocEngine>& engine) {
    const auto core = std::make_shared<SessionCore>(engine);
    Session session(core);
    const ArrayTable array = session.create_array(20, {});
    const MatrixTable matrix = session.create_matrix(6, 3, {.track_changes = true});
    const SparseTable sparse = session.create_sparse(2, {.track_changes = true, .max_rows = 100, .evict = true});
    session.barrier();
    if (engine->world().rank() == 0) {
      service_ = core->context().service.get();
      ready_.release();
    }
    over_.acquire();
    session.shutdown();
  }

  std::counting_semaphore<2> ready_{0};
  std::counting_semaphore<2> over_{0};
  TableService* service_ = nullptr;
  std::thread thread_;
};

}  // namespace

void run_request(Input input) {
  static const World world;
  if (input.empty()) return;
  constexpr std::size_t kLargestAnswer = std::size_t{1} << 20;
  // The RPC transport delivers bodies aligned to eight bytes, and so does this copy.
  std::vector<std::uint64_t> aligned((input.size() + 6) / 8 + 1);
  std::memcpy(aligned.data(), input.data() + 1, input.size() - 1);
  IncomingRequest request;
  request.from = 1;
  request.operation = static_cast<std::uint32_t>(input[0]) & 0x7F;
  request.repeated = (input[0] & std::byte{0x80}) != std::byte{0};
  request.body = {reinterpret_cast<const char*>(aligned.data()), input.size() - 1};
  std::vector<char> answer;
  expect_contract("", [&] {
    (void)world.service().handle(request, [&](std::size_t bytes) {
      if (bytes > kLargestAnswer) std::abort();
      answer.resize(bytes);
      return std::span(answer);
    });
  });
}

}  // namespace pleiad::fuzz
