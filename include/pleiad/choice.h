// An option that has one of a few values: an enum inside, text where a user types it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "pleiad/api.h"

namespace pleiad {

/// The texts of an enum whose enumerators count from 0. Specialise it for each enum that a Choice holds:
///   static constexpr std::string_view family = "plan";           in error messages
///   static constexpr std::string_view names[] = {"data", ...};   in the order of the enumerators
template <class E>
struct ChoiceNames;

namespace detail {
/// Returns the index of `text` in `names`. Throws InvalidArgument that lists the names if it is not one of them.
[[nodiscard]] PLEIAD_API std::size_t choice_named(std::string_view family, std::string_view text,
                                                  std::span<const std::string_view> names);
}  // namespace detail

template <class E>
[[nodiscard]] constexpr std::string_view name_of(E value)
  requires requires { ChoiceNames<E>::names; }
{
  return ChoiceNames<E>::names[static_cast<std::size_t>(value)];
}

/// Holds a value of the enum E. Text converts to it, so `options.kind = "spatial"` compiles; an unknown text is an
/// InvalidArgument that lists the known ones. Code compares with enumerators: `options.kind == PlanKind::spatial`.
template <class E>
class Choice {
 public:
  constexpr Choice(E value) : value_(value) {}
  Choice(std::string_view text)
      : value_(static_cast<E>(detail::choice_named(ChoiceNames<E>::family, text, ChoiceNames<E>::names))) {}
  Choice(const std::string& text) : Choice(std::string_view(text)) {}
  Choice(const char* text) : Choice(std::string_view(text)) {}

  constexpr operator E() const { return value_; }
  [[nodiscard]] constexpr std::string_view text() const { return name_of(value_); }

 private:
  E value_;
};

}  // namespace pleiad
