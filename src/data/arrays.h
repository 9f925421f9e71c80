// Fields that lie in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pleiad/data.h"

namespace pleiad::data {

/// A field with memory of its own, record after record.
struct OwnedField {
  Field field;
  std::vector<std::byte> bytes;
};

/// A store that keeps the memory. All fields have the same number of records.
[[nodiscard]] std::unique_ptr<Store> keep_arrays(std::string name, std::vector<OwnedField> fields);

}  // namespace pleiad::data
