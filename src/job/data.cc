#include "job/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/random.h"
#include "core/text.h"
#include "job/dummy.h"
#include "job/symbols.h"
#include "pleiad/data.h"
#include "pleiad/records.h"

namespace pleiad::job {
namespace {

/// Samples that start at a later position of their sequence.
class OffsetSamples final : public Samples {
 public:
  OffsetSamples(std::unique_ptr<Samples> samples, std::int64_t skip) : samples_(std::move(samples)), skip_(skip) {}
  [[nodiscard]] std::int64_t count() const override { return samples_->count(); }
  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    samples_->fill(net, first + skip_, count);
  }
  void expect(std::int64_t batch, int rank, int ranks) override { samples_->expect(batch, rank, ranks); }
  [[nodiscard]] std::string identity() const override {
    return fmt::format("{}, from record {} on", samples_->identity(), skip_);
  }

 private:
  std::unique_ptr<Samples> samples_;
  std::int64_t skip_;
};

bool is_old(const LayerProto& layer) { return layer.type() == kShardData || layer.type() == kLMDBData; }

/// Returns what a source reads as a StoreProto. The older layer types use messages of their own.
StoreProto store_of(const LayerProto& layer) {
  if (!is_old(layer)) return layer.store_conf();
  const DataProto& data = layer.type() == kShardData ? layer.sharddata_conf() : layer.lmdbdata_conf();
  StoreProto store;
  store.set_backend(layer.type() == kShardData ? "kvfile" : "lmdb");
  store.set_path(data.path());
  if (data.has_batchsize()) store.add_batchsize(data.batchsize());
  store.set_random_skip(data.random_skip());
  return store;
}

/// Returns the field of the job that specifies it, for messages.
std::string field_of(const LayerProto& layer, const std::string& name) {
  if (!is_old(layer)) return "store_conf." + name;
  return (layer.type() == kShardData ? "sharddata_conf." : "lmdbdata_conf.") + name;
}

/// Returns the kind of the store. SINGA's back ends have the same names as Pleiad's kinds; without one, the layer type
/// decides.
std::string kind_of(const JobImpl& job, int index) {
  const StoreProto conf = store_of(layer_of(job, index));
  if (layer_of(job, index).type() == kCSVInput) return conf.backend().empty() ? "textfile" : conf.backend();
  if (conf.backend().empty()) return "kvfile";
  const std::vector<std::string> kinds = store_kinds();
  if (std::ranges::find(kinds, conf.backend()) == kinds.end()) {
    throw_invalid(job, index, "store_conf.backend", unknown_name("backend", conf.backend(), kinds));
  }
  return conf.backend();
}

std::shared_ptr<const Store> open(const JobImpl& job, int index) {
  const StoreProto conf = store_of(layer_of(job, index));
  const std::string path = field_of(layer_of(job, index), "path");
  if (conf.path().empty()) throw_invalid(job, index, path, "expected a file; received none");
  if (!std::filesystem::exists(conf.path()))
    throw_invalid(job, index, path, fmt::format("{}: no such file", conf.path()));
  StoreOptions options{.kind = kind_of(job, index), .paths = {conf.path()}};
  options.shape.assign(conf.shape().begin(), conf.shape().end());
  options.label = conf.has_label();
  options.encoded = conf.encoded();
  if (options.encoded && options.kind != "kvfile" && options.kind != "lmdb") {
    throw_invalid(job, index, "store_conf.encoded",
                  fmt::format("encoded images require kvfile or lmdb; received {}", options.kind));
  }
  if (conf.separator().size() != 1) {
    throw_invalid(job, index, "store_conf.separator",
                  fmt::format("expected one character; received \"{}\"", conf.separator()));
  }
  options.separator = conf.separator()[0];
  return open_store(options);
}

/// Returns one value for all elements, or the values of a file.
std::vector<float> numbers(const JobImpl& job, int index, const std::string& field, const std::string& file,
                           bool has_value, float value, std::int64_t count) {
  if (has_value && !file.empty()) {
    throw_invalid(job, index, "store_conf." + field + "_value", "expected a value or a file; received both");
  }
  if (has_value) return {value};
  if (file.empty()) return {};
  if (!std::filesystem::exists(file)) {
    throw_invalid(job, index, "store_conf." + field + "_file", fmt::format("{}: no such file", file));
  }
  const Record record = read_mean(file);
  if (static_cast<std::int64_t>(record.data.size()) != count) {
    throw_invalid(job, index, "store_conf." + field + "_file",
                  fmt::format("{} has {} values; a record has {}", file, record.data.size(), count));
  }
  return record.data;
}

/// Applies the scaling of the older parser layers: x / norm_a - norm_b for kMnist, x - mean for kRGBImage.
void parse_by(const JobImpl& job, const Source& source, TransformOptions& to) {
  const LayerProto& parser = layer_of(job, source.parser);
  if (parser.type() == kRGBImage) {
    if (parser.rgbimage_conf().meanfile().empty()) return;
    to.mean = numbers(job, source.parser, "mean", parser.rgbimage_conf().meanfile(), false, 0, source.sample.count());
    return;
  }
  const MnistProto& conf = parser.mnist_conf();
  if (conf.norm_a() == 0) throw_invalid(job, source.parser, "mnist_conf.norm_a", "expected a value other than 0");
  to.mean = {conf.norm_a() * conf.norm_b()};
  to.deviation = {conf.norm_a()};
}

}  // namespace

