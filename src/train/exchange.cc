#include "train/exchange.h"

#include <fmt/format.h>
#include <algorithm>

#include <optional>

#include "core/text.h"
#include "kernel/elementwise.h"
#include "pleiad/error.h"
#include "train/groups.h"

namespace pleiad {
namespace {

RuleMemory memory_of(const ParameterRule& rule) { return {.arrays = rule.history(), .numbers = rule.unit()}; }

/// Restores the norm that the parameter must keep after an update.
void keep_norm(const nn::Parameter& p) {
  if (p.norm > 0) kernel::scale_rows(p.value, p.row, p.norm);
}

/// For one process: updates each parameter as soon as its gradient is complete, or while the gradient is computed.
class NoExchange final : public Exchange {
 public:
  NoExchange(nn::Net& net, const TrainOptions& options) : net_(net) {
    for (const nn::Parameter& p : net.parameters()) {
      rules_.push_back(std::make_unique<ParameterRule>(p, options.updater));
    }
    for (std::size_t i = 0; options.fuse && !options.plan.deterministic && i < rules_.size(); ++i) {
      if (net.parameters()[i].pieces && net.parameters()[i].uses == 1) net.set_update(i, rules_[i].get());
    }
  }
  ~NoExchange() override {
    for (std::size_t i = 0; i < rules_.size(); ++i) net_.set_update(i, nullptr);
  }
  void begin(const StepRates& rates, Trace*) override {
    for (const auto& rule : rules_) rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override {
    const Tensor& gradient = net_.parameters()[i].gradient;
    if (!gradient.empty()) rules_[i]->apply_all(gradient);
    rules_[i]->end_step();
    keep_norm(net_.parameters()[i]);
  }
  [[nodiscard]] std::string take_problem() override {
    return first_problem(rules_, [](const auto& rule) { return rule->take_problem(); });
  }
  [[nodiscard]] std::vector<RuleMemory> memory() override {
    std::vector<RuleMemory> all;
    for (const auto& rule : rules_) all.push_back(memory_of(*rule));
    return all;
  }

 private:
  nn::Net& net_;
  std::vector<std::unique_ptr<ParameterRule>> rules_;
};

/// Updates a parameter on this rank, because its gradient needs no other rank or has been summed already.
class LocalUpdate {
 public:
  LocalUpdate(const nn::Parameter& parameter, const UpdaterOptions& options)
      : rule_(std::make_unique<ParameterRule>(parameter, options)) {}
  void begin(const StepRates& rates) const { rule_->begin_step(rates.learning_rate, rates.momentum); }
  void apply(const Tensor& gradient) const {
    rule_->apply_all(gradient);
    rule_->end_step();
  }
  [[nodiscard]] std::string take_problem() const { return rule_->take_problem(); }
  [[nodiscard]] RuleMemory memory() const { return memory_of(*rule_); }

 private:
  std::unique_ptr<ParameterRule> rule_;
};

/// Sums gradients over the ranks in another thread while backward continues. Every rank then applies the same update.
class AllReduce final : public Exchange {
 public:
  AllReduce(nn::Net& net, const TrainOptions& options, Layout& layout, Crew& crew)
      : net_(net), layout_(layout), crew_(crew) {
    for (const nn::Parameter& p : net.parameters()) {
      updates_.emplace_back(p, options.updater);
      summed_.push_back(layout.part_of(p.name) == nullptr);
    }
  }
  ~AllReduce() override { crew_.drop(); }
  void begin(const StepRates& rates, Trace* trace) override {
    trace_ = trace;
    for (const LocalUpdate& update : updates_) update.begin(rates);
  }
  void ready(std::size_t i) override {
    crew_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, summed_[i] ? "all_reduce" : "update", p.name);
      if (summed_[i]) {
        crew_.session().all_reduce(p.gradient.view());
      } else {
        layout_.sum_alike(p.name, p.gradient);
      }
      updates_[i].apply(p.gradient);
      keep_norm(p);
    });
  }
  void finish() override { crew_.finish(); }
  [[nodiscard]] std::string take_problem() override { return first_problem(updates_, &LocalUpdate::take_problem); }
  [[nodiscard]] std::vector<RuleMemory> memory() override {
    std::vector<RuleMemory> all;
    for (const LocalUpdate& update : updates_) all.push_back(update.memory());
    return all;
  }

 private:
  nn::Net& net_;
  Layout& layout_;
  Crew& crew_;
  std::vector<LocalUpdate> updates_;
  std::vector<bool> summed_;
  Trace* trace_ = nullptr;
};

