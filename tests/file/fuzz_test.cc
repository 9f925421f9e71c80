// Thousands of damaged files: each is refused with an error that names it, or is read without an access outside of its
// bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "file/saved_set.h"
#include "tests/file/folder.h"
#include "tests/file/mutate.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

/// Reads every byte that the file declares.
unsigned touch(const Safetensors& file) {
  unsigned sum = 0;
  for (const ArrayEntry& array : file.arrays()) {
    for (const std::byte byte : array.bytes) sum += static_cast<unsigned>(byte);
  }
  return sum;
}

TEST(Fuzz, DamagedSafetensorsAreRefusedOrReadWithinTheirBytes) {
  const Folder folder;
  const std::vector<float> floats(20, 1.5F);
  const std::vector<std::int64_t> longs(3, -7);
  const std::vector<ArrayToWrite> arrays = {{"weights", element_type(DType::float32), {4, 5}, bytes_of(floats)},
                                            {"steps", element_type(DType::int64), {3}, bytes_of(longs)}};
  write_safetensors(folder / "good", arrays, {{"kind", "test"}});
  const std::string good = slurp(folder / "good");
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string bad = mutated(good, random);
    // A copy on the heap of exactly the input's size, so that the address sanitizer reports any access past its end.
    const std::vector<std::byte> memory(reinterpret_cast<const std::byte*>(bad.data()),
                                        reinterpret_cast<const std::byte*>(bad.data()) + bad.size());
    try {
      (void)touch(Safetensors(memory, "fuzzed.safetensors"));
    } catch (const FileError& error) {
      ++refused;
      ASSERT_TRUE(std::string(error.what()).starts_with("fuzzed.safetensors: ")) << error.what();
    }
  }
  EXPECT_GT(refused, 3000);
}

class FuzzedSet : public testing::Test {
 protected:
  FuzzedSet() {
    Manifest manifest{.kind = "snapshot", .metadata = {{"step", "3"}}, .parts = {}};
    for (int rank = 0; rank < 2; ++rank) {
      const std::vector<float> numbers(6, static_cast<float>(rank));
      const std::vector<PieceToWrite> pieces = {
          {"w", element_type(DType::float32), {4, 3}, {{2 * rank, 0}, {2, 3}}, bytes_of(numbers)}};
      manifest.parts.push_back(write_part(folder_.path(), "s", rank, pieces));
    }
    manifest.commit(folder_.path());
  }

  /// Every mutation that changes a file must end in a FileError that names `path`.
  void expect_all_refused(const std::filesystem::path& path, int mutations,
                          const std::function<bool(const std::string&)>& same) {
    const std::string good = slurp(path);
    std::mt19937 random(2);
    for (int i = 0; i < mutations; ++i) {
      const std::string bad = mutated(good, random);
      spit(path, bad);
      try {
        const SavedSet set(folder_.path());
        std::vector<float> out(12);
        set.read("w", std::as_writable_bytes(std::span(out)));
        ASSERT_TRUE(same(bad)) << bad;
        ASSERT_EQ(out, (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
      } catch (const FileError& error) {
        ASSERT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    }
    spit(path, good);
  }

  Folder folder_;
};

TEST_F(FuzzedSet, EveryDamageToAPartIsFound) {
  const std::string good = slurp(folder_ / "s-00001.safetensors");
  expect_all_refused(folder_ / "s-00001.safetensors", 2500, [&](const std::string& text) { return text == good; });
}

TEST_F(FuzzedSet, EveryDamageToTheManifestThatMattersIsFound) {
  // Mutations may add or remove white space between values.
  const auto solid = [](std::string text) {
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
    return text;
  };
  const std::string good = solid(slurp(folder_ / Manifest::kFile));
  expect_all_refused(folder_ / Manifest::kFile, 2500, [&](const std::string& text) { return solid(text) == good; });
}

}  // namespace
