#include "engine/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::uint32_t ipv4_of(const sockaddr* address) {
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof in);
  return ntohl(in.sin_addr.s_addr);
}

}  // namespace

std::string to_text(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

Addresses own_addresses(const std::string& only) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0)
    throw TransportError(fmt::format("cannot list the network interfaces: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(raw, freeifaddrs);
  Addresses found;
  std::vector<std::string> known;
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* at = all.get(); at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
      if ((at->ifa_flags & IFF_UP) == 0 || ((at->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      const Addresses::One one{.address = ipv4_of(at->ifa_addr), .mask = ipv4_of(at->ifa_netmask)};
      known.push_back(fmt::format("{} ({})", at->ifa_name, to_text(one.address)));
      if (!only.empty() && only != at->ifa_name && only != to_text(one.address)) continue;
      if (found.count < Addresses::kMax) found.list[found.count++] = one;
    }
  }
  if (found.count > 0) return found;
  throw InvalidArgument(only.empty() ? "this machine has no network interface with an IPv4 address that is up"
                                     : fmt::format("option interface: expected the name or IPv4 address of an "
                                                   "interface that is up, received \"{}\"; known: {}",
                                                   only, join(known)));
}

std::uint32_t address_to(const Addresses& theirs, const Addresses& mine) {
  const std::span<const Addresses::One> here(mine.list, static_cast<std::size_t>(mine.count));
  const auto same_network = [&](const Addresses::One& there) {
    return std::ranges::any_of(here, [&](const Addresses::One& one) {
      const std::uint32_t mask = one.mask & there.mask;
      return (one.address & mask) == (there.address & mask);
    });
  };
  // Loopback addresses, and addresses that both machines have (such as a container bridge), lead back to this machine.
  const auto leads_back = [&](const Addresses::One& there) {
    return there.address >> 24 == 127 || std::ranges::find(here, there.address, &Addresses::One::address) != here.end();
  };
  const Addresses::One* best = nullptr;
  for (const Addresses::One& there : std::span(theirs.list, static_cast<std::size_t>(theirs.count))) {
    if (leads_back(there)) continue;
    if (best == nullptr || (same_network(there) && !same_network(*best))) best = &there;
  }
  return (best != nullptr ? *best : theirs.list[0]).address;
}

std::string endpoint_to(const Addresses& theirs, const Addresses& mine) {
  return fmt::format("tcp://{}:{}", to_text(address_to(theirs, mine)), theirs.port);
}

}  // namespace pleiad
