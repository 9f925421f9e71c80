// Layers that only SINGA's jobs have.
#pragma once

#include <string>

#include "job/job.pb.h"
#include "pleiad/nn/layer.h"

namespace pleiad::job {

/// True where a kMnist layer asks for more than scaling.
[[nodiscard]] bool distorts(const MnistProto& conf);
/// In training moves the places of each image: by a smooth random field (kernel, sigma, alpha), a turn and a shear of
/// up to `beta` degrees and a change of size of up to `gamma` percent, drawn anew for each run of `elastic_freq`
/// samples of a batch (0: for each); the runs begin anew with every batch. `resize`: the side of the images that it
/// gives, in every phase.
[[nodiscard]] nn::LayerPtr elastic(const MnistProto& conf);

/// Prints the characters of the symbols that it takes, step by step, on standard output.
[[nodiscard]] nn::LayerPtr text_output(std::string vocabulary);

/// A softmax over each of `groups` equal parts of a sample, or of a step of a sequence, in SINGA's order of its
/// numbers.
[[nodiscard]] nn::LayerPtr instance_softmax(std::int64_t groups, bool each_step);

}  // namespace pleiad::job
