// A training job in SINGA's format: a job.conf, or the same message as bytes from a script.
//
//   const pleiad::Job job = pleiad::Job::from_file("examples/mnist/job.conf");
//   const pleiad::JobResult result = pleiad::run_job(job);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"
#include "pleiad/session.h"

namespace pleiad {

namespace job {
class JobProto;
}

/// A parsed job whose form has been checked. Copies share one object. Every function that takes a Job reports a mistake
/// in it as an InvalidArgument that begins with file and line, if they are known, and names the layer and the field.
class PLEIAD_API Job {
 public:
  /// Reads the text form. A file that cannot be read is a FileError.
  [[nodiscard]] static Job from_file(const std::string& path);
  [[nodiscard]] static Job from_text(const std::string& text, const std::string& where = "job");
  /// Reads the binary form, that of JobProto::SerializeToString.
  [[nodiscard]] static Job from_bytes(const std::string& bytes, const std::string& where = "job");

  /// Returns a copy in which the fields given in the text form replace those of the job; repeated fields are appended.
  [[nodiscard]] Job with(const std::string& fields) const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string bytes() const;
  [[nodiscard]] const std::string& where() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& workspace() const;
  [[nodiscard]] std::int64_t workers() const;

  struct Impl;
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  explicit Job(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Metrics have the names of SINGA's reports: loss, acc, se, ppl.
struct JobReport {
  std::int64_t step = 0;
  std::string phase;  ///< train, test or validate
  std::vector<std::pair<std::string, double>> metrics;
  double samples_per_second = 0;
};

/// Options of a run that are not part of the job.
struct JobOptions {
  bool resume = false;              ///< resume from the last checkpoint of the workspace; the job may ask for it too
  bool test = false;                ///< do not train: run one test of the parameters in checkpoint_path
  std::string display = "lines";    ///< lines | live (updates the last line of the terminal) | off
  std::string where = "workspace";  ///< where results and the log go: workspace | none
  std::function<bool(const JobReport&)> report = {};  ///< called on rank 0; false ends the run after this step
  std::function<bool()> stop = {};                    ///< called after each step on every rank; true ends the run
};

/// The outcome of a run.
struct JobResult {
  std::vector<JobReport> reports;  ///< the same on every rank, unless groups do not wait for one another
  bool ended = true;               ///< false if the run was stopped
  std::int64_t step = 0;           ///< number of steps that the parameters have seen; 0 after a test
  std::string checkpoint;          ///< path of the last checkpoint that was written, or empty
};

/// Returns the session options for a launched rank of this job. If the job asks for servers in separate processes
/// (server_worker_separate), and the number of ranks is that of its workers and servers together, the last ranks only
/// serve.
[[nodiscard]] PLEIAD_API SessionOptions session_of_job(const Job& job);

/// Runs a job to its end. With a session, all ranks call it, and the workers of the session are those of the job.
/// Without one, the workers are threads of this process. Writes results.csv, results.json, job.log and
/// checkpoint/ (at least once, at the end of training) into the workspace.
[[nodiscard]] PLEIAD_API JobResult run_job(const Job& job, const JobOptions& options = {}, Session* session = nullptr);

/// Returns what each rank does and the bytes of a step, for `ranks` ranks; 0: the number of workers of the job.
[[nodiscard]] PLEIAD_API std::string explain_job(const Job& job, int ranks = 0);

/// Returns the job's layers, shapes and parameters as text.
[[nodiscard]] PLEIAD_API std::string describe_job(const Job& job);

/// Returns the job's net for one process, with the parameters of `checkpoint`, or of the job's checkpoint_path if
/// `checkpoint` is empty.
[[nodiscard]] PLEIAD_API nn::Net net_of_job(const Job& job, const std::string& checkpoint = {});

/// Reads a checkpoint (SINGA's or Pleiad's) into a net of this job: the parameters that both have, by name. Returns the
/// number of parameters read.
PLEIAD_API std::int64_t load_job_checkpoint(const Job& job, nn::Net& net, const std::string& path);
/// Writes a net of this job as a SINGA checkpoint.
PLEIAD_API void save_job_checkpoint(const Job& job, const nn::Net& net, const std::string& path, std::int64_t step = 0);

/// Converts a checkpoint of this job (SINGA's or Pleiad's) to safetensors. layout "singa": the names, shapes and order
/// of SINGA's checkpoints (w1, b1); "torch" and "pleiad": those of export_parameters.
PLEIAD_API void export_job_checkpoint(const Job& job, const std::string& checkpoint, const std::string& path,
                                      const std::string& layout = "singa");
/// Converts safetensors of any of these layouts, or a state dict that torch.save wrote, to a SINGA checkpoint. A
/// parameter of the job that the file lacks is a FileError.
PLEIAD_API void import_job_checkpoint(const Job& job, const std::string& path, const std::string& checkpoint,
                                      std::int64_t step = 0);

/// Returns job.proto as a serialized FileDescriptorProto, from which a script's own protobuf library can make the
/// classes.
[[nodiscard]] PLEIAD_API std::string job_descriptor();

/// Returns a single layer from a serialized LayerProto, for callers that write their own loop.
[[nodiscard]] PLEIAD_API nn::LayerPtr layer_of_job(const std::string& layer);
/// Returns the rule and the learning rate schedule of a serialized UpdaterProto.
[[nodiscard]] PLEIAD_API std::pair<UpdaterOptions, nn::Schedule> updater_of_job(const std::string& updater);

/// Makes a user's own layer for layers with this user_type. `conf` is the serialized LayerProto.
using JobLayerMaker = std::function<nn::LayerPtr(const std::string& conf)>;
/// Returns the parameter settings of a serialized LayerProto, in order, for use in a user's own layer.
[[nodiscard]] PLEIAD_API std::vector<nn::Param> params_of_job_layer(const std::string& conf);
PLEIAD_API void register_job_layer(const std::string& user_type, JobLayerMaker maker);
/// Registers a user's own name for an update rule with its settings, for updaters with this user_type.
PLEIAD_API void register_job_updater(const std::string& user_type, const UpdaterOptions& options);

}  // namespace pleiad
