// Reads samples from a store through the loader, which prefetches them in order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/threads.h"
#include "kernel/elementwise.h"
#include "kernel/types.h"
#include "pleiad/error.h"
#include "pleiad/train.h"

namespace pleiad {
namespace {

/// Transposes {channels, positions} to {positions, channels} for each sample.
template <class To, class From>
void channels_last(const From* from, To* to, std::int64_t samples, std::int64_t channels, std::int64_t places) {
  parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const From* const image = from + n * channels * places;
      To* const out = to + n * channels * places;
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t p = 0; p < places; ++p) out[p * channels + c] = static_cast<To>(image[c * places + p]);
      }
    }
  });
}

/// Does the same for a tile of the images.
template <class To, class From>
void put_tile(const From* from, To* to, std::int64_t samples, const Shape& sample, const Rect& tile) {
  const std::int64_t channels = sample[2];
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t h = tile.h.begin; h < tile.h.end; ++h) {
      for (std::int64_t w = tile.w.begin; w < tile.w.end; ++w) {
        for (std::int64_t c = 0; c < channels; ++c) {
          *to++ = static_cast<To>(from[((n * channels + c) * sample[0] + h) * sample[1] + w]);
        }
      }
    }
  }
}

class StoreSamples final : public Samples {
 public:
  StoreSamples(std::shared_ptr<const Store> store, StoreSamplesOptions options)
      : store_(std::move(store)), options_(std::move(options)) {
    if (store_ == nullptr) throw InvalidArgument("store_samples: expected a store; received none");
    for (const auto& [input, field] : options_.inputs) (void)store_->field(field);
  }

  [[nodiscard]] std::int64_t count() const override { return store_->size(); }

  void expect(std::int64_t batch, int rank, int ranks) override {
    if (loader_ && batch == batch_ && rank == rank_ && ranks == ranks_) return;
    batch_ = batch;
    rank_ = rank;
    ranks_ = ranks;
    loader_.reset();
  }

