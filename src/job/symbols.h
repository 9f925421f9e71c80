// Text, symbol by symbol, for recurrent nets.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// The text of a kCharRNN layer as `batchsize` streams side by side, each batch going on where the one before ended:
/// rows of unroll_len symbols and the one that follows. A symbol is its place in the vocabulary, a file of all
/// characters.
[[nodiscard]] std::unique_ptr<Samples> symbol_samples(const Inside& job, const Source& source);

}  // namespace pleiad::job
