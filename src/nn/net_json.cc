// Saves the structure of a net, without parameter values, as JSON, and loads it.
#include <fmt/format.h>
#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/option_field.h"
#include "core/text.h"
#include "file/json_text.h"
#include "nn/net_impl.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t kVersion = 1;
constexpr std::pair<Phase, const char*> kPhases[] = {
    {Phase::train, "train"}, {Phase::validate, "validate"}, {Phase::test, "test"}};

std::vector<std::int64_t> lengths(const nlohmann::json& list, const std::string& where) {
  if (!list.is_array()) throw FileError(where + ": expected a list of lengths");
  std::vector<std::int64_t> all;
  for (const auto& length : list) all.push_back(whole_number(length, where));
  return all;
}

std::vector<Phase> phases_of(const nlohmann::json& list, const std::string& where) {
  std::vector<Phase> phases;
  for (const auto& item : list) {
    const std::string& name = text_value(item, where);
    const auto* const found = std::ranges::find_if(kPhases, [&](const auto& p) { return p.second == name; });
    if (found == std::end(kPhases)) {
      throw FileError(fmt::format("{}: {}", where,
                                  unknown_name("phase", name, std::vector<std::string>{"train", "validate", "test"})));
    }
    phases.push_back(found->first);
  }
  return phases;
}

void add_layer(Net& net, const nlohmann::json& layer, const std::string& where) {
  const std::string& name = text_value(member(layer, "name", where), where + ": name");
  const std::string here = fmt::format("{}: layer \"{}\"", where, printable(name));
  Placement placement;
  for (const auto& input : member(layer, "inputs", here)) placement.inputs.push_back(text_value(input, here));
  if (layer.contains("phases")) placement.phases = phases_of(layer["phases"], here);
  LayerFields fields;
  if (layer.contains("options")) {
    for (const auto& [key, value] : layer["options"].items()) fields.emplace_back(key, text_value(value, here));
  }
  net.add(name, make_layer(text_value(member(layer, "kind", here), here + ": kind"), fields), placement);
}

}  // namespace

std::string Net::text() const {
  const Impl& in = *impl_;
  Json all = {{"pleiad_net", kVersion},
              {"name", in.options.name},
              {"dtype", name_of(in.options.dtype)},
              {"inputs", Json::array()},
              {"layers", Json::array()}};
  for (const Value& value : in.values) {
    if (value.producer >= 0) continue;
    all["inputs"].push_back({{"name", value.name},
                             {"shape", std::vector<std::int64_t>(value.sample.begin(), value.sample.end())},
                             {"dtype", name_of(value.dtype)}});
  }
  for (const Node& node : in.nodes) {
    Json layer = {{"name", node.name}, {"kind", node.layer->kind()}, {"inputs", Json::array()}};
    for (const int id : node.inputs) layer["inputs"].push_back(in.values[static_cast<std::size_t>(id)].name);
    Json phases = Json::array();
    for (const auto& [phase, name] : kPhases) {
      if ((node.phases & static_cast<unsigned>(phase)) != 0) phases.push_back(name);
    }
    if (phases.size() != std::size(kPhases)) layer["phases"] = phases;
    if (!node.layer->options().empty()) {
      layer["options"] = Json::object();
      for (const auto& [key, value] : node.layer->options()) layer["options"][key] = value;
    }
    all["layers"].push_back(layer);
  }
  return all.dump(1);
}

Net net_from_text(const std::string& text, const std::string& where) {
  const nlohmann::json all = parse_json(text, where, 6);
  if (!all.is_object()) throw FileError(where + ": expected a net as a JSON object");
  const std::int64_t version = whole_number(member(all, "pleiad_net", where), where + ": pleiad_net");
  if (version != kVersion) {
    throw FileError(fmt::format("{}: is a net of version {}; this program reads version {}", where, version, kVersion));
  }
  try {
    Net net({.name = text_value(member(all, "name", where), where + ": name"),
             .dtype = dtype_named(text_value(member(all, "dtype", where), where + ": dtype"))});
    for (const auto& input : member(all, "inputs", where)) {
      net.input(text_value(member(input, "name", where), where),
                Shape(lengths(member(input, "shape", where), where + ": shape")),
                dtype_named(text_value(member(input, "dtype", where), where)));
    }
    for (const auto& layer : member(all, "layers", where)) add_layer(net, layer, where);
    return net;
  } catch (const InvalidArgument& mistake) {
    throw FileError(fmt::format("{}: {}", where, printable(mistake.what())));
  }
}

}  // namespace pleiad::nn
