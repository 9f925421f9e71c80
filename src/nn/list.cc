// The list of layer and loss kinds. To add one, write its source file with a factory and add an entry to entries().
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"

namespace pleiad::nn {

using Factory = LayerPtr(const LayerFields&);
Factory accuracy_from, activation_from, argsort_from, batch_norm_from, branch_from, bridge_from, char_rnn_from,
    concat_from, convolution_from, cross_map_pooling_from, csv_output_from, dense_from, dropout_from, dummy_from,
    embedding_from, euclidean_loss_from, flatten_from, gru_from, image_preprocess_from, local_contrast_from,
    local_convolution_from, lrn_from, lstm_from, one_hot_from, pooling_from, rbm_from, record_output_from, rnn_from,
    rnn_label_from, sigmoid_loss_from, slice_from, softmax_loss_from, split_from, sum_from, sum_loss_from;

namespace {

struct Entry {
  std::string name;
  Factory* make;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"accuracy", accuracy_from},
      {"activation", activation_from},
      {"argsort", argsort_from},
      {"batch_norm", batch_norm_from},
      {"branch", branch_from},
      {"bridge", bridge_from},
      {"char_rnn", char_rnn_from},
      {"concat", concat_from},
      {"convolution", convolution_from},
      {"cross_map_pooling", cross_map_pooling_from},
      {"csv_output", csv_output_from},
      {"dense", dense_from},
      {"dropout", dropout_from},
      {"dummy", dummy_from},
      {"embedding", embedding_from},
      {"euclidean_loss", euclidean_loss_from},
      {"flatten", flatten_from},
      {"gru", gru_from},
      {"image_preprocess", image_preprocess_from},
      {"local_contrast", local_contrast_from},
      {"local_convolution", local_convolution_from},
      {"lrn", lrn_from},
      {"lstm", lstm_from},
      {"one_hot", one_hot_from},
      {"pooling", pooling_from},
      {"rbm", rbm_from},
      {"record_output", record_output_from},
      {"rnn", rnn_from},
      {"rnn_label", rnn_label_from},
      {"sigmoid_loss", sigmoid_loss_from},
      {"slice", slice_from},
      {"softmax_loss", softmax_loss_from},
      {"split", split_from},
      {"sum", sum_from},
      {"sum_loss", sum_loss_from},
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
