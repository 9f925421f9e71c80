// The inputs of a job's net, which the records of its source layers fill.
#pragma once

#include <map>
#include <string>

#include "job/build.h"

namespace pleiad::job {

/// The output that another layer receives when it names this one as a source.
struct LayerOutput {
  std::string features;
  int source = -1;        ///< index in JobNet::sources of the source that has its labels
  int parts = 0;          ///< of a slice: each layer that names it takes the next part
  bool is_label = false;  ///< the features are labels
  std::string next = {};  ///< of symbols: the name of the value that holds the next symbols
};

/// Adds the inputs to JobNet::net and JobNet::sources. The job and the net must outlive it.
class NetInputs {
 public:
  NetInputs(const JobImpl& job, JobNet& built) : job_(job), layers_(job.proto.neuralnet().layer()), built_(built) {}

  /// Adds an input for each layer that provides records, and its output to `outputs`.
  void add_all(std::map<std::string, LayerOutput>& outputs);
  /// Returns the name of the labels of `value`, the k-th source of layer `i`. Adds the input for them if needed.
  [[nodiscard]] std::string labels(const LayerOutput& value, int i, int k);
  /// Records that layer `i` says how the records behind its source `from` are scaled.
  void parse(const LayerOutput& from, int i);
  /// Returns true if the net's output is its next input.
  [[nodiscard]] bool fed() const { return fed_; }
  /// Checks that the layer that feeds a dummy exists and provides enough values per sample.
  void check_feeding() const;

 private:
  /// In SINGA 0.1, one data layer excludes kTest and the other excludes kTrain, so both bring records for validation.
  /// Validation then uses the layer that does not train.
  void share_validation(Source& a, Source& b) const;
  LayerOutput add_input(const LayerProto& layer, const Source& source);

  const JobImpl& job_;
  const google::protobuf::RepeatedPtrField<LayerProto>& layers_;
  JobNet& built_;
  bool fed_ = false;
};

}  // namespace pleiad::job
