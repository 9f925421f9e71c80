// Layers that only exist in SINGA's jobs.
#pragma once

#include <string>

#include "job/job.pb.h"
#include "pleiad/nn/layer.h"

namespace pleiad::job {

/// Returns true if a kMnist layer asks for more than scaling.
[[nodiscard]] bool distorts(const MnistProto& conf);
/// Distorts each image in training: by a smooth random displacement field (kernel, sigma, alpha), a rotation and a
/// shear of up to `beta` degrees and a scaling of up to `gamma` percent. Draws a new distortion for every
/// `elastic_freq` consecutive samples of a batch (0: for each sample), starting again with each batch. `resize` is the
/// side of the output images in every phase; 0 keeps the size.
[[nodiscard]] nn::LayerPtr elastic_distortion(const MnistProto& conf);

/// Prints the characters of its input symbols to standard output, step by step.
[[nodiscard]] nn::LayerPtr text_output(std::string vocabulary);

/// Applies a softmax to each of `groups` equal parts of a sample, or of a step of a sequence, in SINGA's order of the
/// elements.
[[nodiscard]] nn::LayerPtr instance_softmax(std::int64_t groups, bool each_step);

}  // namespace pleiad::job
