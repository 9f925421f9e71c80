// The options of a layer by name. A layer's source file ends with its factory from text:
//   LayerPtr dense_from(const LayerFields& fields) { return dense(read_fields(dense_fields(), fields)); }
#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "core/option_field.h"
#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {

template <class Options>
using Fields = std::vector<OptionField<Options>>;

/// The options of a Param. add_param_fields makes names such as "weight.init" from them.
[[nodiscard]] const std::vector<AnyOptionField>& param_fields();

/// Adds "weight.init", "weight.std" and so on for a Param among the options.
template <class Options>
void add_param_fields(Fields<Options>& to, const std::string& name, Param Options::* member) {
  for (AnyOptionField field : param_fields()) {
    field.name.insert(0, name + ".");
    field.offsets.front() += offset_of(member);
    to.push_back({std::move(field)});
  }
}

template <class Options>
Options read_fields(const Fields<Options>& known, const LayerFields& fields) {
  Options options;
  for (const auto& [name, text] : fields) {
    const auto found = std::ranges::find(known, name, &OptionField<Options>::name);
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& f : known) names.push_back(f.name);
      throw InvalidArgument(unknown_name("option", name, names));
    }
    found->set(options, text);
  }
  return options;
}

/// Stores in the layer the options that differ from their defaults, and returns the layer.
template <class Options>
LayerPtr with_options(LayerPtr layer, const Fields<Options>& known, const Options& options) {
  static const Options usual;
  LayerFields fields;
  for (const auto& field : known) {
    if (field.alias) continue;
    std::string text = field.get(options);
    if (text != field.get(usual)) fields.emplace_back(field.name, std::move(text));
  }
  layer->set_options(std::move(fields));
  return layer;
}

/// Throws unless `fields` is empty. For layers without options.
inline void read_no_fields(const LayerFields& fields) {
  if (!fields.empty()) throw InvalidArgument(fmt::format("takes no options; received \"{}\"", fields.front().first));
}

}  // namespace pleiad::nn
