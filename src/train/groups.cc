#include "train/groups.h"

#include "kernel/elementwise.h"

namespace pleiad {
namespace {

constexpr std::uint32_t kTag = 0x67726f75;  // tag of messages within a group

class ReplicaExchange final : public Exchange {
 public:
  ReplicaExchange(nn::Net& net, const TrainOptions& options, Communicator& comm)
      : net_(net), comm_(comm), group_(comm, std::max(options.groups, 1)), every_(options.sync_every) {
    for (const nn::Parameter& p : net.parameters()) {
      ReplicaParameter& parameter = parameters_.emplace_back();
      parameter.rule = std::make_unique<ParameterRule>(p, options.updater);
      parameter.table = std::make_unique<ArrayTable>(comm.session().create_array(
          p.value.count(), {.name = p.name, .dtype = p.value.dtype(), .updater = {.rule = "sum"}}, p.value.view()));
      parameter.last = p.value.clone();
    }
  }
  ~ReplicaExchange() override { comm_.drop(); }

  void begin(const StepRates& rates, Trace* trace) override {
    trace_ = trace;
    for (const ReplicaParameter& parameter : parameters_)
      parameter.rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override {
    comm_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, "update", p.name);
      group_.sum(p.gradient);
      parameters_[i].rule->apply_all(p.gradient);
      parameters_[i].rule->end_step();
    });
  }
  void finish() override {
    if (++steps_ % every_ == 0) comm_.post([this] { meet(); });
    comm_.finish();
  }
  [[nodiscard]] std::string take_problem() override {
    return first_problem(parameters_, [](const ReplicaParameter& parameter) { return parameter.rule->take_problem(); });
  }

  [[nodiscard]] std::vector<OptimizerState> optimizer_state() override {
    meet();
    comm_.barrier();  // all groups have added their changes
    std::vector<OptimizerState> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ReplicaParameter& parameter = parameters_[i];
      parameter.table->get(net_.parameters()[i].value.view());
      parameter.last.copy_from(net_.parameters()[i].value);
      all.push_back({.arrays = parameter.rule->history(), .numbers = parameter.rule->unit()});
    }
    comm_.barrier();
    return all;
  }
  void reload(const std::vector<OptimizerState>& /*memory*/) override {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor& value = net_.parameters()[i].value;
      comm_.run([&] { parameters_[i].table->set(value.view(), 0); });
      parameters_[i].last.copy_from(value);
    }
  }

 private:
  struct ReplicaParameter {
    std::unique_ptr<ParameterRule> rule;
    std::unique_ptr<ArrayTable> table;
    Tensor last;  // the table's values when this group last exchanged with it
  };

  void meet() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, "table", p.name);
      if (group_.first()) parameters_[i].table->exchange(p.value.view(), parameters_[i].last.view());
      group_.take_first(p.value);
    }
  }

  nn::Net& net_;
  Communicator& comm_;
  RankGroup group_;
  const std::int64_t every_;
  std::int64_t steps_ = 0;
  std::vector<ReplicaParameter> parameters_;
  Trace* trace_ = nullptr;
};

}  // namespace

RankGroup::RankGroup(Communicator& comm, int groups)
    : comm_(comm),
      first_(comm.rank() / (comm.workers() / groups) * (comm.workers() / groups)),
      size_(comm.workers() / groups) {}

void RankGroup::sum_at_first(const Tensor& numbers) {
  if (size_ == 1) return;
  if (!first()) return comm_.session().send(first_, kTag, numbers.view());
  if (other_.count() < numbers.count() || other_.dtype() != numbers.dtype()) {
    other_ = Tensor(numbers.dtype(), {numbers.count()});
  }
  const Tensor came(numbers.dtype(), numbers.shape(), other_.raw());
  for (int rank = first_ + 1; rank < first_ + size_; ++rank) {
    comm_.session().receive(rank, kTag, came.view());
    kernel::add(numbers, came);
  }
}

void RankGroup::take_first(const Tensor& numbers) {
  if (size_ == 1) return;
  if (!first()) return comm_.session().receive(first_, kTag, numbers.view());
  for (int rank = first_ + 1; rank < first_ + size_; ++rank) comm_.session().send(rank, kTag, numbers.view());
}

void RankGroup::sum(const Tensor& numbers) {
  sum_at_first(numbers);
  take_first(numbers);
}

std::unique_ptr<Exchange> replicas(nn::Net& net, const TrainOptions& options, Communicator& comm) {
  return std::make_unique<ReplicaExchange>(net, options, comm);
}

}  // namespace pleiad
