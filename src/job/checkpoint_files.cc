// Reads and writes the parameters of a job in SINGA's and in other formats.
#include "job/blobs.h"
#include "job/build.h"
#include "pleiad/job.h"
#include "pleiad/train.h"
#include "train/torch_file.h"

namespace pleiad {

nn::Net net_of_job(const Job& job, const std::string& checkpoint) {
  job::JobNet built = job::build(job);
  const auto& given = job.impl().proto.checkpoint_path();
  std::vector<std::string> paths(given.begin(), given.end());
  if (!checkpoint.empty()) paths = {checkpoint};
  job::expect_loaded(job.impl(), built, job::load_blobs(built, built.net, paths));
  return std::move(built.net);
}

std::int64_t load_job_checkpoint(const Job& job, nn::Net& net, const std::string& path) {
  const job::JobNet built = job::build(job);
  return static_cast<std::int64_t>(job::load_blobs(built, net, {path}).size());
}

void save_job_checkpoint(const Job& job, const nn::Net& net, const std::string& path, std::int64_t step) {
  const job::JobNet built = job::build(job);
  job::save_blobs(built, net, path, step);
}

void export_job_checkpoint(const Job& job, const std::string& checkpoint, const std::string& path,
                           const std::string& layout) {
  job::JobNet built = job::build(job);
  const std::vector<std::string> found = job::load_blobs(built, built.net, {checkpoint});
  job::expect_all(built, found, checkpoint);
  if (layout == "singa") return job::export_blobs(built, built.net, path);
  export_parameters(built.net, path, layout);
}

void import_job_checkpoint(const Job& job, const std::string& path, const std::string& checkpoint, std::int64_t step) {
  job::JobNet built = job::build(job);
  std::vector<std::string> found;
  if (!is_torch_file(path)) found = job::import_blobs(built, built.net, path);
  if (found.empty()) {
    import_parameters(built.net, path);
  } else {
    job::expect_all(built, found, path);
  }
  job::save_blobs(built, built.net, checkpoint, step);
}

}  // namespace pleiad
