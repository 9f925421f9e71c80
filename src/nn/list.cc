// The list of layers and losses. A new one is a file with its factory, and a line here.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {

using Factory = LayerPtr(const LayerFields&);
Factory activation_from, batch_norm_from, concat_from, convolution_from, dense_from, dropout_from, euclidean_loss_from,
    flatten_from, lrn_from, pooling_from, sigmoid_loss_from, slice_from, softmax_loss_from, split_from, sum_from;

namespace {

struct Entry {
  std::string name;
  Factory* make;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"activation", activation_from},
      {"batch_norm", batch_norm_from},
      {"concat", concat_from},
      {"convolution", convolution_from},
      {"dense", dense_from},
      {"dropout", dropout_from},
      {"euclidean_loss", euclidean_loss_from},
      {"flatten", flatten_from},
      {"lrn", lrn_from},
      {"pooling", pooling_from},
      {"sigmoid_loss", sigmoid_loss_from},
      {"slice", slice_from},
      {"softmax_loss", softmax_loss_from},
      {"split", split_from},
      {"sum", sum_from},
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
