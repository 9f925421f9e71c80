#include "train/exchange.h"

#include <fmt/format.h>
#include <algorithm>

#include <cmath>
#include <optional>

#include "core/text.h"
#include "kernel/elementwise.h"
#include "pleiad/error.h"
#include "train/clip.h"
#include "train/groups.h"

namespace pleiad {
namespace {

OptimizerState state_of(const ParameterRule& rule) { return {.arrays = rule.history(), .numbers = rule.unit()}; }

/// Restores the norm that the parameter must keep after an update.
void keep_norm(const nn::Parameter& p) {
  if (p.norm > 0) kernel::scale_rows(p.value, p.row, p.norm);
}

/// Clips the gradients of the parameters. Throws StateError if their norm is not finite and `check_finite` is set.
void clip(GradientClip& by, const std::vector<std::size_t>& parameters, bool check_finite) {
  if (!by.on()) return;
  const double norm = by.apply(parameters);
  if (check_finite && !std::isfinite(norm))
    throw StateError(fmt::format("the norm of the gradients over all parameters is {}", norm));
}

/// For one process: updates each parameter as soon as its gradient is complete, or while the gradient is computed.
class LocalExchange final : public Exchange {
 public:
  LocalExchange(nn::Net& net, const TrainOptions& options, const Layout& layout, Communicator& comm)
      : net_(net), clip_(net, layout, comm, options.clip_norm), check_finite_(options.check_finite) {
    for (const nn::Parameter& p : net.parameters()) {
      rules_.push_back(std::make_unique<ParameterRule>(p, options.updater));
    }
    const bool fuse = options.fuse && !options.plan.deterministic && !clip_.on();
    for (std::size_t i = 0; fuse && i < rules_.size(); ++i) {
      if (net.parameters()[i].pieces && net.parameters()[i].uses == 1) net.control().set_update(i, rules_[i].get());
    }
  }
  ~LocalExchange() override {
    for (std::size_t i = 0; i < rules_.size(); ++i) net_.control().set_update(i, nullptr);
  }
  void begin(const StepRates& rates, Trace*) override {
    for (const auto& rule : rules_) rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override { clip_.on() ? waiting_.push_back(i) : update(i); }
  void finish() override {
    clip(clip_, waiting_, check_finite_);
    for (const std::size_t i : waiting_) update(i);
    waiting_.clear();
  }
  [[nodiscard]] std::string take_problem() override {
    return first_problem(rules_, [](const auto& rule) { return rule->take_problem(); });
  }
  [[nodiscard]] std::vector<OptimizerState> optimizer_state() override {
    std::vector<OptimizerState> all;
    for (const auto& rule : rules_) all.push_back(state_of(*rule));
    return all;
  }

 private:
  void update(std::size_t i) {
    const Tensor& gradient = net_.parameters()[i].gradient;
    if (!gradient.empty()) rules_[i]->apply_all(gradient);
    rules_[i]->end_step();
    keep_norm(net_.parameters()[i]);
  }

  nn::Net& net_;
  std::vector<std::unique_ptr<ParameterRule>> rules_;
  GradientClip clip_;
  const bool check_finite_;
  std::vector<std::size_t> waiting_;  // parameters whose gradients are complete but not clipped
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
  [[nodiscard]] OptimizerState optimizer_state() const { return state_of(*rule_); }

 private:
  std::unique_ptr<ParameterRule> rule_;
};

/// Sums gradients over the ranks in another thread while backward continues. Every rank then applies the same update.
class AllReduceExchange final : public Exchange {
 public:
  AllReduceExchange(nn::Net& net, const TrainOptions& options, Layout& layout, Communicator& comm)
      : net_(net),
        layout_(layout),
        comm_(comm),
        clip_(net, layout, comm, options.clip_norm),
        check_finite_(options.check_finite) {
    for (const nn::Parameter& p : net.parameters()) {
      updates_.emplace_back(p, options.updater);
      summed_.push_back(layout.part_of(p.name) == nullptr);
    }
  }
  ~AllReduceExchange() override { comm_.drop(); }
  void begin(const StepRates& rates, Trace* trace) override {
    trace_ = trace;
    for (const LocalUpdate& update : updates_) update.begin(rates);
  }
  void ready(std::size_t i) override {
    if (clip_.on()) waiting_.push_back(i);
    comm_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, summed_[i] ? "all_reduce" : "update", p.name);
      if (summed_[i]) {
        comm_.session().all_reduce(p.gradient.view());
      } else {
        layout_.sum_over_holders(p.name, p.gradient);
      }
      if (!clip_.on()) update(i);
    });
  }
  void finish() override {
    comm_.finish();
    clip(clip_, waiting_, check_finite_);
    for (const std::size_t i : waiting_) update(i);
    waiting_.clear();
  }
  [[nodiscard]] std::string take_problem() override { return first_problem(updates_, &LocalUpdate::take_problem); }
  [[nodiscard]] std::vector<OptimizerState> optimizer_state() override {
    std::vector<OptimizerState> all;
    for (const LocalUpdate& update : updates_) all.push_back(update.optimizer_state());
    return all;
  }

