#include "job/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/text.h"
#include "job/data.h"
#include "job/inputs.h"
#include "job/parameter_names.h"
#include "job/singa_layers.h"
#include "job/symbols.h"

namespace pleiad::job {
namespace {

constexpr unsigned kEvery = 7;

class Builder {
 public:
  explicit Builder(const Job& job)
      : job_(job.impl()), layers_(job_.proto.neuralnet().layer()), built_{.net = nn::Net(net_options(job_.proto))} {}

  JobNet run() {
    inputs_.add_all(values_);
    std::vector<int> left;
    for (int i = 0; i < layers_.size(); ++i) {
      if (!is_source(layers_[i])) left.push_back(i);
    }
    check_algorithm();
    while (!left.empty()) {
      const auto next = std::ranges::find_if(left, [&](int i) { return ready(i); });
      if (next == left.end()) refuse(left);
      add(*next);
      left.erase(next);
    }
    if (job_.proto.train_one_batch().alg() == kCD) fix_all_but_machines();
    inputs_.check_feeding();
    return std::move(built_);
  }

 private:
  void check_algorithm() const {
    bool machines = false;
    for (const LayerProto& layer : layers_) machines |= layer.type() == kRBMVis || layer.type() == kRBMHid;
    const AlgType alg = job_.proto.train_one_batch().alg();
    if (alg == kUserAlg)
      throw_invalid(job_, "train_one_batch.alg", "expected kBP, kCD or kBPTT; received none of them");
    if (machines != (alg == kCD)) {
      throw_invalid(
          job_, "train_one_batch.alg",
          machines ? "layers of type kRBMVis and kRBMHid need kCD" : "kCD needs layers of type kRBMVis and kRBMHid");
    }
  }

  /// Fixes the parameters of the machines below the one that is trained.
  void fix_all_but_machines() {
    for (const nn::Parameter& p : built_.net.parameters()) {
      const std::string layer = p.name.substr(0, p.name.find('/'));
      if (built_.net.layer(layer).kind() != "rbm") fixed_.push_back(p.name);
    }
    for (const std::string& name : fixed_) built_.net.fix(name);
  }

  static nn::NetOptions net_options(const JobProto& proto) { return {.name = proto.name(), .seed = proto.seed()}; }

  /// Returns true if all sources of a layer have been added. The two halves of a machine name each other as sources.
  [[nodiscard]] bool ready(int i) const {
    return std::ranges::all_of(layers_[i].srclayers(), [&](const std::string& from) {
      return values_.contains(from) ||
             (layers_[i].type() == kRBMVis && partner(i) >= 0 && layers_[partner(i)].name() == from);
    });
  }

  /// Returns the index of the kRBMHid that belongs to a kRBMVis, or -1.
  [[nodiscard]] int partner(int i) const {
    for (int k = 0; k < layers_.size(); ++k) {
      if (layers_[k].type() == kRBMHid &&
          std::ranges::find(layers_[k].srclayers(), layers_[i].name()) != layers_[k].srclayers().end())
        return k;
    }
    return -1;
  }

  [[noreturn]] void refuse(const std::vector<int>& left) const {
    std::vector<std::string> known;
    for (const LayerProto& layer : layers_) known.push_back(layer.name());
    for (const int i : left) {
      for (int k = 0; k < layers_[i].srclayers_size(); ++k) {
        const std::string& from = layers_[i].srclayers(k);
        if (std::ranges::find(known, from) == known.end()) {
          throw_invalid(job_, i, fmt::format("srclayers[{}]", k), unknown_name("layer", from, known));
        }
      }
    }
    throw_invalid(job_, left[0], "srclayers", "these layers form a cycle");
  }

  /// Returns the name of the value that layer `i` takes as its k-th source.
  std::string features(int i, int k) {
    LayerOutput& value = values_.at(layers_[i].srclayers(k));
    return value.parts > 0 ? fmt::format("{}:{}", value.features, next_part(i, k, value)) : value.features;
  }

  int next_part(int i, int k, const LayerOutput& value) {
    const int part = taken_[value.features]++;
    if (part >= value.parts) {
      throw_invalid(
          job_, i, fmt::format("srclayers[{}]", k),
          fmt::format("\"{}\" has {} parts, each of which another layer already uses", value.features, value.parts));
    }
    return part;
  }

