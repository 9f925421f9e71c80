// The IPv4 addresses at which processes of other hosts reach this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pleiad {

/// The IPv4 addresses of one process and their network masks, in host byte order.
struct Addresses {
  static constexpr int kMax = 8;
  struct One {
    std::uint32_t address = 0;
    std::uint32_t mask = 0;
  };
  One list[kMax] = {};
  std::int32_t count = 0;
  std::int32_t port = 0;
};

/// Returns the addresses of this machine's interfaces that are up, loopback last. If `only` is not empty, it is an
/// address or the name of an interface, and only that address is returned. Throws InvalidArgument with the known
/// interfaces if it matches none.
[[nodiscard]] Addresses own_addresses(const std::string& only);

/// Formats an address, such as "10.0.0.2".
[[nodiscard]] std::string to_text(std::uint32_t address);

/// Chooses the address at which a process with the addresses `mine` reaches one with the addresses `theirs`: the first
/// in a network that both share, otherwise the first.
[[nodiscard]] std::uint32_t address_to(const Addresses& theirs, const Addresses& mine);
/// The same address with the port, such as "tcp://10.0.0.2:4711".
[[nodiscard]] std::string endpoint_to(const Addresses& theirs, const Addresses& mine);

}  // namespace pleiad
