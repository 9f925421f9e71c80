#include "engine/adaptive_copy.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "core/kernels.h"

namespace pleiad {
namespace {

struct Bytes {
  std::vector<unsigned char> from;
  std::vector<unsigned char> to;

  explicit Bytes(std::size_t count) : from(count), to(count, 0xee) {
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  /// Checks that the copy of [at, at + bytes) is complete and that no byte outside has changed.
  void expect_copied(std::size_t from_at, std::size_t to_at, std::size_t bytes) const {
    EXPECT_EQ(std::memcmp(to.data() + to_at, from.data() + from_at, bytes), 0) << to_at << ", " << bytes << " bytes";
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (i < to_at || i >= to_at + bytes) {
        ASSERT_EQ(to[i], 0xee) << "byte " << i << " beside " << to_at << ", " << bytes << " bytes";
      }
    }
  }
};

TEST(CopyPastCache, CopiesAnyOffsetAndLengthAndNothingElse) {
  for (const std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 1000, 4096}) {
    for (std::size_t at = 0; at < 70; at += 3) {
      Bytes memory(4400);
      copy_bytes_non_temporal(memory.to.data() + at, memory.from.data() + 5, bytes);
      memory.expect_copied(5, at, bytes);
    }
  }
}

TEST(AdaptiveCopy, CopiesTheSameBytesWithEitherMethod) {
  AdaptiveCopy adaptive_copy;
  for (int turn = 0; turn < 300; ++turn) {  // both methods are tried within 129 large copies
    const std::size_t bytes = turn % 3 == 0 ? 20'001 : 66'000 + static_cast<std::size_t>(turn);
    Bytes memory(70'000);
    adaptive_copy.copy(memory.to.data() + turn % 64, memory.from.data(), bytes);
    ASSERT_NO_FATAL_FAILURE(memory.expect_copied(0, static_cast<std::size_t>(turn) % 64, bytes));
  }
}

}  // namespace
}  // namespace pleiad
