#include "engine/transport_operations.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad {

namespace {
constexpr std::size_t kMaxRemoteBytes = std::size_t{1} << 30;
}  // namespace

void TransportOperations::run(std::shared_ptr<TransportRequest> request) {
  for (int r = 0; r < world_.size(); ++r) {
    if (members_.liveness(r) == Liveness::dead) {
      throw TransportError(fmt::format("[rank {}] {}: {} died, so no further MPI calls are made", world_.rank(),
                                       name_of(request->call), members_.describe(r)));
    }
  }
  transport_.start(request);
  // It is unknown here which of the other ranks have not arrived, so all of them may be missing.
  const bool to_one = request->call == Call::send || request->call == Call::receive;
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int r = 0; r < world_.size(); ++r) {
      if (to_one ? r == request->peer : r != world_.rank()) ranks.push_back(r);
    }
    return ranks;
  };
  // A rank of another host may have completed a collective and left, while this rank still waits for the collective's
  // end. So a rank that left is no reason to fail.
  try {
    waiter_.wait(request->finished, {.call = request->call,
                                     .ready = [&] { return request->done.load(); },
                                     .missing = missing,
                                     .ordered = false,
                                     .in_step = true});
  } catch (...) {
    // The request is still in progress and the caller's buffers are about to be freed, so MPI must not use them again.
    transport_.finish(false, {});
    throw;
  }
  if (request->wrong_size) throw InvalidArgument(fmt::format("[receive] {}", request->error));
  if (!request->error.empty()) {
    throw TransportError(fmt::format("[rank {}] {}: {}", world_.rank(), name_of(request->call), request->error));
  }
}

void TransportOperations::broadcast(void* data, std::size_t bytes, int root) {
  for (std::size_t done = 0; done < bytes; done += kMaxRemoteBytes) {
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::broadcast;
    request->out = static_cast<char*>(data) + done;
    request->count = std::min(kMaxRemoteBytes, bytes - done);
    request->peer = root;
    run(request);
  }
}

void TransportOperations::all_reduce(DType dtype, void* data, std::size_t count, Reduce op) {
  const std::size_t most = kMaxRemoteBytes / size_of(dtype);
  for (std::size_t done = 0; done < count; done += most) {
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::all_reduce;
    request->dtype = dtype;
    request->op = static_cast<std::uint8_t>(op);
    request->out = static_cast<char*>(data) + done * size_of(dtype);
    request->count = std::min(most, count - done);
    run(request);
  }
}

void TransportOperations::all_gather(const void* in, void* out, std::size_t bytes) {
  // In `out`, the parts of one call are `bytes` apart, so they are gathered in a separate buffer.
  std::vector<char> all;
  for (std::size_t done = 0; done < bytes; done += kMaxRemoteBytes) {
    const std::size_t part = std::min(kMaxRemoteBytes, bytes - done);
    all.resize(part * static_cast<std::size_t>(world_.size()));
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::all_gather;
    request->in = static_cast<const char*>(in) + done;
    request->out = all.data();
    request->count = part;
    run(request);
    for (int r = 0; r < world_.size(); ++r) {
      std::memcpy(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes + done,
                  all.data() + static_cast<std::size_t>(r) * part, part);
    }
  }
}

void TransportOperations::reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op) {
  const std::size_t most = kMaxRemoteBytes / size_of(dtype);
  const std::size_t width = size_of(dtype);
  std::vector<char> pieces;
  for (std::size_t done = 0; done < count; done += most) {
    const std::size_t part = std::min(most, count - done);
    pieces.resize(part * width * static_cast<std::size_t>(world_.size()));
    for (int r = 0; r < world_.size(); ++r) {
      std::memcpy(pieces.data() + static_cast<std::size_t>(r) * part * width,
                  static_cast<const char*>(in) + (static_cast<std::size_t>(r) * count + done) * width, part * width);
    }
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::reduce_scatter;
    request->dtype = dtype;
    request->op = static_cast<std::uint8_t>(op);
    request->in = pieces.data();
    request->out = static_cast<char*>(out) + done * width;
    request->count = part;
    run(request);
  }
}

void TransportOperations::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  std::size_t done = 0;
  do {
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::send;
    request->in = static_cast<const char*>(data) + done;
    request->count = std::min(kMaxRemoteBytes, bytes - done);
    request->peer = to;
    request->tag = tag;
    done += request->count;
    run(request);
  } while (done < bytes);
}

void TransportOperations::receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  std::size_t done = 0;
  do {
    auto request = std::make_shared<TransportRequest>();
    request->call = Call::receive;
    request->out = static_cast<char*>(data) + done;
    request->count = std::min(kMaxRemoteBytes, bytes - done);
    request->peer = from;
    request->tag = tag;
    done += request->count;
    run(request);
  } while (done < bytes);
}

}  // namespace pleiad