bool is_source(const LayerProto& layer) {
  return layer.type() == kRecordInput || layer.type() == kCSVInput || layer.type() == kCharRNN || is_old(layer) ||
         is_dummy(layer);
}

Shape sample_shape(const JobImpl& job, int index) {
  const LayerProto& layer = layer_of(job, index);
  if (is_dummy(layer)) return dummy_sample(job, index);
  if (layer.type() == kCharRNN) {
    expect_at_least(job, index, "char_rnn_conf.unroll_len", layer.char_rnn_conf().unroll_len(), 1);
    return {layer.char_rnn_conf().unroll_len() + 1};
  }
  std::vector<std::int64_t> lengths(layer.store_conf().shape().begin(), layer.store_conf().shape().end());
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    expect_at_least(job, index, fmt::format("store_conf.shape[{}]", k), lengths[k], 1);
  }
  if (lengths.empty()) {
    const auto store = open(job, index);
    lengths = store->fields()[store->field("data")].shape;
  }
  constexpr double kMost = 1e9;
  double count = 1;
  for (const std::int64_t length : lengths) count *= static_cast<double>(length);
  if (lengths.size() > 3 || count > kMost) {
    throw_invalid(
        job, index, "store_conf.shape",
        fmt::format("expected one to three lengths, channels before height and width, of less than {} numbers; "
                    "received {}",
                    kMost, Shape(std::span(lengths).first(std::min<std::size_t>(lengths.size(), 6))).text()));
  }
  if (lengths.size() == 2) lengths.insert(lengths.begin(), 1);
  if (lengths.size() == 3) return {lengths[1], lengths[2], lengths[0]};
  return Shape(lengths);
}

std::int64_t batch_size(const JobImpl& job, int index) {
  const LayerProto& layer = layer_of(job, index);
  if (is_dummy(layer)) return dummy_batch(job, index);
  if (layer.type() == kCharRNN) {
    expect_at_least(job, index, "char_rnn_conf.batchsize", layer.char_rnn_conf().batchsize(), 1);
    return layer.char_rnn_conf().batchsize();
  }
  const StoreProto conf = store_of(layer);
  if (conf.batchsize_size() == 0) return 1;
  const std::string field = field_of(layer, "batchsize");
  const int workers = job.proto.cluster().nworkers_per_group();
  if (conf.batchsize_size() != 1 && conf.batchsize_size() != workers) {
    throw_invalid(job, index, field,
                  fmt::format("expected one number, or one for each of the {} workers of a group; received {}", workers,
                              conf.batchsize_size()));
  }
  std::int64_t sum = 0;
  for (int k = 0; k < conf.batchsize_size(); ++k) {
    expect_at_least(job, index, fmt::format("{}[{}]", field, k), conf.batchsize(k), 1);
    sum += conf.batchsize(k);
  }
  return sum;
}

std::unique_ptr<Samples> samples_of(const JobImpl& job, const Source& source) {
  if (layer_of(job, source.index).type() == kCharRNN) return symbol_samples(job, source);
  if (is_dummy(layer_of(job, source.index))) return dummy_samples(job, source);
  const StoreProto conf = store_of(layer_of(job, source.index));
  const std::shared_ptr<const Store> store = open(job, source.index);
  StoreSamplesOptions options{.inputs = {{source.input, "data"}}, .shuffle = false, .seed = job.proto.seed()};
  if (!source.label.empty()) options.inputs.emplace_back(source.label, "label");
  const std::int64_t count = source.sample.count();
  options.transform.mean =
      numbers(job, source.index, "mean", conf.mean_file(), conf.has_mean_value(), conf.mean_value(), count);
  options.transform.deviation =
      numbers(job, source.index, "std", conf.std_file(), conf.has_std_value(), conf.std_value(), count);
  if (std::ranges::find(options.transform.deviation, 0.0F) != options.transform.deviation.end()) {
    throw_invalid(job, source.index, conf.has_std_value() ? "store_conf.std_value" : "store_conf.std_file",
                  "expected values other than 0");
  }
  if (source.parser >= 0) parse_by(job, source, options.transform);
  std::unique_ptr<Samples> samples = store_samples(store, std::move(options));
  expect_at_least(job, source.index, "store_conf.random_skip", conf.random_skip(), 0);
  if (conf.random_skip() == 0) return samples;
  const RandomStream stream(job.proto.seed(), "random_skip " + source.input);
  const auto most = static_cast<std::uint64_t>(std::min<std::int64_t>(conf.random_skip() + 1, samples->count()));
  return std::make_unique<OffsetSamples>(std::move(samples), static_cast<std::int64_t>(stream.below(most, 0, 0)));
}

}  // namespace pleiad::job
