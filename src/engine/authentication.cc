#include "engine/authentication.h"

#include <sodium.h>

#include <cstring>
#include <vector>

#include "pleiad/error.h"

namespace pleiad {

void init_sodium() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) throw InternalError("libsodium cannot be used on this machine");
}

JobKey JobKey::random() {
  init_sodium();
  JobKey key;
  randombytes_buf(&key, sizeof key);
  return key;
}

Nonce random_nonce() {
  init_sodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::uint64_t random_number() {
  const Nonce nonce = random_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return number;
}

std::uint64_t public_id(const JobKey& key) {
  init_sodium();
  constexpr std::string_view kPurpose = "pleiad public name";
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(),
                     reinterpret_cast<const unsigned char*>(&key), sizeof key);
  std::uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof number);
  return number;
}

AuthTag make_auth_tag(const JobKey& key, std::string_view side, const Nonce& client, const Nonce& server,
                      std::int32_t client_rank, std::int32_t server_rank) {
  static_assert(crypto_auth_BYTES == sizeof(AuthTag));
  init_sodium();
  std::vector<char> text(side.begin(), side.end());
  text.push_back(0);
  text.insert(text.end(), client.begin(), client.end());
  text.insert(text.end(), server.begin(), server.end());
  for (const std::int32_t rank : {client_rank, server_rank}) {
    const auto* bytes = reinterpret_cast<const char*>(&rank);
    text.insert(text.end(), bytes, bytes + sizeof rank);
  }
  std::array<unsigned char, crypto_auth_KEYBYTES> long_key{};
  std::memcpy(long_key.data(), &key, sizeof key);
  AuthTag tag;
  crypto_auth(reinterpret_cast<unsigned char*>(tag.data()), reinterpret_cast<const unsigned char*>(text.data()),
              text.size(), long_key.data());
  return tag;
}

bool equal(const AuthTag& a, const AuthTag& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace pleiad