  /// Returns the name of the labels of the k-th source.
  std::string labels(int i, int k) { return inputs_.labels(values_.at(layers_[i].srclayers(k)), i, k); }

  /// Records a layer that says how the records of its source are scaled.
  void parse_source(int i) {
    expect_sources(i, 1, 1);
    inputs_.parse(values_.at(layers_[i].srclayers(0)), i);
  }

  void expect_sources(int i, int least, int most) const {
    const int n = layers_[i].srclayers_size();
    if (n < least || n > most) {
      throw_invalid(job_, i, "srclayers",
                    fmt::format("expected {}; received {}",
                                least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most), n));
    }
  }

  /// Converts an axis of SINGA's arrays to ours, in which images are channels last.
  [[nodiscard]] int axis(int i, const std::string& field, int dim) const {
    const int rank = built_.net.output(values_.at(layers_[i].srclayers(0)).features).shape().rank();
    if (dim < 0 || dim >= rank) {
      throw_invalid(job_, i, field, fmt::format("expected 0 to {}; received {}", rank - 1, dim));
    }
    if (rank != 4 || dim == 0) return dim;
    return dim == 1 ? 3 : dim - 1;
  }

  void alias(int i) {
    expect_sources(i, 1, 1);
    values_[layers_[i].name()] = {.features = features(i, 0), .source = values_.at(layers_[i].srclayers(0)).source};
  }

  void add(int i) {
    const LayerProto& layer = layers_[i];
    if (machines_.contains(i)) return;  // it was added with its other half
    if (values_.contains(layer.name())) {
      throw_invalid(job_, i, "name", "another layer has this name; only sources of different phases may share a name");
    }
    switch (layer.type()) {
      case kBridgeSrc:
      case kBridgeDst:
      case kSplit:
      case kDummy:
      case kRNNDummy: return alias(i);
      case kCharRNNOutput: {
        expect_sources(i, 1, 1);
        return place(i, text_output(job_vocabulary(job_, i)), all_features(i));
      }
      case kLabel:
      case kRNNLabel:
        expect_sources(i, 1, 1);
        values_[layer.name()] = {
            .features = labels(i, 0), .source = values_.at(layer.srclayers(0)).source, .is_label = true};
        return;
      case kMnist: return add_mnist(i);
      case kRGBImage: parse_source(i); return add_own(i);
      case kRBMVis: return add_machine(i);
      case kRBMHid: throw_invalid(job_, i, "srclayers", "expected a layer of type kRBMVis");
      case kConcate: {
        expect_sources(i, 1, 1 << 20);
        const int dim = axis(i, "concate_conf.concate_dim", layer.concate_conf().concate_dim());
        return place(i, nn::concat({.axis = dim}), all_features(i));
      }
      case kSlice: {
        expect_sources(i, 1, 1);
        expect_at_least(job_, i, "slice_conf.num_slices", layer.slice_conf().num_slices(), 1);
        const int dim = axis(i, "slice_conf.slice_dim", layer.slice_conf().slice_dim());
        place(i, nn::slice({.axis = dim, .parts = layer.slice_conf().num_slices()}), all_features(i));
        values_.at(layer.name()).parts = layer.slice_conf().num_slices();
        return;
      }
      default: add_own(i);
    }
  }

  void add_mnist(int i) {
    parse_source(i);
    const MnistProto& conf = layers_[i].mnist_conf();
    if (!distorts(conf)) return alias(i);
    expect_at_least(job_, i, "mnist_conf.kernel", conf.kernel(), 0);
    expect_at_least(job_, i, "mnist_conf.resize", conf.resize(), 0);
    expect_at_least(job_, i, "mnist_conf.elastic_freq", conf.elastic_freq(), 0);
    constexpr int kMost = 1024;
    for (const auto& [field, value] : {std::pair("kernel", conf.kernel()), std::pair("resize", conf.resize())}) {
      if (value > kMost) {
        throw_invalid(job_, i, fmt::format("mnist_conf.{}", field),
                      fmt::format("expected at most {}; received {}", kMost, value));
      }
    }
    if (!(conf.gamma() >= 0 && conf.gamma() < 100)) {
      throw_invalid(job_, i, "mnist_conf.gamma",
                    fmt::format("expected 0 to below 100 percent; received {}", conf.gamma()));
    }
    for (const auto& [field, value] :
         {std::pair("sigma", conf.sigma()), std::pair("alpha", conf.alpha()), std::pair("beta", conf.beta())}) {
      expect_finite(job_, i, fmt::format("mnist_conf.{}", field), value);
    }
    const int source = values_.at(layers_[i].srclayers(0)).source;
    place(i, elastic_distortion(conf), all_features(i));
    values_.at(layers_[i].name()).source = source;
  }

