#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "file/checksum.h"
#include "pleiad/error.h"
#include "pleiad/train.h"

namespace pleiad {
namespace {

class TextSamples final : public Samples {
 public:
  TextSamples(const std::string& text, TextSamplesOptions options) : options_(std::move(options)) {
    if (options_.steps < 1)
      throw InvalidArgument(fmt::format("text_samples: expected steps >= 1; received {}", options_.steps));
    const std::string vocabulary = options_.vocabulary.empty() ? vocabulary_of(text) : options_.vocabulary;
    std::array<std::int32_t, 256> code{};
    code.fill(-1);
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      std::int32_t& place = code[static_cast<unsigned char>(vocabulary[i])];
      if (place >= 0)
        throw InvalidArgument(fmt::format("text_samples: the vocabulary has the byte {} twice",
                                          static_cast<unsigned char>(vocabulary[i])));
      place = static_cast<std::int32_t>(i);
    }
    codes_.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::int32_t place = code[static_cast<unsigned char>(text[i])];
      if (place < 0) {
        throw InvalidArgument(
            fmt::format("text_samples: byte {} at position {} is not in the vocabulary of {} characters",
                        static_cast<unsigned char>(text[i]), i, vocabulary.size()));
      }
      codes_.push_back(place);
    }
    if (count() < 1) {
      throw InvalidArgument(
          fmt::format("text_samples: {} characters are too few for {} steps", text.size(), options_.steps));
    }
    identity_ = fmt::format("a text of {} characters, checksum {:08x}, {} steps", text.size(),
                            crc32c(std::as_bytes(std::span(text))), options_.steps);
  }

  [[nodiscard]] std::int64_t count() const override {
    return (static_cast<std::int64_t>(codes_.size()) - 1) / options_.steps;
  }
  void expect(std::int64_t batch, int /*rank*/, int /*ranks*/) override {
    if (batch > count()) {
      throw InvalidArgument(
          fmt::format("text_samples: a batch of {} needs as many pieces of text; there are {}", batch, count()));
    }
    batch_ = batch;
  }
  [[nodiscard]] bool allows_incomplete() const override { return false; }
  [[nodiscard]] std::string identity() const override { return identity_; }

  void fill(nn::Net& net, std::int64_t first, std::int64_t count) override {
    const Tensor to = net.input_tensor(options_.input);
    const std::int64_t width = options_.steps + 1;
    if (to.dtype() != DType::int32 || to.count() / to.shape()[0] != width) {
      throw InvalidArgument(fmt::format("input \"{}\" expects {} of shape {} per sample; received int32 of shape ({})",
                                        options_.input, name_of(to.dtype()), to.shape().sample().text(), width));
    }
    if (batch_ == 0) throw StateError("text_samples: call expect() with the batch size before fill()");
    // number of characters per row of the batch
    const std::int64_t row = (static_cast<std::int64_t>(codes_.size()) - 1) / batch_;
    const std::int64_t pieces = row / options_.steps;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t part = (first + i) % batch_;
      const std::int64_t piece = (first + i) / batch_ % pieces;
      std::copy_n(codes_.begin() + part * row + piece * options_.steps, width,
                  to.values<std::int32_t>().begin() + i * width);
    }
  }

 private:
  const TextSamplesOptions options_;
  std::vector<std::int32_t> codes_;
  std::string identity_;
  std::int64_t batch_ = 0;
};

}  // namespace

std::unique_ptr<Samples> text_samples(const std::string& text, TextSamplesOptions options) {
  return std::make_unique<TextSamples>(text, std::move(options));
}

std::string vocabulary_of(const std::string& text) {
  std::set<unsigned char> all(text.begin(), text.end());
  return {all.begin(), all.end()};
}

}  // namespace pleiad
