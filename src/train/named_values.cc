#include "train/named_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/option_list.h"

namespace pleiad {
namespace {

void add_schedule(NamedValues& to, const std::string& name, const nn::Schedule& s) {
  if (s.type.empty()) {
    to.emplace_back(name, "none");
    return;
  }
  to.emplace_back(
      name,
      fmt::format(
          "{} (base {}, final {}, gamma {}, power {}, freq {}, start {}, steps [{}], rates [{}], warmup {} from {})",
          s.type, s.base, s.final, s.gamma, s.power, s.freq, s.start, fmt::join(s.steps, ", "),
          fmt::join(s.rates, ", "), s.warmup, s.warmup_from));
}

}  // namespace

NamedValues named_values(const TrainOptions& o) {
  NamedValues to;
  const auto add = [&](const char* name, const auto& value) { to.emplace_back(name, fmt::format("{}", value)); };
  add("batch", o.batch);
  for (const auto& field : updater_fields()) to.emplace_back("updater." + field.name, field.get(o.updater));
  add_schedule(to, "schedule", o.schedule);
  add_schedule(to, "momentum", o.momentum);
  add("clip_norm", o.clip_norm);
  add("schedule_state", o.schedule_state);
  add("exchange", o.exchange.text());
  add("clock", o.clock.text());
  add("groups", o.groups);
  add("sync_every", o.sync_every);
  add("plan.kind", o.plan.kind.text());
  to.emplace_back("plan.split", fmt::format("{}", fmt::join(o.plan.split, ", ")));
  add("plan.grid", o.plan.grid);
  add("plan.overlap", o.plan.overlap.text());
  add("plan.halo_delay", o.plan.halo_delay);
  add("plan.deterministic", o.plan.deterministic);
  add("fuse", o.fuse);
  add("check_finite", o.check_finite);
  add("steps", o.steps);
  add("display", o.display);
  add("display_after", o.display_after);
  add("validate", o.validate);
  add("validate_after", o.validate_after);
  add("validate_batches", o.validate_batches);
  add("validate_batch", o.validate_batch);
  add("test", o.test);
  add("test_after", o.test_after);
  add("test_batches", o.test_batches);
  add("test_batch", o.test_batch);
  add("from_zero", o.from_zero);
  add("checkpoint", o.checkpoint);
  add("checkpoint_after", o.checkpoint_after);
  add("checkpoint_at_end", o.checkpoint_at_end);
  add("checkpoint_folder", o.checkpoint_folder);
  add("checkpoint_keep", o.checkpoint_keep);
  add("trace", o.trace);
  add("trace_from", o.trace_from);
  add("trace_steps", o.trace_steps);
  to.emplace_back("events_pictures", fmt::format("{}", fmt::join(o.events_pictures, ", ")));
  return to;
}

NamedValues named_values(const nn::Net& net) {
  NamedValues to = {{"dtype", std::string(name_of(net.options().dtype))}};
  for (const std::string& name : net.input_names()) {
    to.emplace_back(fmt::format("input \"{}\"", name), net.graph().input_sample(name).text());
  }
  to.emplace_back("the order of layers", fmt::format("{}", fmt::join(net.layer_names(), ", ")));
  for (const std::string& name : net.layer_names()) {
    const nn::Layer& layer = net.layer(name);
    const std::string prefix = fmt::format("layer \"{}\"", name);
    const nn::Placement placement = net.graph().placement(name);
    to.emplace_back(prefix, layer.kind());
    to.emplace_back(prefix + ", inputs", fmt::format("{}", fmt::join(placement.inputs, ", ")));
    std::string phases;
    for (const nn::Phase phase : placement.phases) phases += fmt::format("{} ", static_cast<int>(phase));
    to.emplace_back(prefix + ", phases", phases);
    for (const auto& [option, value] : layer.options()) to.emplace_back(fmt::format("{}, {}", prefix, option), value);
  }
  for (const nn::Parameter& p : net.parameters()) {
    to.emplace_back(fmt::format("parameter \"{}\"", p.name),
                    fmt::format("rate scale {}, decay scale {}, norm {}{}", p.rate_scale, p.decay_scale, p.norm,
                                p.fixed ? ", fixed" : ""));
  }
  return to;
}

}  // namespace pleiad
