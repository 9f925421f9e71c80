#include "kernel/conv.h"

namespace pleiad::kernel {

std::unique_ptr<ConvPlan> plan_conv(const Conv& conv, DType dtype) {
  return dtype == DType::float32 ? plan_conv_by_dnn(conv) : plan_conv_by_loops(conv, dtype);
}

}  // namespace pleiad::kernel
