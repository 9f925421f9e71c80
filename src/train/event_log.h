// What a net shows to TensorBoard.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad {

/// Whether log_pictures can show numbers of this shape.
[[nodiscard]] bool makes_pictures(const Shape& shape);

}  // namespace pleiad
