#include "job/dummy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

const google::protobuf::RepeatedField<int>& shape_of(const LayerProto& layer) {
  return layer.type() == kDummy ? layer.dummy_conf().shape() : layer.rnn_dummy_conf().shape();
}

const char* shape_field(const LayerProto& layer) {
  return layer.type() == kDummy ? "dummy_conf.shape" : "rnn_dummy_conf.shape";
}

/// Returns true if floor(number) fits in an int32.
bool whole(double number) { return number >= -0x1p31 && number < 0x1p31; }

class DummySamples final : public Samples {
 public:
  DummySamples(std::string input, const LayerProto& layer, std::uint64_t seed, std::int64_t batch)
      : input_(std::move(input)),
        from_(feeding_layer(layer)),
        low_(layer.type() == kDummy ? 0 : layer.rnn_dummy_conf().low()),
        high_(layer.type() == kDummy ? 1 : layer.rnn_dummy_conf().high()),
        stream_(seed, "dummy " + input_),
        batch_(batch) {}

  [[nodiscard]] std::int64_t count() const override { return std::numeric_limits<std::int64_t>::max() / 2; }
  [[nodiscard]] std::string identity() const override { return fmt::format("numbers of \"{}\"", input_); }

  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    const Tensor to = net.input_tensor(input_);
    const std::int64_t row = to.count() / to.shape()[0];
    if (!from_.empty() && first >= batch_) return feed(net.output(from_), to, count, row);
    for (std::int64_t i = 0; i < count * row; ++i) {
      const double drawn = low_ + stream_.uniform(static_cast<std::uint64_t>(first * row + i)) * (high_ - low_);
      put(to, i, drawn);
    }
  }

 private:
  void put(const Tensor& to, std::int64_t i, double number) const {
    if (to.dtype() == DType::int32) {
      if (!whole(number)) {
        throw StateError(
            fmt::format("\"{}\" is fed by \"{}\", whose output {} does not fit in int32", input_, from_, number));
      }
      to.values<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(std::floor(number));
    } else {
      to.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(number);
    }
  }

  /// Copies the first elements of each row; of a sorted answer these are the best.
  void feed(const Tensor& from, const Tensor& to, std::int64_t count, std::int64_t row) const {
    const std::int64_t wide = from.count() / from.shape()[0];
    for (std::int64_t n = 0; n < count; ++n) {
      for (std::int64_t i = 0; i < row; ++i) put(to, n * row + i, from.at(n * wide + i));
    }
  }

  const std::string input_;
  const std::string from_;
  const double low_;
  const double high_;
  const RandomStream stream_;
  const std::int64_t batch_;
};

}  // namespace

bool is_dummy(const LayerProto& layer) {
  return (layer.type() == kRNNDummy && layer.srclayers_size() == 0) ||
         (layer.type() == kDummy && layer.dummy_conf().input() && layer.srclayers_size() == 0);
}

bool is_symbols(const LayerProto& layer) { return layer.type() == kRNNDummy && layer.rnn_dummy_conf().integer(); }

const std::string& feeding_layer(const LayerProto& layer) { return layer.rnn_dummy_conf().dynamic_srclayer(); }

std::int64_t dummy_batch(const JobImpl& job, int index) {
  const LayerProto& layer = layer_of(job, index);
  if (shape_of(layer).empty())
    throw_invalid(job, index, shape_field(layer), "expected the batch size and the lengths of a sample; received none");
  for (int k = 0; k < shape_of(layer).size(); ++k) {
    expect_at_least(job, index, fmt::format("{}[{}]", shape_field(layer), k), shape_of(layer)[k], 1);
  }
  return shape_of(layer)[0];
}

Shape dummy_sample(const JobImpl& job, int index) {
  const LayerProto& layer = layer_of(job, index);
  (void)dummy_batch(job, index);
  std::vector<std::int64_t> lengths(shape_of(layer).begin() + 1, shape_of(layer).end());
  constexpr double kMost = 1e9;
  double count = 1;
  for (const std::int64_t length : lengths) count *= static_cast<double>(length);
  if (lengths.size() > 3 || count > kMost) {
    throw_invalid(job, index, shape_field(layer),
                  fmt::format("expected the batch and at most three lengths, of less than {} "
                              "numbers; received {} lengths",
                              kMost, lengths.size() + 1));
  }
  if (layer.type() == kDummy) {
    if (lengths.size() == 3) return {lengths[1], lengths[2], lengths[0]};
    return Shape(lengths);
  }
  const int steps = job.proto.neuralnet().unroll_len();
  expect_at_least(job, index, "unroll_len", steps, 1);
  const RNNDummyProto& conf = layer.rnn_dummy_conf();
  for (const auto& [field, value] : {std::pair("low", conf.low()), std::pair("high", conf.high())}) {
    const std::string name = fmt::format("rnn_dummy_conf.{}", field);
    expect_finite(job, index, name, value);
    if (conf.integer() && !whole(value)) {
      throw_invalid(job, index, name, fmt::format("expected a value that fits in int32; received {}", value));
    }
  }
  if (conf.low() >= conf.high()) {
    throw_invalid(job, index, "rnn_dummy_conf.high",
                  fmt::format("expected more than low, which is {}; received {}", conf.low(), conf.high()));
  }
  if (!feeding_layer(layer).empty() && steps != 1) {
    throw_invalid(job, index, "rnn_dummy_conf.dynamic_srclayer",
                  fmt::format("a net that is fed its own output needs unroll_len 1; received {}", steps));
  }
  if (conf.integer()) {  // a step has one symbol
    if (std::ranges::any_of(lengths, [](std::int64_t length) { return length != 1; })) {
      throw_invalid(job, index, shape_field(layer), "expected only the batch size, because a step has one integer");
    }
    return {steps};
  }
  if (lengths.empty()) lengths.push_back(1);
  lengths.insert(lengths.begin(), steps);
  return Shape(lengths);
}

std::unique_ptr<Samples> dummy_samples(const JobImpl& job, const Source& source) {
  return std::make_unique<DummySamples>(source.input, layer_of(job, source.index), job.proto.seed(),
                                        dummy_batch(job, source.index));
}

}  // namespace pleiad::job
