#include "data/list.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace data {

constexpr StoreKind kKinds[] = {
    {"cifar10", open_cifar10},
    {"csv", open_csv},
    {"idx", open_idx},
};

std::span<const StoreKind> kinds() { return kKinds; }

}  // namespace data

std::vector<std::string> store_kinds() {
  std::vector<std::string> names;
  for (const data::StoreKind& kind : data::kinds()) names.emplace_back(kind.name);
  return names;
}

std::unique_ptr<Store> open_store(const StoreOptions& options) {
  const auto kinds = data::kinds();
  const auto kind = std::ranges::find(kinds, options.kind, &data::StoreKind::name);
  if (kind == kinds.end()) throw InvalidArgument(unknown_name("kind of store", options.kind, store_kinds()));
  if (options.paths.empty()) throw InvalidArgument("[open_store] expected at least one path; received none");
  return kind->open(options);
}

}  // namespace pleiad
