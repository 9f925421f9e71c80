#include "engine/key_agreement.h"

#include <sodium.h>

#include <array>
#include <vector>

#include "engine/authentication.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

using PublicKey = std::array<unsigned char, crypto_box_PUBLICKEYBYTES>;
using SealedKey = std::array<unsigned char, crypto_box_SEALBYTES + sizeof(JobKey)>;

}  // namespace

JobKey agree_on_key(int rank, int size, GatherBytes gather) {
  init_sodium();
  JobKey key = JobKey::random();
  PublicKey mine{};
  std::array<unsigned char, crypto_box_SECRETKEYBYTES> secret{};
  if (crypto_box_keypair(mine.data(), secret.data()) != 0) throw InternalError("cannot generate a key pair");
  std::vector<PublicKey> all(static_cast<std::size_t>(size));
  gather(mine.data(), all.data(), sizeof mine);
  // The number of ranks that know the key doubles in each step: rank r sends it to rank r + know.
  for (int know = 1; know < size; know *= 2) {
    SealedKey box{};
    if (rank < know && rank + know < size) {
      const PublicKey& receiver = all[static_cast<std::size_t>(rank + know)];
      if (crypto_box_seal(box.data(), reinterpret_cast<const unsigned char*>(&key), sizeof key, receiver.data()) != 0) {
        throw TransportError("[start] key agreement failed: a rank sent an invalid public key");
      }
    }
    std::vector<SealedKey> boxes(static_cast<std::size_t>(size));
    gather(box.data(), boxes.data(), sizeof box);
    if (rank < know || rank >= 2 * know) continue;
    const SealedKey& from = boxes[static_cast<std::size_t>(rank - know)];
    if (crypto_box_seal_open(reinterpret_cast<unsigned char*>(&key), from.data(), from.size(), mine.data(),
                             secret.data()) != 0) {
      throw TransportError("[start] key agreement failed: the key of the job was altered in transit");
    }
  }
  sodium_memzero(secret.data(), secret.size());
  return key;
}

}  // namespace pleiad
