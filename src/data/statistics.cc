#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

/// Sums of values and squares: as integers for bytes, in double precision for other types.
template <class T, class Sum>
class Sums {
 public:
  explicit Sums(std::size_t count) : sum_(count), square_(count) {}

  void add(const std::byte* record) {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      T value;
      std::memcpy(&value, record + i * sizeof value, sizeof value);
      const auto wide = static_cast<Sum>(value);
      sum_[i] += wide;
      square_[i] += wide * wide;
    }
  }

  /// Each group of `group` adjacent elements shares one mean.
  [[nodiscard]] Statistics finish(std::int64_t records, std::size_t group) const {
    Statistics result;
    for (std::size_t first = 0; first < sum_.size(); first += group) {
      Sum sum = 0;
      Sum square = 0;
      for (std::size_t i = first; i < first + group; ++i) {
        sum += sum_[i];
        square += square_[i];
      }
      const double n = static_cast<double>(records) * static_cast<double>(group);
      const double mean = static_cast<double>(sum) / n;
      const double variance = static_cast<double>(square) / n - mean * mean;
      result.mean.push_back(static_cast<float>(mean));
      // Rounding may leave a tiny variance in constant data.
      const bool varies = variance > 1e-12 * mean * mean && variance > 0;
      result.deviation.push_back(varies ? static_cast<float>(std::sqrt(variance)) : 1.0F);
    }
    return result;
  }

 private:
  std::vector<Sum> sum_;
  std::vector<Sum> square_;
};

template <class T, class Sum>
Statistics compute(const Store& store, std::size_t field, bool per_pixel) {
  const Field& wanted = store.fields()[field];
  Sums<T, Sum> sums(static_cast<std::size_t>(wanted.count()));
  std::vector<std::byte> record(wanted.bytes());
  for (std::int64_t i = 0; i < store.size(); ++i) {
    store.read(field, {&i, 1}, record);
    sums.add(record.data());
  }
  const bool image = wanted.shape.size() == 3;
  const auto channels = static_cast<std::size_t>(image ? wanted.shape[0] : 1);
  return sums.finish(store.size(), per_pixel ? 1 : static_cast<std::size_t>(wanted.count()) / channels);
}

}  // namespace

Statistics statistics_of(const Store& store, std::size_t field, bool per_pixel) {
  if (field >= store.fields().size()) {
    throw InvalidArgument(
        fmt::format("{}: has {} fields; received the index {}", store.name(), store.fields().size(), field));
  }
  if (store.size() == 0) throw InvalidArgument(fmt::format("{}: has no records", store.name()));
  switch (store.fields()[field].type) {
    case FieldType::uint8: return compute<std::uint8_t, std::uint64_t>(store, field, per_pixel);
    case FieldType::float32: return compute<float, double>(store, field, per_pixel);
    case FieldType::float64: return compute<double, double>(store, field, per_pixel);
    case FieldType::int32: return compute<std::int32_t, double>(store, field, per_pixel);
    case FieldType::int64: return compute<std::int64_t, double>(store, field, per_pixel);
  }
  throw InternalError("a field of an unknown type");
}

}  // namespace pleiad
