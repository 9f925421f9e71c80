// How two processes show each other that they know the job's key without saying it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/job_key.h"

namespace pleiad {

using Nonce = std::array<char, 16>;
using Proof = std::array<char, 32>;

/// Call this before any function of libsodium. An InternalError if the library cannot be used.
void need_sodium();

[[nodiscard]] Nonce random_nonce();
[[nodiscard]] std::uint64_t random_number();

/// A number for names that everyone can see, of sockets for instance: it tells nothing about the key.
[[nodiscard]] std::uint64_t public_number(const JobKey& key);

/// A keyed hash (HMAC-SHA-512-256) of who proves (`side`), both nonces and both ranks. Nobody without the key can make
/// one, and none is good for another connection: each has nonces of its own.
[[nodiscard]] Proof make_proof(const JobKey& key, std::string_view side, const Nonce& client, const Nonce& server,
                               std::int32_t client_rank, std::int32_t server_rank);
/// In constant time.
[[nodiscard]] bool same(const Proof& a, const Proof& b);

}  // namespace pleiad
