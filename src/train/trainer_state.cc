// Saves the state of a trainer to memory and to checkpoints, and restores it.
#include <fmt/format.h>
#include <algorithm>

#include <sstream>

#include "core/text.h"
#include "file/series.h"
#include "pleiad/error.h"
#include "train/trainer_impl.h"

namespace pleiad {
namespace {

/// Returns the first lines that differ between two texts, as "A; here: B".
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream first(a);
  std::istringstream second(b);
  std::string one;
  std::string two;
  while (true) {
    const bool more_one = static_cast<bool>(std::getline(first, one));
    const bool more_two = static_cast<bool>(std::getline(second, two));
    if (!more_one) one = "its end";
    if (!more_two) two = "its end";
    if (one != two || !more_one) break;
  }
  return fmt::format("{}; this net has {}", one.substr(one.find_first_not_of(' ')),
                     two.substr(two.find_first_not_of(' ')));
}

}  // namespace

std::vector<CheckpointTensor> Trainer::Impl::tensors(const std::vector<OptimizerState>& memory) const {
  std::vector<CheckpointTensor> all = {{"step", step}, {"seed", seed}, {"place", place}};
  if (options.schedule_state > 0) all.push_back({"schedule", schedule_state});
  const std::vector<nn::Parameter>& parameters = net.parameters();
  for (const nn::Parameter& p : parameters) all.push_back({p.name, p.value, layout.part_of(p.name)});
  for (const auto& [name, tensor] : net.states()) all.push_back({name, tensor});
  carried_parts.clear();
  for (const auto& [name, tensor] : net.control().carried()) {
    Shape whole = tensor.shape();
    whole.set(0, options.batch);
    carried_parts.push_back(
        std::make_unique<ParameterPart>(ParameterPart::along(whole, 0, {{first(), first() + local()}})));
    carried_parts.back()->writes =
        !serves() && rank() % (ranks() / shares) == 0;  // ranks that share samples have the same state
    all.push_back({name, tensor, carried_parts.back().get()});
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::string prefix = "updater/" + parameters[i].name;
    for (std::size_t k = 0; k < memory[i].arrays.size(); ++k) {
      all.push_back({fmt::format("{}/{}", prefix, k), memory[i].arrays[k], layout.part_of(parameters[i].name)});
    }
    if (memory[i].numbers.count() > 0) all.push_back({prefix + "/unit", memory[i].numbers});
  }
  return all;
}

void Trainer::Impl::restore(const std::vector<OptimizerState>& memory, const std::vector<Tensor>& copies) {
  const std::vector<CheckpointTensor> own = tensors(memory);
  for (std::size_t i = 0; i < own.size(); ++i) own[i].tensor.copy_from(copies[i]);
  exchange->reload(memory);
  net.control().set_seed(static_cast<std::uint64_t>(seed.values<std::int64_t>()[0]));
}

Metadata Trainer::Impl::metadata() const {
  return {{"net", net.text()},
          {"rule", options.updater.rule},
          {"samples", trained_on},
          {"step", fmt::format("{}", now())},
          {"batch", fmt::format("{}", options.batch)},
          {"ranks", fmt::format("{}", ranks())}};
}

std::vector<std::pair<std::string, Tensor>> Trainer::state() {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const CheckpointTensor& t : impl_->tensors(impl_->exchange->optimizer_state()))
    all.emplace_back(t.name, t.tensor);
  return all;
}

nn::Net Trainer::whole_net() {
  Impl& in = *impl_;
  (void)in.exchange->optimizer_state();  // copies the values of the tables to the net's parameters
  nn::Net whole = nn::net_from_text(in.net.text(), in.net.options().name);
  for (const nn::Parameter& p : in.net.parameters()) {
    const Tensor& to = whole.parameter(p.name).value;
    whole.fix(p.name, p.fixed);
    const ParameterPart* const part = in.layout.part_of(p.name);
    if (part == nullptr) {
      to.copy_from(p.value);
      continue;
    }
    to.fill(0);
    for (const ParameterPart::Box& box : part->writes ? part->boxes() : std::vector<ParameterPart::Box>{}) {
      copy_box(to.dtype(), to.raw(), part->whole, box.begin, p.value.raw(), p.value.shape(), box.held, box.length);
    }
    in.comm->run([&] { in.comm->session().all_reduce(to.view()); });
  }
  const auto states = in.net.states();
  for (std::size_t i = 0; i < states.size(); ++i) whole.states()[i].second.copy_from(states[i].second);
  return whole;
}

