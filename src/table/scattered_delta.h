// A delta that consists of several pieces of memory, such as the gradients of a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "pleiad/table.h"

namespace pleiad {

/// The delta of an array, stored as disjoint ranges in ascending order. The elements outside the ranges are zero.
class ScatteredDelta {
 public:
  ScatteredDelta(std::span<const ArrayPart> parts, std::int64_t width) : parts_(parts), width_(width) {}

  /// Returns the address of the elements [at, at + count) if one part contains all of them, otherwise null.
  [[nodiscard]] const char* in_place(std::int64_t at, std::int64_t count) const {
    const auto part = reaching(at);
    if (part == parts_.end() || at < part->at || at + count > end_of(*part)) return nullptr;
    return first_byte(*part) + (at - part->at) * width_;
  }

  /// Copies the elements [at, at + count) to `to` with copy_piece(to, from, bytes).
  template <class CopyPiece>
  void copy(char* to, std::int64_t at, std::int64_t count, CopyPiece&& copy_piece) const {
    const std::int64_t end = at + count;
    for (auto part = reaching(at); at < end; ++part) {
      const std::int64_t begin = part == parts_.end() ? end : std::min(end, std::max(at, part->at));
      std::memset(to, 0, static_cast<std::size_t>((begin - at) * width_));
      to += (begin - at) * width_;
      at = begin;
      if (at == end) return;
      const std::int64_t here = std::min(end, end_of(*part)) - at;
      copy_piece(to, first_byte(*part) + (at - part->at) * width_, static_cast<std::size_t>(here * width_));
      to += here * width_;
      at += here;
    }
  }

 private:
  static std::int64_t end_of(const ArrayPart& part) { return part.at + part.delta.count; }
  static const char* first_byte(const ArrayPart& part) { return static_cast<const char*>(part.delta.data); }
  /// Returns the first part that ends after `at`.
  [[nodiscard]] std::span<const ArrayPart>::iterator reaching(std::int64_t at) const {
    return std::ranges::upper_bound(parts_, at, {}, end_of);
  }

  std::span<const ArrayPart> parts_;
  std::int64_t width_;
};

}  // namespace pleiad
