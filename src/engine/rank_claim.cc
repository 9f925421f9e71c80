#include "engine/rank_claim.h"

#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace pleiad {

namespace {

std::mutex mutex;
int held = -1;           // a socket whose name is the claim; the kernel frees the name when the process ends
std::string held_claim;  // guarded by the mutex

// A forked child must not keep the claim after its parent has ended.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  if (held >= 0) close(held);
  held = -1;
});

/// The job, the rank, and what keeps apart jobs with the same variables: users, and containers that share a network.
/// Empty where the variables do not give a rank.
std::string claim_of(const Launch& launch) {
  std::string rank = launch.rank >= 0 ? std::to_string(launch.rank) : "";
  // A rank counts only with the variable that tells its job from others: two jobs must not claim the same name. Jobs of
  // one batch script share SLURM_JOB_ID, but not the number of the step.
  for (const auto& [rank_name, job_name] : {std::pair{"PMIX_RANK", "PMIX_NAMESPACE"}, {"PMI_RANK", "SLURM_STEP_ID"}}) {
    const char* value = std::getenv(rank_name);
    if (rank.empty() && value != nullptr && std::getenv(job_name) != nullptr) rank = value;
  }
  if (rank.empty() || launch.job.empty()) return "";
  std::error_code unknown;
  const std::string processes = std::filesystem::read_symlink("/proc/self/ns/pid", unknown);
  return fmt::format("rank {} {} {} {}", rank, geteuid(), processes, launch.job);
}

struct ClaimAddress {
  sockaddr_un where{};
  socklen_t size = 0;
};

/// The name is a hash, because the job's name may hold a secret.
ClaimAddress address_of(const std::string& claim) {
  std::array<unsigned char, 16> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(claim.data()), claim.size(),
                     nullptr, 0);
  std::string name = "pleiad-rank-";
  for (const unsigned char byte : digest) name += fmt::format("{:02x}", byte);
  ClaimAddress address;
  address.where.sun_family = AF_UNIX;
  std::memcpy(address.where.sun_path + 1, name.data(), name.size());  // the zero byte before it: the abstract namespace
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

bool claim_rank(const Launch& launch) {
  const std::string claim = claim_of(launch);
  if (claim.empty()) return true;
  const std::lock_guard lock(mutex);
  if (held >= 0 && held_claim == claim) return true;
  const ClaimAddress address = address_of(claim);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;  // a system that has no such sockets does not prevent the start
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.where), address.size) != 0) {
    const bool taken = errno == EADDRINUSE;
    close(fd);
    return !taken;
  }
  if (held >= 0) close(held);
  held = fd;
  held_claim = claim;
  return true;
}

bool rank_is_claimed(const Launch& launch) {
  const std::string claim = claim_of(launch);
  if (claim.empty()) return false;
  const std::lock_guard lock(mutex);
  if (held >= 0 && held_claim == claim) return false;
  const ClaimAddress address = address_of(claim);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool found = connect(fd, reinterpret_cast<const sockaddr*>(&address.where), address.size) == 0;
  close(fd);
  return found;
}

}  // namespace pleiad
