// Flags by name.
#pragma once

#include <string>

#include "multiverso/multiverso.h"

namespace multiverso {

/// Same as MV_SetFlag.
template <typename T>
void SetCMDFlag(const std::string& name, const T& value) {
  MV_SetFlag(name, value);
}

}  // namespace multiverso
