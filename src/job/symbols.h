// Text, symbol by symbol, for recurrent nets.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// The text of a kCharRNN layer. A symbol is its place in the vocabulary, a file with every character.
[[nodiscard]] std::unique_ptr<Samples> symbol_samples(const Inside& job, const Source& source);
/// The characters of a layer's char_rnn_conf.vocab_path, each once.
[[nodiscard]] std::string job_vocabulary(const Inside& job, int index);

}  // namespace pleiad::job
