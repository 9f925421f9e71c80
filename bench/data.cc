// Compares the loader with a bare loop on CIFAR-10's form of data, with the usual transform (mean of every channel, a
// random crop of the padded image, mirror). The loop reads, crops, mirrors and normalises the same images into one
// buffer in one thread, and all its sizes are compile-time constants.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "core/clones.h"
#include "core/random.h"
#include "data/streams.h"
#include "pleiad/data.h"

namespace {

using namespace pleiad;

constexpr std::int64_t kBatch = 100;
constexpr int kPad = 4;
constexpr float kMean[3] = {125, 123, 114};

__attribute__((noinline)) PLEIAD_CLONES void bare_image(const std::uint8_t* __restrict in, int top, int left,
                                                        bool mirror, float* __restrict out) {
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 32; ++y) {
      float* row = out + c * 1024 + y * 32;
      const int from_y = y + top - kPad;
      for (int x = 0; x < 32; ++x) row[x] = 0;
      if (from_y < 0 || from_y >= 32) continue;
      const std::uint8_t* from = in + c * 1024 + from_y * 32;
      const int begin = left < kPad ? 0 : left - kPad;
      const int end = left > kPad ? 32 : 32 + left - kPad;
      const int shift = left - kPad;
      if (mirror) {
        for (int x = begin; x < end; ++x) row[31 - x + shift] = (static_cast<float>(from[x]) - kMean[c]) * (1.0F / 64);
      } else {
        for (int x = begin; x < end; ++x) row[x - shift] = (static_cast<float>(from[x]) - kMean[c]) * (1.0F / 64);
      }
    }
  }
}

/// The peer: holds the whole set in memory and prepares one batch after another.
class Bare {
 public:
  Bare(const Store& store, bool augment) : augment_(augment), count_(store.size()) {
    pixels_.resize(static_cast<std::size_t>(count_) * 3072);
    labels_.resize(static_cast<std::size_t>(count_));
    std::vector<std::int64_t> all(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    store.read(0, all, std::as_writable_bytes(std::span(pixels_)));
    store.read(1, all, std::as_writable_bytes(std::span(labels_)));
  }

  void batch() {
    for (std::int64_t i = 0; i < kBatch; ++i, ++next_) {
      const std::int64_t record = next_ % count_;
      const auto bits = Philox::seeded(0)(
          {static_cast<std::uint32_t>(record), 0, static_cast<std::uint32_t>(next_ / count_), data::kAugmentStream});
      const int top = augment_ ? static_cast<int>(below(bits[0], 2 * kPad + 1)) : kPad;
      const int left = augment_ ? static_cast<int>(below(bits[1], 2 * kPad + 1)) : kPad;
      bare_image(pixels_.data() + record * 3072, top, left, augment_ && (bits[2] & 1) != 0, out.data() + i * 3072);
      out_labels[static_cast<std::size_t>(i)] = labels_[static_cast<std::size_t>(record)];
    }
  }

  std::vector<float> out = std::vector<float>(kBatch * 3072);
  std::vector<std::int32_t> out_labels = std::vector<std::int32_t>(kBatch);

 private:
  bool augment_;
  std::int64_t count_;
  std::int64_t next_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
};

void run(const std::string& folder, bool augment, int threads, int rounds) {
  const std::shared_ptr<const Store> store = open_dataset({.name = "cifar10", .folder = folder});
  TransformOptions transform{.mean = {kMean[0], kMean[1], kMean[2]}, .scale = 1.0 / 64};
  if (augment) {
    transform.pad = kPad;
    transform.crop_height = transform.crop_width = 32;
    transform.random_crop = transform.mirror = true;
  }
  Loader loader(store, {.batch = kBatch, .threads = threads, .depth = 4, .transform = transform});
  Bare bare(*store, augment);
  bare.batch();
  const auto first = loader.next();
  if (!std::ranges::equal(first->floats(0), bare.out) || !std::ranges::equal(first->ints(1), bare.out_labels)) {
    std::fprintf(stderr, "bench: the loader's first batch is not the bare loop's\n");
    std::exit(1);
  }
  float sum = 0;
  // A turn is a whole epoch, because a loader that was idle has a few batches ready.
  const std::int64_t batches = store->size() / kBatch;
  bench::compare_alone(
      threads, {.name = augment ? "loader_augment" : "loader_mean", .size = store->size(), .rounds = rounds},
      [&] {
        for (std::int64_t i = 0; i < batches; ++i) sum += loader.next()->floats(0)[0];
      },
      [&] {
        for (std::int64_t i = 0; i < batches; ++i) {
          bare.batch();
          sum += bare.out[0];
        }
      });
  if (sum == 0.12345F) std::puts("");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::string folder = (std::filesystem::temp_directory_path() / "pleiad-bench-cifar10").string();
  generate_cifar10(folder, {.train = 10000, .test = 1});
  for (const bool augment : {false, true}) {
    for (const int threads : {0, 1, 2}) run(folder, augment, threads, rounds);
  }
  std::filesystem::remove_all(folder);
}
