// Reads IDX files (the MNIST family), plain or gzipped.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Idx {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Throws std::runtime_error that names the file and what is wrong with it.
inline Idx read_idx(const std::string& path) {
  const auto fail = [&](const std::string& what) -> void { throw std::runtime_error(path + ": " + what); };
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) fail("cannot be opened (Debian's package dataset-fashion-mnist has the data)");
  const auto read = [&](void* to, std::size_t count) {
    const int got = gzread(file.get(), to, static_cast<unsigned>(count));
    if (got < 0 || static_cast<std::size_t>(got) != count) {
      fail("is truncated: expected " + std::to_string(count) + " more bytes, received " +
           std::to_string(std::max(got, 0)));
    }
  };
  std::array<std::uint8_t, 4> magic{};
  read(magic.data(), magic.size());
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] < 1 || magic[3] > 4)
    fail("is not an IDX file of bytes");
  Idx idx;
  std::int64_t count = 1;
  for (int d = 0; d < magic[3]; ++d) {
    std::array<std::uint8_t, 4> word{};
    read(word.data(), word.size());
    idx.shape.push_back((std::int64_t{word[0]} << 24) | (word[1] << 16) | (word[2] << 8) | word[3]);
    count *= idx.shape.back();
    if (count > (std::int64_t{1} << 31)) fail("is larger than any file of this family");
  }
  idx.bytes.resize(static_cast<std::size_t>(count));
  read(idx.bytes.data(), idx.bytes.size());
  return idx;
}