 private:
  void update(std::size_t i) {
    updates_[i].apply(net_.parameters()[i].gradient);
    keep_norm(net_.parameters()[i]);
  }

  nn::Net& net_;
  Layout& layout_;
  Communicator& comm_;
  std::vector<LocalUpdate> updates_;
  std::vector<bool> summed_;
  GradientClip clip_;
  const bool check_finite_;
  std::vector<std::size_t> waiting_;  // parameters whose gradients are complete but not clipped
  Trace* trace_ = nullptr;
};

/// Keeps the parameters in tables. With clock "sync", the gradients of a round are summed in rank order and the rule is
/// applied once.
class TableExchange final : public Exchange {
 public:
  TableExchange(nn::Net& net, const TrainOptions& options, const Layout& layout, Communicator& comm)
      : net_(net), comm_(comm) {
    const bool sync = options.clock == TrainClock::sync;
    if (options.groups > 0) group_.emplace(comm, options.groups);
    for (nn::Parameter& p : net.parameters()) {
      if (p.norm > 0) {
        throw InvalidArgument(fmt::format(
            "parameter \"{}\" has the fixed norm {}, which tables do not support; set exchange to \"all_reduce\"",
            p.name, p.norm));
      }
      TableParameter& parameter = parameters_.emplace_back();
      if (layout.part_of(p.name) != nullptr) {
        parameter.own.emplace(p, options.updater);
        continue;
      }
      TableOptions table{.name = p.name,
                         .dtype = p.value.dtype(),
                         .clock = std::string(options.clock.text()),
                         .apply = sync ? "round" : "each",
                         .ordered = sync,
                         .updater = options.updater};
      table.updater.weight_decay *= p.decay_scale;
      parameter.table.emplace(comm.session().create_array(p.value.count(), table, p.value.view()));
      if (comm.rank() < comm.workers()) parameter.table->get(p.value.view());
      const ArrayTable::RuleState state = parameter.table->rule_state();
      for (int k = 0; k < state.arrays; ++k) parameter.copy.arrays.emplace_back(p.value.dtype(), p.value.shape());
      parameter.copy.numbers = Tensor(DType::float64, {state.numbers});
    }
  }
  ~TableExchange() override { comm_.drop(); }
  void begin(const StepRates& rates, Trace* trace) override {
    rates_ = rates;
    trace_ = trace;
    for (const TableParameter& parameter : parameters_) {
      if (parameter.own) parameter.own->begin(rates);
    }
  }
  void ready(std::size_t i) override {
    comm_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const TableParameter& parameter = parameters_[i];
      const Trace::Span span(trace_, Trace::Track::exchange, parameter.own ? "update" : "table", p.name);
      if (parameter.own) return parameter.own->apply(p.gradient);
      if (group_) group_->sum_at_first(p.gradient);
      if (!group_ || group_->first()) {
        parameter.table->add(p.gradient.view(),
                             {.learning_rate = rates_.learning_rate * p.rate_scale, .momentum = rates_.momentum});
        parameter.table->get(p.value.view());
      }
      if (group_) group_->take_first(p.value);
    });
  }
  void finish() override { comm_.finish(); }
  [[nodiscard]] std::string take_problem() override {  // errors of table updates are thrown by the calls on the table
    return first_problem(parameters_, [](const TableParameter& parameter) {
      return parameter.own ? parameter.own->take_problem() : "";
    });
  }

  [[nodiscard]] std::vector<OptimizerState> optimizer_state() override {
    comm_.barrier();  // all ranks have completed their adds
    std::vector<OptimizerState> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const TableParameter& parameter = parameters_[i];
      if (parameter.table && comm_.rank() == 0) {
        std::vector<View> arrays;
        for (const Tensor& array : parameter.copy.arrays) arrays.push_back(array.view());
        parameter.table->save_to(net_.parameters()[i].value.view(), arrays, parameter.copy.numbers.values<double>());
      }
      all.push_back(parameter.own ? parameter.own->optimizer_state() : parameter.copy);
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {  // one rank reads, so that all ranks get the same values
      if (!parameters_[i].table) continue;
      comm_.broadcast(net_.parameters()[i].value.view(), 0);
      for (const Tensor& array : all[i].arrays) comm_.broadcast(array.view(), 0);
      if (all[i].numbers.count() > 0) comm_.broadcast(all[i].numbers.view(), 0);
    }
    return all;
  }
  void reload(const std::vector<OptimizerState>& memory) override {
    comm_.barrier();
    for (std::size_t i = 0; comm_.rank() == 0 && i < parameters_.size(); ++i) {
      if (!parameters_[i].table) continue;
      std::vector<ConstView> arrays;
      for (const Tensor& array : memory[i].arrays) arrays.push_back(array.view());
      parameters_[i].table->load_from(net_.parameters()[i].value.view(), arrays, memory[i].numbers.values<double>());
    }
    comm_.barrier();
  }

 private:
  /// A table; or, for a parameter that is split over the ranks, this rank's own rule.
  struct TableParameter {
    std::optional<ArrayTable> table = {};
    std::optional<LocalUpdate> own = {};
    OptimizerState copy = {};
  };
  nn::Net& net_;
  Communicator& comm_;
  std::vector<TableParameter> parameters_;
  std::optional<RankGroup> group_;
  StepRates rates_;
  Trace* trace_ = nullptr;
};

}  // namespace

