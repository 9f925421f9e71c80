#include "pleiad/stack.h"

#include <fmt/format.h>
#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "train/stages.h"

namespace pleiad {
RbmStack::RbmStack(StackOptions options) : options_(std::move(options)), numbers_(options_.hidden.size()) {
  if (options_.visible < 1)
    throw InvalidArgument(fmt::format("stack: expected visible >= 1; received {}", options_.visible));
  if (options_.hidden.empty())
    throw InvalidArgument("stack: hidden: expected the units of each machine; received none");
  for (const std::int64_t units : options_.hidden) {
    if (units < 1)
      throw InvalidArgument(fmt::format("stack: expected at least 1 hidden unit per machine; received {}", units));
  }
  if (options_.loss == StackLoss::sigmoid && options_.visible_units == nn::RbmUnits::gaussian) {
    throw InvalidArgument("stack: the loss \"sigmoid\" is for binary units; visible_units is \"gaussian\"");
  }
}

nn::Net RbmStack::empty_net(const std::string& name) const {
  nn::Net net({.name = name, .dtype = options_.dtype, .seed = options_.seed});
  net.input("x", {options_.visible});
  return net;
}

nn::RbmUnits RbmStack::visible_units(std::size_t i) const {
  if (i == 0) return options_.visible_units;
  return nn::RbmUnits::binary;
}

nn::RbmUnits RbmStack::hidden_units(std::size_t i) const {
  if (i + 1 == size()) return options_.code_units;
  return nn::RbmUnits::binary;
}

std::string RbmStack::function(std::size_t i) const {
  return hidden_units(i) == nn::RbmUnits::gaussian ? "linear" : "sigmoid";
}

void RbmStack::encode(nn::Net& net, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = stage_name("enc", i);
    net.add(name, nn::dense({.out = options_.hidden[i],
                             .activation = function(i),
                             .weight_param = options_.rbm.weight_param,
                             .bias_param = options_.rbm.hidden_bias_param}));
    if (numbers_[i].weight.empty()) continue;
    net.parameter(name + "/weight").value.copy_from(numbers_[i].weight);
    net.parameter(name + "/bias").value.copy_from(numbers_[i].hidden_bias);
  }
}

nn::Net RbmStack::stage(std::size_t i) const {
  if (i >= size()) throw InvalidArgument(fmt::format("stack: expected a machine below {}; received {}", size(), i));
  nn::Net net = empty_net(stage_name("rbm", i));
  encode(net, i);
  for (const nn::Parameter& p : std::vector<nn::Parameter>(net.parameters())) net.fix(p.name);
  nn::RbmOptions rbm = options_.rbm;
  rbm.hidden = options_.hidden[i];
  rbm.visible_units = visible_units(i);
  rbm.hidden_units = hidden_units(i);
  net.add("rbm", nn::rbm(rbm));
  if (!numbers_[i].weight.empty()) {
    net.parameter("rbm/weight").value.copy_from(numbers_[i].weight);
    net.parameter("rbm/hidden_bias").value.copy_from(numbers_[i].hidden_bias);
    net.parameter("rbm/visible_bias").value.copy_from(numbers_[i].visible_bias);
  }
  return net;
}

void RbmStack::take(std::size_t i, const nn::Net& stage) {
  Numbers numbers;
  const std::pair<std::string_view, Tensor Numbers::*> members[] = {{"rbm/weight", &Numbers::weight},
                                                                    {"rbm/hidden_bias", &Numbers::hidden_bias},
                                                                    {"rbm/visible_bias", &Numbers::visible_bias}};
  for (const nn::Parameter& p : stage.parameters()) {
    for (const auto& [name, member] : members) {
      if (p.name == name) numbers.*member = p.value.clone();
    }
  }
  if (i >= size() || numbers.weight.empty() || numbers.weight.dtype() != options_.dtype ||
      numbers.weight.shape() != Shape{options_.hidden[i], i == 0 ? options_.visible : options_.hidden[i - 1]}) {
    throw InvalidArgument(fmt::format("stack: net \"{}\" is not that of machine {}", stage.options().name, i + 1));
  }
  numbers_[i] = std::move(numbers);
}

nn::Net RbmStack::unrolled() const {
  nn::Net net = empty_net(options_.name);
  encode(net, size());
  for (std::size_t i = size(); i-- > 0;) {
    const std::string name = stage_name("dec", i);
    std::string activation = visible_units(i) == nn::RbmUnits::gaussian ? "linear" : "sigmoid";
    if (i == 0 && options_.loss == StackLoss::sigmoid) activation = "linear";  // the loss applies the sigmoid
    nn::DenseOptions dense{.out = i == 0 ? options_.visible : options_.hidden[i - 1],
                           .activation = activation,
                           .transposed = true,
                           .weight_param = options_.rbm.weight_param,
                           .bias_param = options_.rbm.visible_bias_param};
    if (options_.tied) dense.weight_param.share = stage_name("enc", i) + "/weight";
    net.add(name, nn::dense(dense));
    if (numbers_[i].weight.empty()) continue;
    if (!options_.tied) net.parameter(name + "/weight").value.copy_from(numbers_[i].weight);
    net.parameter(name + "/bias").value.copy_from(numbers_[i].visible_bias);
  }
  net.add("loss", options_.loss == StackLoss::sigmoid ? nn::sigmoid_loss() : nn::euclidean_loss(),
          {.inputs = {"dec1", "x"}});
  return net;
}

bool RbmStack::pretrain(Samples& samples, const TrainOptions& options, Session* session,
                        const std::function<TrainCalls(std::size_t)>& calls) {
  return train_stages(*this, "rbm", samples, options, session, calls);
}

}  // namespace pleiad
