// SINGA's checkpoint files.
#pragma once

#include <string>
#include <vector>

#include "job/build.h"

namespace pleiad::job {

/// Reads files into a net like the built one: each parameter from the last that has it. Returns the names that were
/// found. step: the largest of the steps that the files are of, where they say it.
std::vector<std::string> load_blobs(const Built& built, nn::Net& net, const std::vector<std::string>& paths,
                                    std::int64_t* step = nullptr);
/// One file, whole or not at all.
void save_blobs(const Built& built, const nn::Net& net, const std::string& path, std::int64_t step);
/// The same numbers under the same names, in SINGA's order, as safetensors.
void export_blobs(const Built& built, const nn::Net& net, const std::string& path);
/// From such a file, which its names tell, and its "format" where they are the net's own or PyTorch's as well; returns
/// the names that were found, none where it is another kind of safetensors.
std::vector<std::string> import_blobs(const Built& built, nn::Net& net, const std::string& path);
/// A FileError for the first parameter that is not among those that were found in `path`.
void expect_all(const Built& built, const std::vector<std::string>& found, const std::string& path);
/// A mistake for the first parameter that has no init and was in no file; it says who would make one.
void expect_loaded(const Inside& job, const Built& built, const std::vector<std::string>& found);

}  // namespace pleiad::job