bool exchanges(const TrainOptions& options, const Session* session) {
  const ExchangeKind kind = options.exchange;
  const bool given = kind == ExchangeKind::all_reduce || kind == ExchangeKind::replicas || kind == ExchangeKind::tables;
  if (options.clock == TrainClock::async && kind != ExchangeKind::tables) {
    throw InvalidArgument(fmt::format("clock \"async\" requires exchange \"tables\"; received \"{}\"", name_of(kind)));
  }
  if (kind == ExchangeKind::tables && options.plan.kind == PlanKind::spatial) {
    throw InvalidArgument("plan \"spatial\" requires exchange \"all_reduce\"; received \"tables\"");
  }
  if (session == nullptr && given) {
    throw InvalidArgument(fmt::format("exchange \"{}\" needs a session", name_of(kind)));
  }
  if (options.groups > 0 && kind != ExchangeKind::replicas && options.clock != TrainClock::async) {
    throw InvalidArgument("groups require exchange \"replicas\", or \"tables\" with clock \"async\"");
  }
  if (session != nullptr && options.groups > 0 && session->workers() % options.groups != 0) {
    throw InvalidArgument(
        fmt::format("{} ranks cannot be divided into {} equal groups", session->workers(), options.groups));
  }
  if (kind == ExchangeKind::replicas && options.plan.kind != PlanKind::data) {
    throw InvalidArgument(
        fmt::format("exchange \"replicas\" requires plan \"data\"; received \"{}\"", options.plan.kind.text()));
  }
  check_descends(options.updater);
  if (!(options.clip_norm >= 0) || std::isinf(options.clip_norm)) {
    throw InvalidArgument(
        fmt::format("clip_norm: expected 0 or a finite norm above 0; received {}", options.clip_norm));
  }
  if (options.clip_norm > 0 && (kind == ExchangeKind::tables || kind == ExchangeKind::replicas)) {
    throw InvalidArgument(
        fmt::format("clip_norm needs the whole gradient on each rank, so it requires exchange \"all_reduce\"; received "
                    "\"{}\"",
                    name_of(kind)));
  }
  if (options.clip_norm > 0 && options.plan.deterministic && session != nullptr && session->size() > 1) {
    throw InvalidArgument("clip_norm on several ranks does not work with deterministic");
  }
  if (options.sync_every < 1) {
    throw InvalidArgument(fmt::format("sync_every: expected 1 or more; received {}", options.sync_every));
  }
  return given || (kind == ExchangeKind::automatic && session != nullptr && session->size() > 1);
}

std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Layout& layout, Communicator& comm) {
  // In deterministic mode every rank has the complete gradient of what it holds.
  if (!comm.shared() || options.plan.deterministic) return std::make_unique<LocalExchange>(net, options, layout, comm);
  if (options.exchange == ExchangeKind::replicas) return replicas(net, options, comm);
  if (options.exchange == ExchangeKind::tables) return std::make_unique<TableExchange>(net, options, layout, comm);
  return std::make_unique<AllReduceExchange>(net, options, layout, comm);
}

}  // namespace pleiad