  std::vector<std::string> all_features(int i) {
    std::vector<std::string> from;
    for (int k = 0; k < layers_[i].srclayers_size(); ++k) from.push_back(features(i, k));
    return from;
  }

  /// Adds the two halves of a machine as one layer with the name of the visible half.
  void add_machine(int i) {
    const int hidden = partner(i);
    if (hidden < 0) throw_invalid(job_, i, "srclayers", "expected a layer of type kRBMHid that takes this one");
    const LayerProto& vis = layers_[i];
    const LayerProto& hid = layers_[hidden];
    expect_at_least(job_, i, "rbm_conf.hdim", vis.rbm_conf().hdim(), 1);
    if (hid.rbm_conf().hdim() != vis.rbm_conf().hdim()) {
      throw_invalid(job_, hidden, "rbm_conf.hdim",
                    fmt::format("expected the value of \"{}\", {}; received {}", vis.name(), vis.rbm_conf().hdim(),
                                hid.rbm_conf().hdim()));
    }
    std::vector<std::string> from;
    for (int k = 0; k < vis.srclayers_size(); ++k) {
      if (vis.srclayers(k) != hid.name()) from.push_back(features(i, k));
    }
    if (from.size() != 1) throw_invalid(job_, i, "srclayers", "expected one source besides the hidden half");
    const LayerSpec visible{.job = job_, .index = i, .conf = vis};
    const LayerSpec above{.job = job_, .index = hidden, .conf = hid};
    nn::RbmOptions to;
    to.hidden = vis.rbm_conf().hdim();
    to.k = job_.proto.train_one_batch().cd_conf().cd_k();
    to.hidden_units =
        hid.rbm_conf().gaussian() || vis.rbm_conf().gaussian() ? nn::RbmUnits::gaussian : nn::RbmUnits::binary;
    to.weight_param = visible.param(0, {.type = "gaussian", .std = 0.1});
    to.visible_bias_param = visible.param(1, {.type = "constant", .value = 0});
    to.hidden_bias_param = above.param(1, {.type = "constant", .value = 0});
    place(i, nn::rbm(to), std::move(from));
    const auto name = [&](int layer, int k, const std::string& what) {
      const bool told = k < layers_[layer].param_size();
      const std::string parameter = fmt::format("{}/{}", vis.name(), what);
      built_.parameters.push_back({.name = told ? names_.key(layer, k, what) : parameter,
                                   .parameter = parameter,
                                   .layer = layer,
                                   .index = k,
                                   .needs_file = told && !layers_[layer].param(k).has_init(),
                                   .count = built_.net.parameter(parameter).value.count()});
    };
    name(i, 0, "weight");
    name(i, 1, "visible_bias");
    name(hidden, 1, "hidden_bias");
    machines_.insert(hidden);
    values_[hid.name()] = {.features = vis.name()};
    built_.squared = true;
  }

  /// Adds a layer type that Pleiad implements.
  void add_own(int i) {
    const LayerProto& layer = layers_[i];
    check_unrolling(i);
    LayerSpec order{.job = job_, .index = i, .conf = layer, .shares = names_.shares(i)};
    const bool softmax = layer.type() == kSoftmax || layer.type() == kCudnnSoftmax;
    order.each_place = built_.sequence && (softmax || layer.type() == kInnerProduct);
    order.carry = inputs_.fed();
    if (softmax) {
      expect_sources(i, 1, 1);
      order.image = built_.net.output(values_.at(layer.srclayers(0)).features).shape().rank() == 4;
    }
    nn::LayerPtr made = make_job_layer(order);
    if (made == nullptr) {
      throw_invalid(job_, i, "type", fmt::format("{} is not supported", LayerType_Name(layer.type())));
    }
    std::vector<std::string> from;
    switch (layer.type()) {
      case kSoftmaxLoss:
      case kCudnnSoftmaxLoss:
        expect_sources(i, 2, 2);
        from = {features(i, 0), labels(i, 1)};
        break;
      case kEuclideanLoss:
        expect_sources(i, 2, 2);
        from = {features(i, 0), features(i, 1)};
        built_.squared = true;
        break;
      case kAccuracy:
        expect_sources(i, 2, 2);
        from = {features(i, 0), labels(i, 1)};
        break;
      case kCSVOutput:
      case kRecordOutput:
        expect_sources(i, 1, 2);
        from = {features(i, 0)};
        if (layer.srclayers_size() == 2) from.push_back(labels(i, 1));
        break;
      case kUserLayer: from = all_features(i); break;
      case kGRU:
        expect_sources(i, 1, 2);
        from = all_features(i);
        if (from.size() == 2 &&
            (layer.unroll_conn_type_size() < 2 || layer.unroll_conn_type(1) != kUnrollFirstToLast)) {
          throw_invalid(job_, i, "unroll_conn_type",
                        "expected kUnrollFirstToLast for the second source, whose last step is the initial state");
        }
        break;
      default: expect_sources(i, 1, 1); from = {features(i, 0)};
    }
    place(i, std::move(made), std::move(from));
    names_.add(i);
    note_cut(i);
  }

