// Element types of tables and collectives.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pleiad {

/// The element type of a table, tensor or view.
enum class DType : std::uint8_t { float32, float64, int32, int64 };

inline constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::int32, DType::int64};

/// Bytes of one element.
constexpr std::size_t size_of(DType type) { return type == DType::float32 || type == DType::int32 ? 4 : 8; }

constexpr bool is_integer(DType type) { return type == DType::int32 || type == DType::int64; }

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
  }
  return "?";
}

/// The element types a table can hold.
template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

template <Element T>
inline constexpr DType dtype_of = std::same_as<T, float>          ? DType::float32
                                  : std::same_as<T, double>       ? DType::float64
                                  : std::same_as<T, std::int32_t> ? DType::int32
                                                                  : DType::int64;

}  // namespace pleiad
