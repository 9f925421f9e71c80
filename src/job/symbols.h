// Text, symbol by symbol, for recurrent nets.
#pragma once

#include <memory>

#include "job/build.h"
#include "pleiad/train.h"

namespace pleiad::job {

/// The text of a kCharRNN layer. A symbol is its place in the vocabulary, a file with every character.
[[nodiscard]] std::unique_ptr<Samples> symbol_samples(const Inside& job, const Source& source);

}  // namespace pleiad::job