  /// Layers process whole sequences: step i takes step i of its source, or the whole source if that has no steps.
  void check_unrolling(int i) const {
    const LayerProto& layer = layers_[i];
    for (int k = 0; k < layer.unroll_conn_type_size(); ++k) {
      const UnrollConnType type = layer.unroll_conn_type(k);
      if (type == kUnrollFirstToLast && layer.type() == kGRU && k == 1) continue;
      if (type != kUnrollOneToOne && type != kUnrollOneToAll) {
        throw_invalid(
            job_, i, fmt::format("unroll_conn_type[{}]", k),
            fmt::format("expected kUnrollOneToOne or kUnrollOneToAll, or kUnrollFirstToLast for the second source of "
                        "a kGRU; received {}",
                        UnrollConnType_Name(type)));
      }
    }
    for (int k = 0; k < layer.shift_size(); ++k) {
      if (layer.shift(k) != 0) {
        throw_invalid(job_, i, fmt::format("shift[{}]", k), fmt::format("expected 0; received {}", layer.shift(k)));
      }
    }
  }

  void place(int i, nn::LayerPtr layer, std::vector<std::string> from) {
    nn::Placement placement{.inputs = std::move(from), .phases = {}};
    const unsigned mask = phases_of(layers_[i]);
    for (const nn::Phase phase : {nn::Phase::train, nn::Phase::validate, nn::Phase::test}) {
      if ((mask & static_cast<unsigned>(phase)) != 0) placement.phases.push_back(phase);
    }
    try {
      built_.net.add(layers_[i].name(), std::move(layer), std::move(placement));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {}", job_.at(layer_path(job_, i)), error.what()));
    }
    values_[layers_[i].name()] = {.features = layers_[i].name()};
  }

  void note_cut(int i) {
    const LayerProto& layer = layers_[i];
    const bool own = layer.partition_dim() != -1;
    const int dim = own ? layer.partition_dim() : job_.proto.neuralnet().partition_dim();
    if (dim < -1 || dim > 1) {
      const std::string text = fmt::format("expected 0 (samples), 1 (outputs) or -1; received {}", dim);
      if (own) throw_invalid(job_, i, "partition_dim", text);
      throw_invalid(job_, "neuralnet.partition_dim", text);
    }
    const std::string kind = built_.net.layer(layer.name()).kind();
    if (dim == 1 && (kind == "dense" || kind == "convolution")) built_.cut.push_back(layer.name());
  }

  const JobImpl& job_;
  const google::protobuf::RepeatedPtrField<LayerProto>& layers_;
  JobNet built_;
  NetInputs inputs_{job_, built_};
  ParameterNames names_{job_, built_};
  std::map<std::string, LayerOutput> values_;
  std::map<std::string, int> taken_;
  std::set<int> machines_;
  std::vector<std::string> fixed_;
};

}  // namespace

unsigned phases_of(const LayerProto& layer) {
  const auto mask = [](const google::protobuf::RepeatedField<int>& phases) {
    unsigned all = 0;
    for (const int phase : phases) all |= static_cast<unsigned>(phase);
    return all & kEvery;
  };
  if (layer.include_size() > 0) return mask(layer.include());
  return kEvery & ~mask(layer.exclude());
}

JobNet build(const Job& job) { return Builder(job).run(); }

}  // namespace pleiad::job
