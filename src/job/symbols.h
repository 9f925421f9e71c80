// Text for recurrent nets, as a sequence of symbols.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// Returns the text of a kCharRNN layer. A symbol is the index of the character in the vocabulary.
[[nodiscard]] std::unique_ptr<Samples> symbol_samples(const JobImpl& job, const Source& source);
/// Returns the characters of the file char_rnn_conf.vocab_path of a layer, each once.
[[nodiscard]] std::string job_vocabulary(const JobImpl& job, int index);

}  // namespace pleiad::job
