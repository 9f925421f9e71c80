// Finds data sets on this machine by name.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "core/text.h"
#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

/// Returns the first of the names that exists in the folder, with or without .gz; empty if none does.
std::string first_there(const fs::path& folder, std::initializer_list<std::string> spellings) {
  std::error_code ignored;
  for (const std::string& name : spellings) {
    for (const char* ending : {"", ".gz"}) {
      fs::path path = folder / (name + ending);
      if (fs::exists(path, ignored)) return path.string();
    }
  }
  return {};
}

/// The files of a part of a data set, and the first required file that does not exist.
struct PartFiles {
  std::vector<std::string> paths;
  std::string missing;

  void require(const fs::path& folder, std::initializer_list<std::string> spellings) {
    std::string path = first_there(folder, spellings);
    if (path.empty() && missing.empty()) missing = *spellings.begin();
    if (!path.empty()) paths.push_back(std::move(path));
  }
};

PartFiles idx_files(const fs::path& folder, DatasetPart part) {
  const std::string begin = part == DatasetPart::train ? "train" : "t10k";
  PartFiles files;
  files.require(folder, {begin + "-images-idx3-ubyte", begin + "-images.idx3-ubyte"});
  files.require(folder, {begin + "-labels-idx1-ubyte", begin + "-labels.idx1-ubyte"});
  return files;
}

PartFiles cifar10_files(const fs::path& folder, DatasetPart part) {
  PartFiles files;
  if (part == DatasetPart::test) {
    files.require(folder, {"test_batch.bin"});
    return files;
  }
  files.require(folder, {"data_batch_1.bin"});
  for (int i = 2; i <= 5; ++i) {
    std::string path = first_there(folder, {fmt::format("data_batch_{}.bin", i)});
    if (!path.empty()) files.paths.push_back(std::move(path));
  }
  return files;
}

struct KnownDataset {
  std::string name;
  std::string kind;
  PartFiles (*files)(const fs::path& folder, DatasetPart part);
  std::string package_folder;  ///< folder in which a package installs it; empty if no package has it
  std::string remedy;          ///< tells the user how to get it
};

const std::vector<KnownDataset>& known_sets() {
  static const std::vector<KnownDataset> kKnown = {
      {"cifar10", "cifar10", cifar10_files, "", "pleiad generate cifar10 FOLDER writes a generated set of that form"},
      {"fashion-mnist", "idx", idx_files, "/usr/share/datasets/fashion-mnist",
       "Debian's package dataset-fashion-mnist has it"},
      {"mnist", "idx", idx_files, "", "fashion-mnist has the same form, and Debian packages it"},
  };
  return kKnown;
}

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const KnownDataset& set : known_sets()) names.push_back(set.name);
  return names;
}

std::unique_ptr<Store> open_dataset(const DatasetOptions& options) {
  const auto set = std::ranges::find(known_sets(), options.name, &KnownDataset::name);
  if (set == known_sets().end()) throw InvalidArgument(unknown_name("data set", options.name, dataset_names()));
  std::vector<std::string> folders;
  if (!options.folder.empty()) {
    folders = {options.folder};
  } else {
    if (const char* root = std::getenv("PLEIAD_DATA"); root != nullptr && *root != '\0') {
      folders.push_back((fs::path(root) / set->name).string());
    }
    if (!set->package_folder.empty()) folders.push_back(set->package_folder);
  }
  std::string looked;
  for (const std::string& folder : folders) {
    const PartFiles files = set->files(folder, options.part);
    if (files.missing.empty()) {
      return open_store({.kind = set->kind, .paths = files.paths, .classes = 10, .window = options.window});
    }
    looked += fmt::format("{}{} has no {}", looked.empty() ? "" : "; ", folder, files.missing);
  }
  throw FileError(
      fmt::format("the data set \"{}\" ({}) is not on this machine: {}. {}{}", set->name, options.part.text(),
                  looked.empty() ? "no folder is known for it" : looked,
                  options.folder.empty()
                      ? fmt::format("Name its folder, or set PLEIAD_DATA to the folder that has {}/; ", set->name)
                      : "",
                  set->remedy));
}

}  // namespace pleiad
