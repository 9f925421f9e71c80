#include "job/symbols.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>

namespace pleiad::job {
namespace {

class SymbolSamples final : public Samples {
 public:
  SymbolSamples(std::string name, std::vector<std::int32_t> text, std::int64_t batch, std::int64_t steps,
                std::string input)
      : name_(std::move(name)), text_(std::move(text)), batch_(batch), steps_(steps), input_(std::move(input)) {
    const std::int64_t stream = static_cast<std::int64_t>(text_.size()) / batch_;
    windows_ = (stream - 1) / steps_;
  }

  [[nodiscard]] std::int64_t count() const override { return windows_ * batch_; }
  [[nodiscard]] std::string identity() const override {
    return fmt::format("{} symbols of {}, {} streams of {} steps", text_.size(), name_, batch_, steps_);
  }
  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    const std::span<std::int32_t> to = net.input_tensor(input_).values<std::int32_t>();
    const std::int64_t stream = static_cast<std::int64_t>(text_.size()) / batch_;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (first + i) % batch_;
      const std::int64_t window = (first + i) / batch_ % windows_;
      const auto from = text_.begin() + static_cast<std::ptrdiff_t>(row * stream + window * steps_);
      std::copy(from, from + static_cast<std::ptrdiff_t>(steps_ + 1),
                to.begin() + static_cast<std::ptrdiff_t>(i * (steps_ + 1)));
    }
  }

 private:
  const std::string name_;
  const std::vector<std::int32_t> text_;
  const std::int64_t batch_;
  const std::int64_t steps_;
  const std::string input_;
  std::int64_t windows_ = 0;  // of a stream
};

std::string bytes_of(const Inside& job, int index, const std::string& field, const std::string& path) {
  if (path.empty()) mistake(job, index, field, "expected a file; there is none");
  std::ifstream file(path, std::ios::binary);
  if (!file) mistake(job, index, field, fmt::format("{}: no such file", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::unique_ptr<Samples> symbol_samples(const Inside& job, const Source& source) {
  const int index = source.index;
  const CharRNNProto& conf = job.proto.neuralnet().layer(index).char_rnn_conf();
  const std::string vocabulary = bytes_of(job, index, "char_rnn_conf.vocab_path", conf.vocab_path());
  std::array<std::int32_t, 256> place;
  place.fill(-1);
  std::int32_t words = 0;
  for (const char c : vocabulary) {
    std::int32_t& at = place[static_cast<unsigned char>(c)];
    if (at < 0) at = words++;
  }
  for (const LayerProto& layer : job.proto.neuralnet().layer()) {
    const int known = layer.type() == kOneHot      ? layer.onehot_conf().vocab_size()
                      : layer.type() == kEmbedding ? layer.embedding_conf().vocab_size()
                                                   : words;
    if (known < words) {
      mistake(
          job, index, "char_rnn_conf.vocab_path",
          fmt::format("{} has {} characters; layer \"{}\" knows {}", conf.vocab_path(), words, layer.name(), known));
    }
  }
  const std::string text = bytes_of(job, index, "char_rnn_conf.path", conf.path());
  std::vector<std::int32_t> symbols;
  symbols.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::int32_t symbol = place[static_cast<unsigned char>(text[i])];
    if (symbol < 0) {
      mistake(job, index, "char_rnn_conf.path",
              fmt::format("{}: byte {} is 0x{:02x}, which {} does not have", conf.path(), i,
                          static_cast<unsigned char>(text[i]), conf.vocab_path()));
    }
    symbols.push_back(symbol);
  }
  const std::int64_t least = std::int64_t{conf.batchsize()} * (conf.unroll_len() + 1);
  if (static_cast<std::int64_t>(symbols.size()) < least) {
    mistake(job, index, "char_rnn_conf.path",
            fmt::format("{} has {} characters; a batch needs {}", conf.path(), symbols.size(), least));
  }
  return std::make_unique<SymbolSamples>(conf.path(), std::move(symbols), conf.batchsize(), conf.unroll_len(),
                                         source.input);
}

}  // namespace pleiad::job
