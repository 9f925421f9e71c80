// Converts a stored image to the input of a net.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampler.h"
#include "pleiad/data.h"

namespace pleiad::data {

/// Checked and prepared TransformOptions for one field of a store. Thread-safe.
class Transform {
 public:
  /// Throws InvalidArgument if the options do not fit the field. `store` must outlive this object.
  Transform(const Store& store, std::size_t field, const TransformOptions& options, std::uint64_t seed);

  /// Returns the field after the transformation, of type float32.
  [[nodiscard]] const Field& output() const { return output_; }
  /// Reads a record and writes output().count() values. `scratch` can be reused between calls of one thread.
  void apply(const Sample& sample, std::vector<std::byte>& scratch, float* out) const;

 private:
  void check_geometry(const TransformOptions& options);
  void check_numbers(const TransformOptions& options);

  const Store& store_;
  std::size_t field_;
  std::uint64_t seed_;
  Field output_;
  bool image_;
  std::int64_t channels_ = 1;
  std::int64_t height_ = 1;
  std::int64_t width_ = 1;
  std::int64_t pad_ = 0;
  std::int64_t crop_height_ = 1;
  std::int64_t crop_width_ = 1;
  Window tile_;
  bool random_crop_;
  bool mirror_;
  bool each_ = false;
  std::vector<float> mean_;
  std::vector<float> factor_;
};

}  // namespace pleiad::data
