// Images of a net for TensorBoard.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad {

/// Returns true if log_pictures can show tensors of this shape.
[[nodiscard]] bool makes_pictures(const Shape& shape);

}  // namespace pleiad
