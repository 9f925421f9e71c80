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

struct KnownDataset {
  std::string name;
  std::string kind;
  std::string package_folder;  ///< folder in which a package installs it; empty if no package has it
  std::string remedy;          ///< tells the user how to get it
};

const std::vector<KnownDataset>& known_sets() {
  static const std::vector<KnownDataset> kKnown = {
      {"cifar10", "cifar10", "", "pleiad generate cifar10 FOLDER writes a generated set of that form"},
      {"fashion-mnist", "idx", "/usr/share/datasets/fashion-mnist", "Debian's package dataset-fashion-mnist has it"},
      {"mnist", "idx", "", "fashion-mnist has the same form, and Debian packages it"},
  };
  return kKnown;
}

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

/// Returns the files of the train or test part. Sets `missing` to the first file that does not exist.
std::vector<std::string> files_of(const KnownDataset& set, const fs::path& folder, bool train, std::string& missing) {
  std::vector<std::string> files;
  const auto take = [&](std::initializer_list<std::string> spellings) {
    std::string path = first_there(folder, spellings);
    if (path.empty() && missing.empty()) missing = *spellings.begin();
    if (!path.empty()) files.push_back(std::move(path));
  };
  if (set.kind == "idx") {
    const std::string part = train ? "train" : "t10k";
    take({part + "-images-idx3-ubyte", part + "-images.idx3-ubyte"});
    take({part + "-labels-idx1-ubyte", part + "-labels.idx1-ubyte"});
  } else if (!train) {
    take({"test_batch.bin"});
  } else {
    take({"data_batch_1.bin"});
    for (int i = 2; i <= 5; ++i) {
      std::string path = first_there(folder, {fmt::format("data_batch_{}.bin", i)});
      if (!path.empty()) files.push_back(std::move(path));
    }
  }
  return files;
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
  const std::vector<std::string> parts = {"test", "train"};
  if (std::ranges::find(parts, options.part) == parts.end()) {
    throw InvalidArgument(unknown_name("part of a data set", options.part, parts));
  }
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
    std::string missing;
    const auto files = files_of(*set, folder, options.part == "train", missing);
    if (missing.empty()) {
      return open_store({.kind = set->kind, .paths = files, .classes = 10, .window = options.window});
    }
    looked += fmt::format("{}{} has no {}", looked.empty() ? "" : "; ", folder, missing);
  }
  throw FileError(
      fmt::format("the data set \"{}\" ({}) is not on this machine: {}. {}{}", set->name, options.part,
                  looked.empty() ? "no folder is known for it" : looked,
                  options.folder.empty()
                      ? fmt::format("Name its folder, or set PLEIAD_DATA to the folder that has {}/; ", set->name)
                      : "",
                  set->remedy));
}

}  // namespace pleiad
