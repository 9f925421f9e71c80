#include "table/row_init.h"

#include <algorithm>
#include <cstring>

#include "core/random.h"

namespace pleiad {

RowInit::RowInit(const TableOptions& options, std::int64_t cols)
    : kind_(options.init == "constant"   ? Kind::constant
            : options.init == "uniform"  ? Kind::uniform
            : options.init == "gaussian" ? Kind::gaussian
                                         : Kind::zeros),
      dtype_(options.dtype),
      cols_(cols),
      value_(options.init_value),
      spread_(options.init_spread),
      seed_(static_cast<std::uint64_t>(options.seed)) {}

void RowInit::fill(RowId id, void* row) const {
  if (kind_ == Kind::zeros) {
    std::memset(row, 0, static_cast<std::size_t>(cols_) * size_of(dtype_));
    return;
  }
  const auto write = [&]<class T>(T* to) {
    if (kind_ == Kind::constant) {
      std::fill_n(to, cols_, static_cast<T>(value_));
      return;
    }
    const RandomStream random(seed_, "rows");
    const auto low = static_cast<std::uint32_t>(static_cast<std::uint64_t>(id));
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(id) >> 32U);
    for (std::int64_t c = 0; c < cols_; ++c) {
      const auto element = static_cast<std::uint64_t>(c);
      const double number =
          kind_ == Kind::gaussian ? random.gaussian(element, low, high) : 2 * random.uniform(element, low, high) - 1;
      to[c] = static_cast<T>(value_ + spread_ * number);
    }
  };
  switch (dtype_) {
    case DType::float32: return write(static_cast<float*>(row));
    case DType::float64: return write(static_cast<double*>(row));
    case DType::int32: return write(static_cast<std::int32_t*>(row));
    case DType::int64: return write(static_cast<std::int64_t*>(row));
  }
}

}  // namespace pleiad