void Trainer::load_state(const std::vector<std::pair<std::string, Tensor>>& from) {
  const std::vector<OptimizerState> memory = impl_->exchange->optimizer_state();
  std::vector<Tensor> copies;  // checks all tensors before it changes any
  for (const CheckpointTensor& own : impl_->tensors(memory)) {
    const auto found = std::ranges::find(from, own.name, [](const auto& named) { return named.first; });
    if (found == from.end()) {
      throw InvalidArgument(fmt::format("state: \"{}\" is missing among {} tensors", own.name, from.size()));
    }
    const Tensor& tensor = found->second;
    if (tensor.dtype() != own.tensor.dtype() || tensor.shape() != own.tensor.shape()) {
      throw InvalidArgument(fmt::format("state: \"{}\" is {} of shape {}; received {} of shape {}", own.name,
                                        name_of(own.tensor.dtype()), own.tensor.shape().text(), name_of(tensor.dtype()),
                                        tensor.shape().text()));
    }
    copies.push_back(tensor.raw() == own.tensor.raw() ? tensor.clone() : tensor);
  }
  impl_->restore(memory, copies);
}

void Trainer::save(const std::string& folder) {
  Impl& in = *impl_;
  write_checkpoint(folder, in.tensors(in.exchange->optimizer_state()), in.metadata(), *in.comm);
}

void Trainer::checkpoint() {
  Impl& in = *impl_;
  const std::filesystem::path folder = in.options.checkpoint_folder;
  if (folder.empty())
    throw InvalidArgument("checkpoint: expected a folder in options.checkpoint_folder; received none");
  save(step_folder(folder, in.now()).string());
  if (in.rank() == 0) prune_steps(folder, in.options.checkpoint_keep, in.now());
}

void Trainer::load(const std::string& folder) {
  Impl& in = *impl_;
  const std::vector<OptimizerState> memory = in.exchange->optimizer_state();
  std::vector<Tensor> copies;
  std::string samples;
  throw_on_all(*in.comm, error_text_of([&] {
    const Checkpoint from(folder);
    if (const std::string& net = from.at("net"); net != in.net.text()) {
      throw FileError(
          fmt::format("{}: belongs to a different net; it has {}", folder, first_difference(net, in.net.text())));
    }
    if (const std::string& rule = from.at("rule"); rule != in.options.updater.rule) {
      throw FileError(fmt::format("{}: was trained with the rule \"{}\"; this trainer's is \"{}\"", folder, rule,
                                  in.options.updater.rule));
    }
    samples = from.at("samples");
    for (const CheckpointTensor& tensor : in.tensors(memory)) copies.push_back(from.read(tensor));
  }));
  in.restore(memory, copies);
  in.loaded_on = samples;
}

bool Trainer::resume() {
  Impl& in = *impl_;
  const std::string& folder = in.options.checkpoint_folder;
  if (folder.empty()) throw InvalidArgument("resume: expected a folder in options.checkpoint_folder; received none");
  std::vector<std::int64_t> last = {-1};
  if (in.rank() == 0) {
    const std::vector<std::int64_t> steps = steps_in(folder, true);
    for (std::size_t i = steps.size(); i-- > 0 && last[0] < 0;) {
      const std::string damage = error_text_of([&] { Checkpoint(step_folder(folder, steps[i])).verify(); });
      if (damage.empty()) last[0] = steps[i];
      if (!damage.empty()) fmt::print(stderr, "pleiad: {}; using the checkpoint before it\n", damage);
    }
  }
  in.comm->broadcast(last, 0);
  if (last[0] < 0) return false;
  load(step_folder(folder, last[0]).string());
  return true;
}

void load_parameters(nn::Net& net, const std::string& folder) {
  const Checkpoint from(folder);
  std::vector<std::string> missing;
  const auto look_for = [&](const std::string& name) {
    if (!from.has(name)) missing.push_back(fmt::format("\"{}\"", name));
  };
  for (const nn::Parameter& p : net.parameters()) look_for(p.name);
  for (const auto& [name, state] : net.states()) look_for(name);
  if (!missing.empty())
    throw FileError(fmt::format("{}: the net's {} missing: {}", folder,
                                missing.size() == 1 ? "tensor is" : "tensors are", join(missing)));
  std::vector<std::pair<Tensor, Tensor>> copies;
  const auto take = [&](const std::string& name, const Tensor& to) {
    copies.emplace_back(to, from.read({.name = name, .tensor = to}));
  };
  for (const nn::Parameter& p : net.parameters()) take(p.name, p.value);
  for (const auto& [name, state] : net.states()) take(name, state);
  for (const auto& [to, copy] : copies) to.copy_from(copy);
}

nn::Net load_net(const std::string& folder) {
  nn::Net net = nn::net_from_text(Checkpoint(folder).at("net"), folder);
  load_parameters(net, folder);
  return net;
}

}  // namespace pleiad
