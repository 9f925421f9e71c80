// Generates images that a convolutional net can learn to classify and a linear model cannot: the shape defines the
// class, while colours, position, size and background are random. Uses integers only, so that every machine draws the
// same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/cifar10.h"
#include "file/atomic.h"
#include "file/series.h"
#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

using data::kCifarClasses;
using data::kCifarPixels;
using data::kCifarRecord;
using data::kCifarSide;

constexpr const char* kShapes[kCifarClasses] = {"disc", "ring",  "square", "frame",   "triangle",
                                                "plus", "cross", "rows",   "columns", "checkers"};

/// The random numbers of one image, in the order of the calls.
class RandomDraws {
 public:
  RandomDraws(std::uint64_t seed, std::uint32_t stream, std::int64_t picture)
      : philox_(Philox::seeded(seed)),
        counter_{static_cast<std::uint32_t>(picture), static_cast<std::uint32_t>(picture >> 32), 0, stream} {}

  /// Returns an integer in [low, high].
  int between(int low, int high) {
    if (at_ == block_.size()) {
      block_ = philox_(counter_);
      ++counter_[2];
      at_ = 0;
    }
    return low + static_cast<int>(below(block_[at_++], static_cast<std::uint32_t>(high - low + 1)));
  }

 private:
  Philox philox_;
  Philox::Block counter_;
  Philox::Block block_{};
  std::size_t at_ = 4;
};

/// Returns true if the shape covers the pixel at (x, y), relative to the shape's centre. Lengths are in half pixels;
/// `size` is the distance from the centre to the edge.
bool covers(int shape, int x, int y, int size) {
  const int square = x * x + y * y;
  const int reach = std::max(std::abs(x), std::abs(y));
  const int bar = std::max(size / 3, 2);
  switch (shape) {
    case 0: return square <= size * size;
    case 1: return square <= size * size && square >= (size - bar) * (size - bar);
    case 2: return reach <= size;
    case 3: return reach <= size && reach >= size - bar;
    case 4: return y <= size && y >= -size && 2 * std::abs(x) <= size + y;
    case 5: return reach <= size && (std::abs(x) <= bar || std::abs(y) <= bar);
    case 6: return reach <= size && std::abs(std::abs(x) - std::abs(y)) <= bar;
    case 7: return reach <= size && (y + 64) / 4 % 2 == 0;
    case 8: return reach <= size && (x + 64) / 4 % 2 == 0;
    default: return reach <= size && ((x + 64) / 6 + (y + 64) / 6) % 2 == 0;
  }
}

void draw(std::uint64_t seed, std::uint32_t stream, std::int64_t picture, std::uint8_t* record) {
  RandomDraws draws(seed, stream, picture);
  const int label = draws.between(0, static_cast<int>(kCifarClasses) - 1);
  record[0] = static_cast<std::uint8_t>(label);
  const int size = draws.between(14, 24);
  const int middle_x = draws.between(size + 1, 62 - size);
  const int middle_y = draws.between(size + 1, 62 - size);
  std::array<int, 3> ground{};
  std::array<int, 3> ink{};
  std::array<int, 3> slope_x{};
  std::array<int, 3> slope_y{};
  int contrast = 0;
  while (contrast < 150) {
    contrast = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      ground[c] = draws.between(40, 215);
      ink[c] = draws.between(20, 235);
      contrast += std::abs(ground[c] - ink[c]);
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    slope_x[c] = draws.between(-2, 2);
    slope_y[c] = draws.between(-2, 2);
  }
  for (int y = 0; y < kCifarSide; ++y) {
    for (int x = 0; x < kCifarSide; ++x) {
      const bool inside = covers(label, 2 * x - middle_x, 2 * y - middle_y, size);
      const int noise = draws.between(-14, 14);
      for (std::size_t c = 0; c < 3; ++c) {
        const int plain = inside ? ink[c] : ground[c] + slope_x[c] * (x - 16) + slope_y[c] * (y - 16);
        record[1 + c * static_cast<std::size_t>(kCifarPixels) + static_cast<std::size_t>(y * kCifarSide + x)] =
            static_cast<std::uint8_t>(std::clamp(plain + noise, 0, 255));
      }
    }
  }
}

void write_pictures(const std::filesystem::path& path, std::uint64_t seed, std::uint32_t stream, std::int64_t first,
                    std::int64_t last) {
  AtomicFile file(path);
  std::vector<std::uint8_t> record(static_cast<std::size_t>(kCifarRecord));
  for (std::int64_t i = first; i < last; ++i) {
    draw(seed, stream, i, record.data());
    file.write(std::as_bytes(std::span(record)));
  }
  file.commit();
}

}  // namespace

void generate_cifar10(const std::string& folder, const GeneratorOptions& options) {
  constexpr std::int64_t kFiles = 5;
  if (options.train < kFiles || options.test < 1) {
    throw InvalidArgument(
        fmt::format("[generate_cifar10] expected at least {} pictures to train and 1 to test; received {} and {}",
                    kFiles, options.train, options.test));
  }
  const std::filesystem::path to = folder;
  make_folder(to);
  for (std::int64_t i = 0; i < kFiles; ++i) {
    write_pictures(to / fmt::format("data_batch_{}.bin", i + 1), options.seed, 0, options.train * i / kFiles,
                   options.train * (i + 1) / kFiles);
  }
  write_pictures(to / "test_batch.bin", options.seed, 1, 0, options.test);
  std::string names;
  for (const char* shape : kShapes) names += fmt::format("{}\n", shape);
  write_whole_file(to / "batches.meta.txt", std::as_bytes(std::span(names)));
}

}  // namespace pleiad
