#include <fmt/format.h>

#include <numeric>

#include "core/kernels.h"
#include "core/random.h"
#include "pleiad/error.h"
#include "pleiad/train.h"

namespace pleiad {
namespace {

class ArraySamples final : public Samples {
 public:
  ArraySamples(std::vector<std::pair<std::string, Tensor>> inputs, ArraySamplesOptions options)
      : inputs_(std::move(inputs)), options_(std::move(options)) {
    if (inputs_.empty()) throw InvalidArgument("array_samples: received no tensor");
    for (const auto& [name, tensor] : inputs_) {
      const std::int64_t rows = tensor.shape().rank() == 0 ? 0 : tensor.shape()[0];
      if (count_ == 0) count_ = rows;
      if (rows != count_ || rows == 0) {
        throw InvalidArgument(fmt::format("array_samples: \"{}\" has {} rows; expected {}", name, rows, count_));
      }
    }
    if (weighted() && options_.weights.shape() != Shape{count_}) {
      throw InvalidArgument(fmt::format("array_samples: expected {} weights; received shape {}", count_,
                                        options_.weights.shape().text()));
    }
  }

  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] bool weighted() const override { return !options_.weights.empty(); }
  [[nodiscard]] std::string identity() const override {
    return fmt::format("{} samples in memory, {}", count_,
                       options_.shuffle ? fmt::format("shuffled by seed {}", options_.seed) : "in order");
  }

  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    if (weighted()) fill_weights(net.control().sample_weights(), first, count);
    for (const auto& [name, from] : inputs_) {
      const Tensor to = net.input_tensor(name);
      const std::int64_t row = from.count() / count_;
      const Shape sample = net.graph().input_sample(name);
      const std::optional<Rect> tile = net.graph().input_tile(name);
      const bool tiles = tile && row == to.count() / to.shape()[0];  // the tensor holds tiles already
      if (to.dtype() != from.dtype() || (sample.count() != row && !tiles)) {
        throw InvalidArgument(fmt::format("input \"{}\" expects {} of shape {} per sample; received {} of shape {}",
                                          name, name_of(to.dtype()), sample.text(), name_of(from.dtype()),
                                          from.shape().sample().text()));
      }
      if (tile && !tiles) {
        for (std::int64_t i = 0; i < count; ++i) put_tile(to, i, from, place(first + i), *tile, sample);
        continue;
      }
      const std::size_t bytes = static_cast<std::size_t>(row) * size_of(from.dtype());
      for (std::int64_t i = 0; i < count; ++i) {
        copy_bytes(static_cast<std::byte*>(to.raw()) + static_cast<std::size_t>(i) * bytes,
                   static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(place(first + i)) * bytes,
                   bytes);
      }
    }
  }

 private:
  void fill_weights(const Tensor& to, std::int64_t first, std::int64_t count) {
    const Tensor& from = options_.weights;
    if (to.dtype() != from.dtype()) {
      throw InvalidArgument(
          fmt::format("sample weights: expected {}; received {}", name_of(to.dtype()), name_of(from.dtype())));
    }
    const std::size_t size = size_of(from.dtype());
    for (std::int64_t i = 0; i < count; ++i) {
      copy_bytes(static_cast<std::byte*>(to.raw()) + static_cast<std::size_t>(i) * size,
                 static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(place(first + i)) * size, size);
    }
  }

  /// Returns the index of the sample at a position of the sequence.
  std::int64_t place(std::int64_t index) {
    const std::int64_t round = index / count_;
    const std::int64_t within = index % count_;
    if (!options_.shuffle) return within;
    if (round != round_) shuffle(round);
    return order_[static_cast<std::size_t>(within)];
  }

  /// Copies only the rows of the tile.
  static void put_tile(const Tensor& to, std::int64_t row, const Tensor& from, std::int64_t sample, const Rect& tile,
                       const Shape& shape) {
    const auto place = static_cast<std::size_t>(shape[2]) * size_of(from.dtype());
    const std::size_t length = static_cast<std::size_t>(tile.w.size()) * place;
    auto* out = static_cast<std::byte*>(to.raw()) + static_cast<std::size_t>(row * tile.h.size()) * length;
    for (std::int64_t h = tile.h.begin; h < tile.h.end; ++h, out += length) {
      const std::int64_t at = (sample * shape[0] + h) * shape[1] + tile.w.begin;
      copy_bytes(out, static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(at) * place, length);
    }
  }

  void shuffle(std::int64_t round) {
    const RandomStream stream(options_.seed, "shuffle");
    order_.resize(static_cast<std::size_t>(count_));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    for (std::size_t i = order_.size() - 1; i > 0; --i) {
      std::swap(order_[i], order_[stream.below(i + 1, i, static_cast<std::uint32_t>(round))]);
    }
    round_ = round;
  }

  const std::vector<std::pair<std::string, Tensor>> inputs_;
  const ArraySamplesOptions options_;
  std::int64_t count_ = 0;
  std::int64_t round_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace

void Samples::expect(std::int64_t /*batch*/, int /*rank*/, int /*ranks*/) {}
void Samples::set_last(LastBatch /*last*/) {}

std::unique_ptr<Samples> array_samples(std::vector<std::pair<std::string, Tensor>> inputs,
                                       ArraySamplesOptions options) {
  return std::make_unique<ArraySamples>(std::move(inputs), std::move(options));
}

}  // namespace pleiad
