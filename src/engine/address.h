// Where the processes of other hosts reach this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pleiad {

/// IPv4 addresses of one process, and the masks of their networks, in host byte order.
struct Addresses {
  static constexpr int kMost = 8;
  struct One {
    std::uint32_t address = 0;
    std::uint32_t mask = 0;
  };
  One list[kMost] = {};
  std::int32_t count = 0;
  std::int32_t port = 0;
};

/// The addresses of this machine's interfaces that are up, loopback last. With `only` not empty: the one address that
/// it gives as numbers or as an interface's name; an InvalidArgument lists the known ones.
[[nodiscard]] Addresses own_addresses(const std::string& only);

/// "10.0.0.2"
[[nodiscard]] std::string to_text(std::uint32_t address);

/// The address at which a process with `mine` reaches one with `theirs`: one in a network that both have, else the
/// first.
[[nodiscard]] std::uint32_t address_to(const Addresses& theirs, const Addresses& mine);
/// The same with the port, as "tcp://10.0.0.2:4711".
[[nodiscard]] std::string endpoint_to(const Addresses& theirs, const Addresses& mine);

}  // namespace pleiad
