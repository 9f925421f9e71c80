// The list of layers and losses. A new one is a file with its factory, and a line here.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {

using Factory = LayerPtr(const LayerFields&);
Factory activation_from, dense_from, euclidean_loss_from, sigmoid_loss_from, softmax_loss_from;

namespace {

struct Entry {
  std::string name;
  Factory* make;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"activation", activation_from},         {"dense", dense_from},
      {"euclidean_loss", euclidean_loss_from}, {"sigmoid_loss", sigmoid_loss_from},
      {"softmax_loss", softmax_loss_from},
  };
  return list;
}

}  // namespace

std::vector<std::string> layer_kinds() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

LayerPtr make_layer(const std::string& kind, const LayerFields& fields) {
  const auto entry = std::ranges::find(entries(), kind, &Entry::name);
  if (entry == entries().end()) throw InvalidArgument(unknown_name("layer", kind, layer_kinds()));
  try {
    return entry->make(fields);
  } catch (const InvalidArgument& mistake) {
    throw InvalidArgument(fmt::format("layer of kind \"{}\": {}", kind, mistake.what()));
  }
}

}  // namespace pleiad::nn