/// Keeps the parameters in tables. With clock "sync", the gradients of a round are summed in rank order and the rule is
/// applied once.
class Tables final : public Exchange {
 public:
  Tables(nn::Net& net, const TrainOptions& options, const Layout& layout, Crew& crew) : net_(net), crew_(crew) {
    const bool sync = options.clock == "sync";
    if (options.groups > 0) group_.emplace(crew, options.groups);
    for (nn::Parameter& p : net.parameters()) {
      if (p.norm > 0) {
        throw InvalidArgument(fmt::format(
            "parameter \"{}\" is kept at norm {}, which tables do not know of; set exchange to \"all_reduce\"", p.name,
            p.norm));
      }
      Place& place = places_.emplace_back();
      if (layout.part_of(p.name) != nullptr) {
        place.own.emplace(p, options.updater);
        continue;
      }
      TableOptions table{.name = p.name,
                         .dtype = p.value.dtype(),
                         .clock = options.clock,
                         .apply = sync ? "round" : "each",
                         .ordered = sync,
                         .updater = options.updater};
      table.updater.weight_decay *= p.decay_scale;
      place.table.emplace(crew.session().create_array(p.value.count(), table, p.value.view()));
      if (crew.rank() < crew.workers()) place.table->get(p.value.view());
      const ArrayTable::RuleState state = place.table->rule_state();
      for (int k = 0; k < state.arrays; ++k) place.copy.arrays.emplace_back(p.value.dtype(), p.value.shape());
      place.copy.numbers = Tensor(DType::float64, {state.numbers});
    }
  }
  ~Tables() override { crew_.drop(); }
  void begin(const StepRates& rates, Trace* trace) override {
    rates_ = rates;
    trace_ = trace;
    for (const Place& place : places_) {
      if (place.own) place.own->begin(rates);
    }
  }
  void ready(std::size_t i) override {
    crew_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const Place& place = places_[i];
      const Trace::Span span(trace_, Trace::Track::exchange, place.own ? "update" : "table", p.name);
      if (place.own) return place.own->apply(p.gradient);
      if (group_) group_->sum_at_first(p.gradient);
      if (!group_ || group_->first()) {
        place.table->add(p.gradient.view(),
                         {.learning_rate = rates_.learning_rate * p.rate_scale, .momentum = rates_.momentum});
        place.table->get(p.value.view());
      }
      if (group_) group_->take_first(p.value);
    });
  }
  void finish() override { crew_.finish(); }
  [[nodiscard]] std::string take_problem() override {  // errors of table updates are thrown by the calls on the table
    return first_problem(places_, [](const Place& place) { return place.own ? place.own->take_problem() : ""; });
  }

  [[nodiscard]] std::vector<RuleMemory> memory() override {
    crew_.barrier();  // all ranks have completed their adds
    std::vector<RuleMemory> all;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (place.table && crew_.rank() == 0) {
        std::vector<View> arrays;
        for (const Tensor& array : place.copy.arrays) arrays.push_back(array.view());
        place.table->save_to(net_.parameters()[i].value.view(), arrays, place.copy.numbers.values<double>());
      }
      all.push_back(place.own ? place.own->memory() : place.copy);
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {  // one rank reads, so that all ranks get the same values
      if (!places_[i].table) continue;
      crew_.broadcast(net_.parameters()[i].value.view(), 0);
      for (const Tensor& array : all[i].arrays) crew_.broadcast(array.view(), 0);
      if (all[i].numbers.count() > 0) crew_.broadcast(all[i].numbers.view(), 0);
    }
    return all;
  }
  void reload(const std::vector<RuleMemory>& memory) override {
    crew_.barrier();
    for (std::size_t i = 0; crew_.rank() == 0 && i < places_.size(); ++i) {
      if (!places_[i].table) continue;
      std::vector<ConstView> arrays;
      for (const Tensor& array : memory[i].arrays) arrays.push_back(array.view());
      places_[i].table->load_from(net_.parameters()[i].value.view(), arrays, memory[i].numbers.values<double>());
    }
    crew_.barrier();
  }

 private:
  /// A table; or, for a parameter that is split over the ranks, this rank's own rule.
  struct Place {
    std::optional<ArrayTable> table = {};
    std::optional<LocalUpdate> own = {};
    RuleMemory copy = {};
  };
  nn::Net& net_;
  Crew& crew_;
  std::vector<Place> places_;
  std::optional<RankGroup> group_;
  StepRates rates_;
  Trace* trace_ = nullptr;
};

}  // namespace

bool exchanges(const TrainOptions& options, const Session* session) {
  static const std::vector<std::string> known = {"all_reduce", "auto", "none", "replicas", "tables"};
  static const std::vector<std::string> clocks = {"async", "sync"};
  const std::string& name = options.exchange;
  if (std::ranges::find(known, name) == known.end()) throw InvalidArgument(unknown_name("exchange", name, known));
  if (std::ranges::find(clocks, options.clock) == clocks.end()) {
    throw InvalidArgument(unknown_name("clock", options.clock, clocks));
  }
  if (options.clock == "async" && name != "tables") {
    throw InvalidArgument(fmt::format("clock \"async\" is for exchange \"tables\"; received \"{}\"", name));
  }
  if (name == "tables" && options.plan.kind == "spatial") {
    throw InvalidArgument("plan \"spatial\" sums gradients by \"all_reduce\"; received exchange \"tables\"");
  }
  if (session == nullptr && (name == "all_reduce" || name == "tables" || name == "replicas")) {
    throw InvalidArgument(fmt::format("exchange \"{}\" needs a session", name));
  }
  if (options.groups > 0 && name != "replicas" && options.clock != "async") {
    throw InvalidArgument("groups are for exchange \"replicas\", and for \"tables\" with clock \"async\"");
  }
  if (session != nullptr && options.groups > 0 && session->workers() % options.groups != 0) {
    throw InvalidArgument(fmt::format("{} ranks do not make {} equal groups", session->workers(), options.groups));
  }
  if (name == "replicas" && options.plan.kind != "data") {
    throw InvalidArgument(
        fmt::format("exchange \"replicas\" is for plan \"data\"; received \"{}\"", options.plan.kind));
  }
  check_descends(options.updater);
  if (options.sync_every < 1) {
    throw InvalidArgument(fmt::format("sync_every: expected 1 or more; received {}", options.sync_every));
  }
  return name == "tables" || name == "all_reduce" || name == "replicas" ||
         (name == "auto" && session != nullptr && session->size() > 1);
}

std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Layout& layout, Crew& crew) {
  // In deterministic mode every rank has the complete gradient of what it holds.
  if (!crew.shared() || options.plan.deterministic) return std::make_unique<NoExchange>(net, options);
  if (options.exchange == "replicas") return replicas(net, options, crew);
  if (options.exchange == "tables") return std::make_unique<Tables>(net, options, layout, crew);
  return std::make_unique<AllReduce>(net, options, layout, crew);
}

}  // namespace pleiad
