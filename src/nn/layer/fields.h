// The options of a layer by name. A layer's file ends in its factory from text:
//   LayerPtr dense_from(const LayerFields& fields) { return dense(read_fields<DenseOptions>(kFields, fields)); }
#pragma once

#include <algorithm>

#include "core/option_field.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {

template <class Options>
using Fields = std::vector<OptionField<Options>>;

/// "weight.init", "weight.std" and so on, for a Param among the options.
template <class Options>
void add_param_fields(Fields<Options>& to, const std::string& name, Param Options::* member) {
  const auto add = [&](const std::string& field_name, auto access) {
    using T = std::remove_cvref_t<decltype(access(std::declval<Param&>()))>;
    struct Holder {
      T value;
    };
    const auto inner = field(name + "." + field_name, &Holder::value, "");
    to.push_back({.name = inner.name,
                  .help = {},
                  .set =
                      [=](Options& options, std::string_view text) {
                        Holder holder{};
                        inner.set(holder, text);
                        access(options.*member) = holder.value;
                      },
                  .get =
                      [=](const Options& options) {
                        Param copy = options.*member;
                        return inner.get(Holder{access(copy)});
                      }});
  };
  add("init", [](Param& p) -> auto& { return p.init.type; });
  add("value", [](Param& p) -> auto& { return p.init.value; });
  add("mean", [](Param& p) -> auto& { return p.init.mean; });
  add("std", [](Param& p) -> auto& { return p.init.std; });
  add("low", [](Param& p) -> auto& { return p.init.low; });
  add("high", [](Param& p) -> auto& { return p.init.high; });
  add("scale", [](Param& p) -> auto& { return p.init.scale; });
  add("rate_scale", [](Param& p) -> auto& { return p.rate_scale; });
  add("decay_scale", [](Param& p) -> auto& { return p.decay_scale; });
  add("share", [](Param& p) -> auto& { return p.share; });
  add("norm", [](Param& p) -> auto& { return p.norm; });
  add("apart", [](Param& p) -> auto& { return p.apart; });
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

/// The layer, which remembers those of its options that are not as usual. Fields without `get` are other words for some
/// of the rest.
template <class Options>
LayerPtr remembering(LayerPtr layer, const Fields<Options>& known, const Options& options) {
  static const Options usual;
  LayerFields fields;
  for (const auto& field : known) {
    if (!field.get) continue;
    std::string text = field.get(options);
    if (text != field.get(usual)) fields.emplace_back(field.name, std::move(text));
  }
  layer->set_options(std::move(fields));
  return layer;
}

/// For layers without options.
inline void read_no_fields(const LayerFields& fields) {
  if (!fields.empty()) throw InvalidArgument(fmt::format("takes no options; received \"{}\"", fields.front().first));
}

}  // namespace pleiad::nn
