// Reads and writes SINGA's checkpoint files.
#pragma once

#include <string>
#include <vector>

#include "job/build.h"

namespace pleiad::job {

/// Reads checkpoints into a net that was built from the same job. If several files have a parameter, the last one
/// counts. Returns the names of the parameters found. Sets *step to the largest step recorded in the files, if any
/// records one.
std::vector<std::string> load_blobs(const JobNet& built, nn::Net& net, const std::vector<std::string>& paths,
                                    std::int64_t* step = nullptr);
/// Writes one file, completely or not at all.
void save_blobs(const JobNet& built, const nn::Net& net, const std::string& path, std::int64_t step);
/// Writes the same values under the same names and in SINGA's order to a safetensors file.
void export_blobs(const JobNet& built, const nn::Net& net, const std::string& path);
/// Reads a file that export_blobs wrote. Recognises it by the parameter names, and by its "format" if the names also
/// match the net's own or PyTorch's. Returns the names found; empty if it is another kind of safetensors file.
std::vector<std::string> import_blobs(const JobNet& built, nn::Net& net, const std::string& path);
/// Throws a FileError that lists the parameters of the job that are not in `found`, the names found in `path`.
void expect_all(const JobNet& built, const std::vector<std::string>& found, const std::string& path);
/// Throws InvalidArgument for the first parameter that has no init and was found in no file. The text says which
/// checkpoints were searched.
void expect_loaded(const JobImpl& job, const JobNet& built, const std::vector<std::string>& found);

}  // namespace pleiad::job
