#include "train/exchange.h"

#include <fmt/format.h>

#include "core/text.h"
#include "train/worker.h"

namespace pleiad {
namespace {

std::vector<std::unique_ptr<ParameterRule>> make_rules(nn::Net& net, const UpdaterOptions& options) {
  std::vector<std::unique_ptr<ParameterRule>> rules;
  for (const nn::Parameter& p : net.parameters()) rules.push_back(std::make_unique<ParameterRule>(p, options));
  return rules;
}

/// All ranks go on with what rank 0 has: untrained numbers and the seed.
void agree(nn::Net& net, Session& session) {
  for (const auto& [name, state] : net.states()) session.broadcast(state.view(), 0);
  std::vector<std::int64_t> seed = {static_cast<std::int64_t>(net.options().seed)};
  session.broadcast(seed, 0);
  net.set_seed(static_cast<std::uint64_t>(seed[0]));
  net.set_gradient_scale(1.0 / session.size());
}

/// One process: the update follows the gradient at once, or goes with it.
class NoExchange final : public Exchange {
 public:
  NoExchange(nn::Net& net, const TrainOptions& options) : net_(net), rules_(make_rules(net, options.updater)) {
    for (std::size_t i = 0; options.fuse && i < rules_.size(); ++i) {
      if (net.parameters()[i].pieces && net.parameters()[i].uses == 1) net.set_update(i, rules_[i].get());
    }
  }
  ~NoExchange() override {
    for (std::size_t i = 0; i < rules_.size(); ++i) net_.set_update(i, nullptr);
  }
  void begin(const StepRates& rates) override {
    for (const auto& rule : rules_) rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override {
    const Tensor& gradient = net_.parameters()[i].gradient;
    if (!gradient.empty()) rules_[i]->apply_all(gradient);
    rules_[i]->end_step();
  }
  void finish() override {}
  void sum(std::vector<double>&) override {}
  [[nodiscard]] std::vector<std::unique_ptr<ParameterRule>>* rules() override { return &rules_; }

 private:
  nn::Net& net_;
  std::vector<std::unique_ptr<ParameterRule>> rules_;
};

/// Gradients are summed over the ranks by another thread while backward goes on; each rank then makes the same update.
class AllReduce final : public Exchange {
 public:
  AllReduce(nn::Net& net, const TrainOptions& options, Session& session)
      : net_(net), session_(session), rules_(make_rules(net, options.updater)) {
    for (nn::Parameter& p : net.parameters()) session.broadcast(p.value.view(), 0);
    agree(net, session);
  }
  ~AllReduce() override { net_.set_gradient_scale(1); }
  void begin(const StepRates& rates) override {
    for (const auto& rule : rules_) rule->begin_step(rates.learning_rate, rates.momentum);
  }
  void ready(std::size_t i) override {
    worker_.post([this, i] {
      const Tensor& gradient = net_.parameters()[i].gradient;
      session_.all_reduce(gradient.view());
      rules_[i]->apply_all(gradient);
      rules_[i]->end_step();
    });
  }
  void finish() override { worker_.wait(); }
  void sum(std::vector<double>& numbers) override { session_.all_reduce(numbers); }
  [[nodiscard]] std::vector<std::unique_ptr<ParameterRule>>* rules() override { return &rules_; }

 private:
  nn::Net& net_;
  Session& session_;
  std::vector<std::unique_ptr<ParameterRule>> rules_;
  Worker worker_;
};

/// Parameters live in synchronous tables; a round's gradients are summed in rank order and the rule runs once.
class Tables final : public Exchange {
 public:
  Tables(nn::Net& net, const TrainOptions& options, Session& session) : net_(net), session_(session) {
    for (nn::Parameter& p : net.parameters()) {
      TableOptions table{.name = p.name,
                         .dtype = p.value.dtype(),
                         .clock = "sync",
                         .apply = "round",
                         .ordered = true,
                         .updater = options.updater};
      table.updater.weight_decay *= p.decay_scale;
      tables_.push_back(session.create_array(p.value.count(), table, p.value.view()));
      tables_.back().get(p.value.view());  // rank 0's
    }
    agree(net, session);
  }
  ~Tables() override { net_.set_gradient_scale(1); }
  void begin(const StepRates& rates) override { rates_ = rates; }
  void ready(std::size_t i) override {
    worker_.post([this, i] {
      const nn::Parameter& p = net_.parameters()[i];
      tables_[i].add(p.gradient.view(),
                     {.learning_rate = rates_.learning_rate * p.rate_scale, .momentum = rates_.momentum});
      tables_[i].get(p.value.view());
    });
  }
  void finish() override { worker_.wait(); }
  void sum(std::vector<double>& numbers) override { session_.all_reduce(numbers); }
  void reload() override {
    throw StateError("a trainer whose parameters live in tables cannot load a state; make it with the net that has it");
  }

 private:
  nn::Net& net_;
  Session& session_;
  std::vector<ArrayTable> tables_;
  StepRates rates_;
  Worker worker_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Session* session) {
  static const std::vector<std::string> known = {"all_reduce", "auto", "none", "tables"};
  const std::string& name = options.exchange;
  if (std::ranges::find(known, name) == known.end()) throw InvalidArgument(unknown_name("exchange", name, known));
  if (session == nullptr && (name == "all_reduce" || name == "tables")) {
    throw InvalidArgument(fmt::format("exchange \"{}\" needs a session", name));
  }
  if (name == "tables") return std::make_unique<Tables>(net, options, *session);
  if (name == "all_reduce" || (name == "auto" && session != nullptr && session->size() > 1)) {
    return std::make_unique<AllReduce>(net, options, *session);
  }
  return std::make_unique<NoExchange>(net, options);
}

}  // namespace pleiad