  void set_last(LastBatch last) override {
    if (last == last_) return;
    last_ = last;
    loader_.reset();
  }

  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    if (batch_ == 0 || !is_own_part(first, count)) expect(count, 0, 1);
    const std::int64_t size = batch_size(first);
    const std::int64_t at = first - share_begin(rank_, size);
    open(at);
    const std::optional<Batch> batch = loader_->next();
    if (!batch || batch->size() != count) {
      throw InternalError(
          fmt::format("{}: requested {} samples; received {}", store_->name(), count, batch ? batch->size() : 0));
    }
    next_ = at + size;
    if (inputs_.empty()) choose_inputs(net);
    for (const auto& [input, field] : inputs_) put(*batch, field, input, net);
  }

  [[nodiscard]] std::string identity() const override {
    const TransformOptions& t = options_.transform;
    return fmt::format("{} of {}, {}, scale {}, crop {}x{}{}{}, pad {}", count(), store_->name(),
                       options_.shuffle ? fmt::format("shuffled by seed {}", options_.seed) : "in order", t.scale,
                       t.crop_height, t.crop_width, t.random_crop ? " at random" : "", t.mirror ? ", mirrored" : "",
                       t.pad);
  }

 private:
  /// Returns the size of the batch that holds sample `index` of the sequence.
  [[nodiscard]] std::int64_t batch_size(std::int64_t index) const {
    if (last_ == LastBatch::wrap) return batch_;
    const std::int64_t within = index % count();
    return std::min(batch_, count() - within / batch_ * batch_);
  }
  /// Returns the index in a batch of `size` samples of the first sample of a rank. The ranks' parts differ by one
  /// sample if `ranks_` does not divide the size.
  [[nodiscard]] std::int64_t share_begin(int rank, std::int64_t size) const { return size * rank / ranks_; }
  /// Returns true if `count` samples from `first` on are this rank's part of a batch.
  [[nodiscard]] bool is_own_part(std::int64_t first, std::int64_t count) const {
    const std::int64_t size = batch_size(first);
    const std::int64_t begin = first - share_begin(rank_, size);
    return count == share_begin(rank_ + 1, size) - share_begin(rank_, size) &&
           (last_ == LastBatch::wrap || begin % this->count() % batch_ == 0);
  }

  /// Positions the loader before sample `at` of the sequence.
  void open(std::int64_t at) {
    if (!loader_) {
      loader_.emplace(store_, LoaderOptions{.batch = batch_,
                                            .shuffle = options_.shuffle,
                                            .seed = options_.seed,
                                            .last = last_,
                                            .rank = rank_,
                                            .ranks = ranks_,
                                            .threads = options_.threads,
                                            .depth = options_.depth,
                                            .transform = options_.transform});
      next_ = 0;
    }
    if (at == next_) return;
    loader_->restore({.epoch = at / count(), .offset = at % count(), .seed = options_.seed, .records = count()});
  }

  void choose_inputs(const nn::Net& net) {
    std::vector<std::pair<std::string, std::string>> names = options_.inputs;
    for (const std::string& input : options_.inputs.empty() ? net.input_names() : std::vector<std::string>()) {
      names.emplace_back(input, input == "label" ? "label" : "data");
    }
    for (const auto& [input, field] : names) inputs_.emplace_back(input, store_->field(field));
  }

  void put(const Batch& batch, std::size_t index, const std::string& input, const nn::Net& net) const {
    const Tensor to = net.input_tensor(input);
    const Field& field = loader_->fields()[index];
    const std::int64_t samples = to.shape()[0];
    const bool image = field.shape.size() == 3;
    const Shape sample = net.graph().input_sample(input);
    const bool flat = sample.rank() <= 1;  // a net that takes vectors has no channel axis
    bool fits = sample.count() == field.count();
    if (image && !flat) {
      fits = sample.rank() == 3 && sample[0] == field.shape[1] && sample[1] == field.shape[2] &&
             sample[2] == field.shape[0];
    }
    const bool labels = field.type == FieldType::int32 && to.dtype() == DType::int32;
    const bool numbers = field.type == FieldType::float32 && to.dtype() != DType::int32 && to.dtype() != DType::int64;
    if (!fits || !(labels || numbers)) {
      throw InvalidArgument(
          fmt::format("input \"{}\" expects {} of shape {} per sample; \"{}\" of {} is {} of shape ({}){}", input,
                      name_of(to.dtype()), sample.text(), field.name, store_->name(), name_of(field.type),
                      fmt::join(field.shape, ", "), image ? ", channels first" : ""));
    }
    const std::int64_t channels = image && !flat ? field.shape[0] : 1;
    const std::int64_t places = field.count() / channels;
    if (labels) {
      channels_last(batch.ints(index).data(), to.values<std::int32_t>().data(), samples, 1, places);
      return;
    }
    kernel::by_type(to.dtype(), [&]<class T>(T) {
      if (const std::optional<Rect> tile = net.graph().input_tile(input)) {
        put_tile(batch.floats(index).data(), to.values<T>().data(), samples, sample, *tile);
        return;
      }
      channels_last(batch.floats(index).data(), to.values<T>().data(), samples, channels, places);
    });
  }

  const std::shared_ptr<const Store> store_;
  const StoreSamplesOptions options_;
  std::int64_t batch_ = 0;
  int rank_ = 0;
  int ranks_ = 1;
  LastBatch last_ = LastBatch::wrap;
  std::int64_t next_ = 0;  // the loader's position in the sequence
  std::optional<Loader> loader_;
  std::vector<std::pair<std::string, std::size_t>> inputs_;  // input of the net and index of its field
};

}  // namespace

std::unique_ptr<Samples> store_samples(std::shared_ptr<const Store> store, StoreSamplesOptions options) {
  return std::make_unique<StoreSamples>(std::move(store), std::move(options));
}

}  // namespace pleiad
