// A job and where each of its fields stands.
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

struct Job::Inside {
  job::JobProto proto;
  std::string where;
  google::protobuf::TextFormat::ParseInfoTree places;
  bool lines = false;  ///< whether `places` knows any
  /// Where each layer of `proto` stands. Those inside a kPrefetch are taken out of it, for all input is read ahead
  /// here; then `written` is the job as it came.
  std::vector<std::vector<std::string>> layer_paths = {};
  std::optional<job::JobProto> written = {};

  /// "job.conf:57" for a path of fields from the job on, as far as it is there: {"neuralnet", "layer[3]", "name"}.
  [[nodiscard]] std::string at(const std::vector<std::string>& path) const;
};

namespace job {

using Inside = Job::Inside;

/// "job.conf:57: updater.momentum: expected ...". A field inside a layer has the layer's name in front.
[[noreturn]] void mistake(const Inside& job, const std::string& path, const std::string& text);
/// In layer number `index`; `field` may be empty, or have dots: "store_conf.path".
[[noreturn]] void mistake(const Inside& job, int index, const std::string& field, const std::string& text);

/// Layer number `index` of the job's net.
[[nodiscard]] inline const LayerProto& layer_of(const Inside& job, int index) {
  return job.proto.neuralnet().layer(index);
}

/// The fields from the job on that layer number `index` stands in.
[[nodiscard]] std::vector<std::string> layer_path(const Inside& job, int index);
/// Values that a field may not have are told with the field.
void expect_at_least(const Inside& job, int index, const std::string& field, std::int64_t value, std::int64_t least);
void expect_finite(const Inside& job, int index, const std::string& field, double value);

}  // namespace job
}  // namespace pleiad
