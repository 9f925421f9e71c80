// A job, and the line of each of its fields.
#pragma once

#include <google/protobuf/text_format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.pb.h"
#include "pleiad/error.h"
#include "pleiad/job.h"

namespace pleiad {

struct Job::Impl {
  job::JobProto proto;
  std::string where;
  google::protobuf::TextFormat::ParseInfoTree places;
  bool lines = false;  ///< whether `places` holds any line numbers
  /// The path of each layer of `proto`. Layers inside a kPrefetch are moved out of it, because all input is prefetched
  /// here; `written` then holds the job as it was read.
  std::vector<std::vector<std::string>> layer_paths = {};
  std::optional<job::JobProto> written = {};

  /// Returns a position such as "job.conf:57" for a path of fields from the root of the job, or for its longest prefix
  /// that is present. Example: {"neuralnet", "layer[3]", "name"}.
  [[nodiscard]] std::string at(const std::vector<std::string>& path) const;
};

namespace job {

using JobImpl = Job::Impl;

/// Throws InvalidArgument, for example "job.conf:57: updater.momentum: expected ...". A field inside a layer is
/// preceded by the layer's name.
[[noreturn]] void throw_invalid(const JobImpl& job, const std::string& path, const std::string& text);
/// Does the same for layer number `index`. `field` may be empty or contain dots: "store_conf.path".
[[noreturn]] void throw_invalid(const JobImpl& job, int index, const std::string& field, const std::string& text);

/// Returns layer number `index` of the job's net.
[[nodiscard]] inline const LayerProto& layer_of(const JobImpl& job, int index) {
  return job.proto.neuralnet().layer(index);
}

/// Returns the path of fields from the root of the job to layer number `index`.
[[nodiscard]] std::vector<std::string> layer_path(const JobImpl& job, int index);
/// Throw InvalidArgument that names the field if its value is out of range.
void expect_at_least(const JobImpl& job, int index, const std::string& field, std::int64_t value, std::int64_t least);
void expect_finite(const JobImpl& job, int index, const std::string& field, double value);

}  // namespace job
}  // namespace pleiad
