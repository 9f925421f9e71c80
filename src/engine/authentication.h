// Authentication: two processes show each other that they know the job's key without revealing it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/job_key.h"

namespace pleiad {

using Nonce = std::array<char, 16>;
using AuthTag = std::array<char, 32>;

/// Initialises libsodium. Must be called before any of its functions. Throws InternalError if the library is unusable.
void init_sodium();

[[nodiscard]] Nonce random_nonce();
[[nodiscard]] std::uint64_t random_number();

/// A number derived from the key for public names, such as those of sockets. It reveals nothing about the key.
[[nodiscard]] std::uint64_t public_id(const JobKey& key);

/// A keyed hash (HMAC-SHA-512-256) over the side that authenticates (`side`), both nonces and both ranks. It cannot be
/// computed without the key, and it is useless for another connection because the nonces differ.
[[nodiscard]] AuthTag make_auth_tag(const JobKey& key, std::string_view side, const Nonce& client, const Nonce& server,
                                    std::int32_t client_rank, std::int32_t server_rank);
/// Compares in constant time.
[[nodiscard]] bool equal(const AuthTag& a, const AuthTag& b);

}  // namespace pleiad
