// A training job as SINGA's users write it: a job.conf, or the same as bytes from a script.
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

/// What a job says, checked for form. Copies share it. A mistake is an InvalidArgument that begins with file and line,
/// as far as there are any, and names the layer and the field: so in everything that takes a Job.
class PLEIAD_API Job {
 public:
  /// The text form. A file that cannot be read is a FileError.
  [[nodiscard]] static Job from_file(const std::string& path);
  [[nodiscard]] static Job from_text(const std::string& text, const std::string& where = "job");
  /// The wire form, that of JobProto::SerializeToString.
  [[nodiscard]] static Job from_bytes(const std::string& bytes, const std::string& where = "job");

  /// A copy with these fields, in the text form, in place of its own; what is repeated is added to.
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

/// Metrics by the names of SINGA's results: loss, acc, se, ppl.
struct JobReport {
  std::int64_t step = 0;
  std::string phase;  ///< train, test or validate
  std::vector<std::pair<std::string, double>> metrics;
  double samples_per_second = 0;
};

struct JobOptions {
  bool resume = false;              ///< go on from the last checkpoint of the workspace; the job may say so too
  bool test = false;                ///< no training: one test, of the parameters in checkpoint_path
  std::string display = "lines";    ///< lines | live (the terminal's last line moves) | off
  std::string where = "workspace";  ///< where results and log go: workspace | none
  std::function<bool(const JobReport&)> report = {};  ///< on rank 0; false ends the run after this step
  std::function<bool()> stop = {};                    ///< asked after each step, on every rank
};

struct JobResult {
  std::vector<JobReport> reports;  ///< on every rank the same, but where groups do not wait for one another
  bool ended = true;               ///< false where it was stopped
  std::int64_t step = 0;           ///< steps that the parameters have seen
  std::string checkpoint;          ///< the last one that was written, or empty
};

/// How a launched rank of this job starts its session: where the job wants servers in processes of their own
/// (server_worker_separate), and as many ranks are there as it has workers and servers, the last ones only serve.
[[nodiscard]] PLEIAD_API SessionOptions session_of_job(const Job& job);

/// Runs a job to its end. With a session all ranks call it, and its workers are the job's; without one the workers are
/// threads of this process. The workspace gets results.csv, results.json, job.log, and checkpoint/ where the job asks
/// for checkpoints.
[[nodiscard]] PLEIAD_API JobResult run_job(const Job& job, const JobOptions& options = {}, Session* session = nullptr);

/// Who does what, and the bytes of a step, on so many ranks; 0: as many as the job has workers.
[[nodiscard]] PLEIAD_API std::string explain_job(const Job& job, int ranks = 0);

/// The job's layers, shapes and parameters.
[[nodiscard]] PLEIAD_API std::string describe_job(const Job& job);

/// The job's net, for one process, with the numbers of its checkpoint_path, or of `checkpoint` where that is not empty.
[[nodiscard]] PLEIAD_API nn::Net net_of_job(const Job& job, const std::string& checkpoint = {});

/// Reads a checkpoint (SINGA's file, or one of ours) into a net of this job: what both have, by name. Returns how many
/// parameters.
PLEIAD_API std::int64_t load_job_checkpoint(const Job& job, nn::Net& net, const std::string& path);
/// Writes a net of this job as SINGA's checkpoint.
PLEIAD_API void save_job_checkpoint(const Job& job, const nn::Net& net, const std::string& path, std::int64_t step = 0);

/// A checkpoint of this job (SINGA's file, or one of ours) as safetensors. layout "singa": the names, shapes and order
/// of SINGA's checkpoints (w1, b1); "torch" and "pleiad" as export_parameters has them.
PLEIAD_API void export_job_checkpoint(const Job& job, const std::string& checkpoint, const std::string& path,
                                      const std::string& layout = "singa");
/// The other way, into SINGA's file: from safetensors of any of these layouts, or a state dict that torch.save wrote.
/// What a parameter of the job is missing is a FileError.
PLEIAD_API void import_job_checkpoint(const Job& job, const std::string& path, const std::string& checkpoint,
                                      std::int64_t step = 0);

/// job.proto itself, as a serialized FileDescriptorProto: what a script's own protobuf makes its classes of.
[[nodiscard]] PLEIAD_API std::string job_descriptor();

/// A layer by itself, from a serialized LayerProto: for loops of one's own.
[[nodiscard]] PLEIAD_API nn::LayerPtr layer_of_job(const std::string& layer);
/// Rule and rates of a serialized UpdaterProto.
[[nodiscard]] PLEIAD_API std::pair<UpdaterOptions, nn::Schedule> updater_of_job(const std::string& updater);

/// A user's own layer, for layers with this user_type. `conf` is the serialized LayerProto.
using JobLayerMaker = std::function<nn::LayerPtr(const std::string& conf)>;
/// How a serialized LayerProto wants its parameters, in order: what a layer of one's own asks for.
[[nodiscard]] PLEIAD_API std::vector<nn::Param> params_of_job_layer(const std::string& conf);
PLEIAD_API void register_job_layer(const std::string& user_type, JobLayerMaker maker);
/// A user's own name for an update rule with its settings, for an updater with this user_type.
PLEIAD_API void register_job_updater(const std::string& user_type, const UpdaterOptions& options);

}  // namespace pleiad
