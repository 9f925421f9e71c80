#include "data/list.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad {

namespace data {

constexpr StoreKind kKinds[] = {
    {"cifar10", open_cifar10, create_cifar10},
    {"cifar10_python", open_cifar10_python, create_cifar10_python},
    {"csv", open_csv, create_text},
    {"hdf5", open_hdf5, create_hdf5},
    {"idx", open_idx, create_idx},
    {"images", open_images, create_images},
    {"kvfile", open_records, create_records},
    {"libsvm", open_libsvm, create_libsvm},
    {"lmdb", open_records, create_records},
    {"textfile", open_csv, create_text},
};

std::span<const StoreKind> kinds() { return kKinds; }

}  // namespace data

std::vector<std::string> store_kinds() {
  std::vector<std::string> names;
  for (const data::StoreKind& kind : data::kinds()) names.emplace_back(kind.name);
  return names;
}

std::vector<std::string> writable_kinds() {
  std::vector<std::string> names;
  for (const data::StoreKind& kind : data::kinds()) {
    if (kind.create != nullptr) names.emplace_back(kind.name);
  }
  return names;
}

std::unique_ptr<Store> open_store(const StoreOptions& options) {
  const auto kinds = data::kinds();
  const auto kind = std::ranges::find(kinds, options.kind, &data::StoreKind::name);
  if (kind == kinds.end()) throw InvalidArgument(unknown_name("kind of store", options.kind, store_kinds()));
  if (options.paths.empty()) throw InvalidArgument("[open_store] expected at least one path; received none");
  return checked_read([&] { return kind->open(options); });
}

std::unique_ptr<StoreWriter> create_store(const WriterOptions& options) {
  const auto kinds = data::kinds();
  const auto kind = std::ranges::find(kinds, options.kind, &data::StoreKind::name);
  if (kind == kinds.end() || kind->create == nullptr) {
    throw InvalidArgument(unknown_name("kind of store to write", options.kind, writable_kinds()));
  }
  if (options.paths.empty()) throw InvalidArgument("[create_store] expected a path; received none");
  return kind->create(options);
}

}  // namespace pleiad
