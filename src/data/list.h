// The kinds of stores that are opened by name. list.cc is the one list of them.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "pleiad/data.h"

namespace pleiad::data {

struct StoreKind {
  std::string_view name;
  std::unique_ptr<Store> (*open)(const StoreOptions& options);
};

[[nodiscard]] std::span<const StoreKind> kinds();

std::unique_ptr<Store> open_idx(const StoreOptions& options);
std::unique_ptr<Store> open_cifar10(const StoreOptions& options);
std::unique_ptr<Store> open_csv(const StoreOptions& options);

}  // namespace pleiad::data
