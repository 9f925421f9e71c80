// The kinds of stores that can be opened and written by name. list.cc lists all of them.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "pleiad/data.h"

namespace pleiad::data {

struct StoreKind {
  std::string_view name;
  std::unique_ptr<Store> (*open)(const StoreOptions& options);
  std::unique_ptr<StoreWriter> (*create)(const WriterOptions& options);  ///< null if the kind is read-only
};

[[nodiscard]] std::span<const StoreKind> kinds();

std::unique_ptr<Store> open_idx(const StoreOptions& options);
std::unique_ptr<Store> open_cifar10(const StoreOptions& options);
std::unique_ptr<Store> open_csv(const StoreOptions& options);
std::unique_ptr<Store> open_cifar10_python(const StoreOptions& options);
std::unique_ptr<Store> open_hdf5(const StoreOptions& options);
std::unique_ptr<Store> open_images(const StoreOptions& options);
std::unique_ptr<Store> open_libsvm(const StoreOptions& options);
std::unique_ptr<Store> open_records(const StoreOptions& options);

std::unique_ptr<StoreWriter> create_cifar10(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_cifar10_python(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_idx(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_hdf5(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_images(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_libsvm(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_text(const WriterOptions& options);
std::unique_ptr<StoreWriter> create_records(const WriterOptions& options);

}  // namespace pleiad::data
