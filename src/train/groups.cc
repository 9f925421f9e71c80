#include "train/groups.h"

#include "kernel/elementwise.h"

namespace pleiad {
namespace {

constexpr std::uint32_t kTag = 0x67726f75;  // tag of messages within a group

class Replicas final : public Exchange {
 public:
  Replicas(nn::Net& net, const TrainOptions& options, Crew& crew)
      : net_(net), crew_(crew), group_(crew, std::max(options.groups, 1)), every_(options.sync_every) {
    for (const nn::Parameter& p : net.parameters()) {
      Place& place = places_.emplace_back();
      place.rule = std::make_unique<ParameterRule>(p, options.updater);
      place.table = std::make_unique<ArrayTable>(crew.session().create_array(
          p.value.count(), {.name = p.name, .dtype = p.value.dtype(), .updater = {.rule = "sum"}}, p.value.view()));
      place.last = p.value.clone();
    }
  }
  ~Replicas() override { crew_.drop(); }

  void begin(const StepRates& rates, Trace* trace) override {
    trace_ = trace;
    for (const Place& place : places_) place.rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override {
    crew_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, "update", p.name);
      group_.sum(p.gradient);
      places_[i].rule->apply_all(p.gradient);
      places_[i].rule->end_step();
    });
  }
  void finish() override {
    if (++steps_ % every_ == 0) crew_.post([this] { meet(); });
    crew_.finish();
  }
  [[nodiscard]] std::string take_problem() override {
    return first_problem(places_, [](const Place& place) { return place.rule->take_problem(); });
  }

  [[nodiscard]] std::vector<RuleMemory> memory() override {
    meet();
    crew_.barrier();  // all groups have added their changes
    std::vector<RuleMemory> all;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      place.table->get(net_.parameters()[i].value.view());
      place.last.copy_from(net_.parameters()[i].value);
      all.push_back({.arrays = place.rule->history(), .numbers = place.rule->unit()});
    }
    crew_.barrier();
    return all;
  }
  void reload(const std::vector<RuleMemory>& /*memory*/) override {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Tensor& value = net_.parameters()[i].value;
      crew_.run([&] { places_[i].table->set(value.view(), 0); });
      places_[i].last.copy_from(value);
    }
  }

 private:
  struct Place {
    std::unique_ptr<ParameterRule> rule;
    std::unique_ptr<ArrayTable> table;
    Tensor last;  // the table's values when this group last exchanged with it
  };

  void meet() {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const nn::Parameter& p = net_.parameters()[i];
      const Trace::Span span(trace_, Trace::Track::exchange, "table", p.name);
      if (group_.first()) places_[i].table->exchange(p.value.view(), places_[i].last.view());
      group_.take_first(p.value);
    }
  }

  nn::Net& net_;
  Crew& crew_;
  RankGroup group_;
  const std::int64_t every_;
  std::int64_t steps_ = 0;
  std::vector<Place> places_;
  Trace* trace_ = nullptr;
};

}  // namespace

RankGroup::RankGroup(Crew& crew, int groups)
    : crew_(crew),
      first_(crew.rank() / (crew.workers() / groups) * (crew.workers() / groups)),
      size_(crew.workers() / groups) {}

void RankGroup::sum_at_first(const Tensor& numbers) {
  if (size_ == 1) return;
  if (!first()) return crew_.session().send(first_, kTag, numbers.view());
  if (other_.count() < numbers.count() || other_.dtype() != numbers.dtype()) {
    other_ = Tensor(numbers.dtype(), {numbers.count()});
  }
  const Tensor came(numbers.dtype(), numbers.shape(), other_.raw());
  for (int rank = first_ + 1; rank < first_ + size_; ++rank) {
    crew_.session().receive(rank, kTag, came.view());
    kernel::add(numbers, came);
  }
}

void RankGroup::take_first(const Tensor& numbers) {
  if (size_ == 1) return;
  if (!first()) return crew_.session().receive(first_, kTag, numbers.view());
  for (int rank = first_ + 1; rank < first_ + size_; ++rank) crew_.session().send(rank, kTag, numbers.view());
}

void RankGroup::sum(const Tensor& numbers) {
  sum_at_first(numbers);
  take_first(numbers);
}

std::unique_ptr<Exchange> replicas(nn::Net& net, const TrainOptions& options, Crew& crew) {
  return std::make_unique<Replicas>(net, options, crew);
}

}  // namespace pleiad
