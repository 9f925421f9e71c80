// Addresses of this host.
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <string>
#include <unordered_set>

namespace multiverso {
namespace net {

/// Inserts the IPv4 addresses of all interfaces of this host as text.
inline void GetLocalIPAddress(std::unordered_set<std::string>* result) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) result->insert(text);
  }
  freeifaddrs(first);
}

}  // namespace net
}  // namespace multiverso
