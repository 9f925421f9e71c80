#include "job/symbols.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace pleiad::job {
namespace {

std::string contents_of(const JobImpl& job, int index, const std::string& field, const std::string& path) {
  if (path.empty()) throw_invalid(job, index, field, "expected a file; received none");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_invalid(job, index, field, fmt::format("{}: no such file", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string job_vocabulary(const JobImpl& job, int index) {
  const CharRNNProto& conf = job.proto.neuralnet().layer(index).char_rnn_conf();
  std::string vocabulary;
  for (const char c : contents_of(job, index, "char_rnn_conf.vocab_path", conf.vocab_path())) {
    if (vocabulary.find(c) == std::string::npos) vocabulary.push_back(c);
  }
  return vocabulary;
}

std::unique_ptr<Samples> symbol_samples(const JobImpl& job, const Source& source) {
  const int index = source.index;
  const CharRNNProto& conf = job.proto.neuralnet().layer(index).char_rnn_conf();
  const std::string vocabulary = job_vocabulary(job, index);
  const int words = static_cast<int>(vocabulary.size());
  for (const LayerProto& layer : job.proto.neuralnet().layer()) {
    const int known = layer.type() == kOneHot      ? layer.onehot_conf().vocab_size()
                      : layer.type() == kEmbedding ? layer.embedding_conf().vocab_size()
                                                   : words;
    if (known < words) {
      throw_invalid(
          job, index, "char_rnn_conf.vocab_path",
          fmt::format("{} has {} characters; layer \"{}\" knows {}", conf.vocab_path(), words, layer.name(), known));
    }
  }
  const std::string text = contents_of(job, index, "char_rnn_conf.path", conf.path());
  const std::int64_t least = std::int64_t{conf.batchsize()} * (conf.unroll_len() + 1);
  if (static_cast<std::int64_t>(text.size()) < least) {
    throw_invalid(job, index, "char_rnn_conf.path",
                  fmt::format("{} has {} characters; a batch needs {}", conf.path(), text.size(), least));
  }
  try {
    return text_samples(text, {.input = source.input, .steps = conf.unroll_len(), .vocabulary = vocabulary});
  } catch (const InvalidArgument& error) {
    throw_invalid(job, index, "char_rnn_conf.path", fmt::format("{}: {}", conf.path(), error.what()));
  }
}

}  // namespace pleiad::job
