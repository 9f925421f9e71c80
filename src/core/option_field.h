// One named option of an options struct, with conversion from and to text.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/choice.h"
#include "pleiad/dtype.h"

namespace pleiad {

/// The conversions of one value type. `set` throws InvalidArgument with the expected format.
struct OptionType {
  void (*set)(void* value, std::string_view name, std::string_view text);
  std::string (*get)(const void* value);
};

/// Defined for bool, the integer and floating-point types, std::string, DType and std::vector<std::int64_t> ("3,1,4").
template <class T>
[[nodiscard]] const OptionType& option_type();

template <class T>
[[nodiscard]] const OptionType& type_of_member(const T*) {
  return option_type<T>();
}
template <class E>
[[nodiscard]] const OptionType& type_of_member(const Choice<E>*) {
  static constexpr OptionType type{
      .set = [](void* value, std::string_view,
                std::string_view text) { *static_cast<Choice<E>*>(value) = Choice<E>(text); },
      .get = [](const void* value) { return std::string(static_cast<const Choice<E>*>(value)->text()); }};
  return type;
}

/// An option of any struct. Its value is located by its offset, so that no code is generated per struct and field.
struct AnyOptionField {
  std::string name;
  std::string help;
  const OptionType* type = nullptr;
  /// Offsets of the value in the struct. An alias for several options of one type has several offsets.
  std::vector<std::ptrdiff_t> offsets;
  /// True for another name of options that have fields of their own.
  bool alias = false;

  void set_in(void* options, std::string_view text) const;
  [[nodiscard]] std::string get_from(const void* options) const;
};

template <class Options>
struct OptionField : AnyOptionField {
  /// Parses the value. Throws InvalidArgument with the expected format.
  void set(Options& options, std::string_view text) const { set_in(&options, text); }
  [[nodiscard]] std::string get(const Options& options) const { return get_from(&options); }
};

template <class Options, class T>
std::ptrdiff_t offset_of(T Options::* member) {
  static const Options options{};
  return reinterpret_cast<const char*>(&(options.*member)) - reinterpret_cast<const char*>(&options);
}

template <class Options, class T>
OptionField<Options> field(std::string name, T Options::* member, std::string help) {
  return {{std::move(name), std::move(help), &type_of_member(static_cast<const T*>(nullptr)), {offset_of(member)}}};
}

/// Makes one name that sets several options of the same type.
template <class Options, class T>
OptionField<Options> alias_field(std::string name, std::initializer_list<T Options::*> members, std::string help) {
  OptionField<Options> out{
      {std::move(name), std::move(help), &type_of_member(static_cast<const T*>(nullptr)), {}, true}};
  for (const auto member : members) out.offsets.push_back(offset_of(member));
  return out;
}

/// Parses an integer or a floating-point number. `name` appears in the error message.
template <class T>
[[nodiscard]] T number_option(std::string_view name, std::string_view text);

[[nodiscard]] DType dtype_named(std::string_view text);

}  // namespace pleiad
