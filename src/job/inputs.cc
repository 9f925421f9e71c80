#include "job/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "job/data.h"
#include "job/dummy.h"

namespace pleiad::job {

void NetInputs::add_all(std::map<std::string, LayerOutput>& outputs) {
  for (int i = 0; i < layers_.size(); ++i) {
    const LayerProto& layer = layers_[i];
    if (!is_source(layer)) continue;
    Source source{.index = i, .input = layer.name(), .phases = phases_of(layer), .sample = sample_shape(job_, i)};
    for (Source& other : built_.sources) {
      if (other.input != source.input) continue;
      share_validation(other, source);
      if ((other.phases & source.phases) != 0) {
        throw_invalid(job_, i, "include", "another layer with this name provides records in the same phase");
      }
      if (other.sample != source.sample) {
        throw_invalid(job_, i, "store_conf.shape",
                      fmt::format("expected samples of shape {}, as in the other layer with this name; received {}",
                                  other.sample.text(), source.sample.text()));
      }
    }
    if (!outputs.contains(layer.name())) outputs[layer.name()] = add_input(layer, source);
    built_.sources.push_back(std::move(source));
  }
  if (built_.sources.empty())
    throw_invalid(job_, "neuralnet", "expected a layer that provides records, such as kRecordInput");
}

void NetInputs::share_validation(Source& a, Source& b) const {
  constexpr auto kValidate = static_cast<unsigned>(nn::Phase::validate);
  constexpr auto kTraining = static_cast<unsigned>(nn::Phase::train);
  if ((a.phases & b.phases) != kValidate) return;
  for (Source* const source : {&a, &b}) {
    const bool excludes = layers_[source->index].exclude_size() > 0;
    if (excludes && (source->phases & kTraining) != 0) source->phases &= ~kValidate;
  }
}

LayerOutput NetInputs::add_input(const LayerProto& layer, const Source& source) {
  LayerOutput value;
  value.source = static_cast<int>(built_.sources.size());
  if (layer.type() == kRNNDummy) {
    built_.sequence = true;
    fed_ = fed_ || !feeding_layer(layer).empty();
    value.features = layer.name();
    built_.net.input(layer.name(), source.sample, is_symbols(layer) ? DType::int32 : DType::float32);
    return value;
  }
  if (layer.type() != kCharRNN) {
    value.features = layer.name();
    built_.net.input(layer.name(), source.sample);
    return value;
  }
  built_.sequence = true;
  if (layer.char_rnn_conf().unroll_len() != job_.proto.neuralnet().unroll_len()) {
    throw_invalid(job_, source.index, "char_rnn_conf.unroll_len",
                  fmt::format("expected the value of the net, {}; received {}", job_.proto.neuralnet().unroll_len(),
                              layer.char_rnn_conf().unroll_len()));
  }
  value.features = layer.name() + ".symbols";
  value.next = value.features + ":1";
  built_.net.input(layer.name(), source.sample, DType::int32);
  built_.net.add(value.features, nn::char_rnn(), {.inputs = {layer.name()}});
  return value;
}

std::string NetInputs::labels(const LayerOutput& value, int i, int k) {
  if (value.is_label) return value.features;
  if (!value.next.empty()) return value.next;
  if (value.source < 0) {
    throw_invalid(job_, i, fmt::format("srclayers[{}]", k), "expected a layer that provides labels");
  }
  const std::string input = built_.sources[static_cast<std::size_t>(value.source)].input;
  const std::string label = input + ".label";
  for (Source& source : built_.sources) {
    if (source.input != input || !source.label.empty()) continue;
    if (is_dummy(layers_[source.index])) {
      throw_invalid(job_, i, fmt::format("srclayers[{}]", k), fmt::format("\"{}\" provides no labels", input));
    }
    if (!layers_[source.index].store_conf().has_label()) {
      throw_invalid(
          job_, source.index, "store_conf.has_label",
          fmt::format("layer \"{}\" needs labels, but this field says that there are none", layers_[i].name()));
    }
    source.label = label;
  }
  const std::vector<std::string> inputs = built_.net.input_names();
  if (std::ranges::find(inputs, label) == inputs.end()) built_.net.input(label, {}, DType::int32);
  return label;
}

void NetInputs::parse(const LayerOutput& from, int i) {
  if (from.source < 0) throw_invalid(job_, i, "srclayers", "expected the layer that provides the images");
  const std::string input = built_.sources[static_cast<std::size_t>(from.source)].input;
  for (Source& source : built_.sources) {
    if (source.input != input) continue;
    if (source.parser >= 0)
      throw_invalid(job_, i, "srclayers", fmt::format("another layer parses \"{}\" already", input));
    source.parser = i;
  }
}

void NetInputs::check_feeding() const {
  for (const Source& source : built_.sources) {
    const std::string& from = feeding_layer(layers_[source.index]);
    if (from.empty() || !is_dummy(layers_[source.index])) continue;
    const std::vector<std::string> known = built_.net.layer_names();
    if (std::ranges::find(known, from) == known.end()) {
      throw_invalid(job_, source.index, "rnn_dummy_conf.dynamic_srclayer", unknown_name("layer", from, known));
    }
    if (const std::int64_t count = built_.net.output(from).count(); count < source.sample.count()) {
      throw_invalid(job_, source.index, "rnn_dummy_conf.dynamic_srclayer",
                    fmt::format("\"{}\" provides {} values; a sample needs {}", from, count, source.sample.count()));
    }
  }
}

}  // namespace pleiad::job
