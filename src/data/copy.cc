// Copies records from one store to another.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/text.h"
#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

template <class From, class To>
bool convert_values(const std::byte* in, std::byte* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, in + static_cast<std::size_t>(i) * sizeof from, sizeof from);
    if constexpr (std::is_integral_v<To>) {
      // The end of a wide type's range is, as a double, the first value that the type cannot hold.
      const auto wide = static_cast<double>(from);
      constexpr double kEnd = 2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1));
      if (!(wide >= static_cast<double>(std::numeric_limits<To>::min()) && wide < kEnd)) return false;
    }
    const auto to = static_cast<To>(from);
    // Fails if the value does not survive the round trip.
    if constexpr (std::is_integral_v<To>) {
      if (static_cast<From>(to) != from) return false;
    }
    std::memcpy(out + static_cast<std::size_t>(i) * sizeof to, &to, sizeof to);
  }
  return true;
}

using Convert = bool (*)(const std::byte*, std::byte*, std::int64_t);

template <class From>
Convert from(FieldType to) {
  switch (to) {
    case FieldType::uint8: return convert_values<From, std::uint8_t>;
    case FieldType::float32: return convert_values<From, float>;
    case FieldType::float64: return convert_values<From, double>;
    case FieldType::int32: return convert_values<From, std::int32_t>;
    case FieldType::int64: return convert_values<From, std::int64_t>;
  }
  throw InternalError("a field of an unknown type");
}

Convert conversion(FieldType type, FieldType to) {
  switch (type) {
    case FieldType::uint8: return from<std::uint8_t>(to);
    case FieldType::float32: return from<float>(to);
    case FieldType::float64: return from<double>(to);
    case FieldType::int32: return from<std::int32_t>(to);
    case FieldType::int64: return from<std::int64_t>(to);
  }
  throw InternalError("a field of an unknown type");
}

}  // namespace

bool copy_store(const Store& store, StoreWriter& to, const std::function<bool(std::int64_t)>& progress) {
  const std::size_t data = store.field("data");
  const Field& field = store.fields()[data];
  const Field& wanted = to.options().data;
  if (field.count() != wanted.count()) {
    throw InvalidArgument(fmt::format("{}: its records have {} values; {} takes {}", store.name(), field.count(),
                                      to.options().paths.front(), wanted.count()));
  }
  const std::size_t label = to.options().label ? store.field("label") : 0;
  const Convert change = conversion(field.type, wanted.type);
  std::vector<std::byte> in(field.bytes());
  std::vector<std::byte> out(wanted.bytes());
  for (std::int64_t record = 0; record < store.size(); ++record) {
    store.read(data, {&record, 1}, in);
    std::int32_t number = 0;
    if (to.options().label) store.read(label, {&record, 1}, std::as_writable_bytes(std::span(&number, 1)));
    if (field.type != wanted.type && !change(in.data(), out.data(), field.count())) {
      throw InvalidArgument(fmt::format("{}: record {}: has a value that does not fit in {}", store.name(),
                                        grouped(record), name_of(wanted.type)));
    }
    to.write(field.type == wanted.type ? in : out, number);
    if (progress && !progress(record + 1)) return false;
  }
  to.commit();
  return true;
}

}  // namespace pleiad
