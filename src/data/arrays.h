// Stores whose fields are in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pleiad/data.h"

namespace pleiad::data {

/// A field that owns its memory; the records are stored one after the other.
struct OwnedField {
  Field field;
  std::vector<std::byte> bytes;
};

/// Returns a store that owns the fields. All fields must have the same number of records.
[[nodiscard]] std::unique_ptr<Store> keep_arrays(std::string name, std::vector<OwnedField> fields);

}  // namespace pleiad::data
