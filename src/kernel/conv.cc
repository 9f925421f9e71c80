#include "kernel/conv.h"

namespace pleiad::kernel {

std::unique_ptr<ConvPlan> plan_conv(const Conv& conv, DType dtype) {
  // A tile may cover only padding, which oneDNN does not support.
  if (conv.in_h == 0 || conv.in_w == 0) return plan_conv_by_loops(conv, dtype);
  return dtype == DType::float32 ? plan_conv_by_dnn(conv) : plan_conv_by_loops(conv, dtype);
}

}  // namespace pleiad::kernel
