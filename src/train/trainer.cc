#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "core/process.h"
#include "core/threads.h"
#include "pleiad/error.h"
#include "pleiad/train.h"
#include "train/exchange.h"
#include "train/interrupt.h"

namespace pleiad {
namespace {

/// Averages of metrics.
class Mean {
 public:
  void add(const std::vector<std::pair<std::string, double>>& metrics) {
    if (names_.empty()) {
      for (const auto& [name, value] : metrics) names_.push_back(name);
      sums_.assign(names_.size() + 1, 0);
    }
    for (std::size_t i = 0; i < metrics.size(); ++i) sums_[i] += metrics[i].second;
    sums_.back() += 1;
  }
  /// Over all ranks; empties it.
  std::vector<std::pair<std::string, double>> take(Exchange& exchange) {
    std::vector<std::pair<std::string, double>> means;
    if (names_.empty()) return means;
    exchange.sum(sums_);
    for (std::size_t i = 0; i < names_.size(); ++i) means.emplace_back(names_[i], sums_[i] / sums_.back());
    names_.clear();
    return means;
  }

 private:
  std::vector<std::string> names_;
  std::vector<double> sums_;  // the last one counts
};

/// The cores of this host are shared by its ranks; ranks that are threads have one each. OMP_NUM_THREADS wins.
void share_cores(const Session& session) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr || session.size() == 1) return;
  int neighbours = 0;
  for (int rank = 0; rank < session.size(); ++rank) {
    neighbours += session.host_of(rank) == session.host_of(session.rank()) ? 1 : 0;
  }
  set_compute_threads(session.engine() == "inproc" ? 1 : usable_cores() / neighbours);
}

bool due(std::int64_t frequency, std::int64_t step) { return frequency > 0 && step > 0 && step % frequency == 0; }

}  // namespace

struct Trainer::Inside {
  nn::Net& net;
  TrainOptions options;
  int rank = 0;
  int ranks = 1;
  std::unique_ptr<Exchange> exchange;
  Tensor step{DType::int64, {1}};  // saved with the rest
  Tensor seed{DType::int64, {1}};
  std::function<void(std::size_t)> ready;

  Inside(nn::Net& n, TrainOptions o, Session* session) : net(n), options(std::move(o)) {
    if (session != nullptr) share_cores(*session);
    if (session != nullptr && options.exchange != "none") {
      rank = session->rank();
      ranks = session->size();
    }
    if (options.batch < 1 || options.batch % ranks != 0) {
      throw InvalidArgument(fmt::format(
          "the batch of all ranks together is a multiple of their number, {}; received {}", ranks, options.batch));
    }
    if (!options.schedule.type.empty()) check(options.schedule);
    if (!options.momentum.type.empty()) check(options.momentum);
    exchange = make_exchange(net, options, session);
    net.prepare(options.batch / ranks);
    seed.values<std::int64_t>()[0] = static_cast<std::int64_t>(net.options().seed);
    ready = [this](std::size_t parameter) { exchange->ready(parameter); };
  }

  [[nodiscard]] std::int64_t now() const { return step.values<std::int64_t>()[0]; }
  [[nodiscard]] std::int64_t local() const { return options.batch / ranks; }
  [[nodiscard]] StepRates rates() const {
    return {.learning_rate =
                options.schedule.type.empty() ? options.updater.learning_rate : rate_at(options.schedule, now()),
            .momentum = options.momentum.type.empty() ? options.updater.momentum : rate_at(options.momentum, now())};
  }

  double train() {
    net.forward(nn::Phase::train, now(), rank * local());
    const double loss = net.loss();
    if (options.check_finite && !std::isfinite(loss)) {
      throw StateError(
          fmt::format("step {}: the loss is {}; the first layer whose output is no finite number is \"{}\"", now(),
                      loss, net.first_not_finite()));
    }
    exchange->begin(rates());
    net.backward(ready);
    exchange->finish();
    ++step.values<std::int64_t>()[0];
    return loss;
  }

  /// True where any rank wants it.
  bool any(bool mine) {
    if (ranks == 1) return mine;
    std::vector<double> votes = {mine ? 1.0 : 0.0};
    exchange->sum(votes);
    return votes[0] > 0;
  }
};

Trainer::Trainer(nn::Net& net, TrainOptions options)
    : inside_(std::make_unique<Inside>(net, std::move(options), nullptr)) {}
Trainer::Trainer(nn::Net& net, TrainOptions options, Session& session)
    : inside_(std::make_unique<Inside>(net, std::move(options), &session)) {}
Trainer::~Trainer() = default;

double Trainer::step() { return inside_->train(); }
std::int64_t Trainer::current_step() const { return inside_->now(); }
std::int64_t Trainer::local_batch() const { return inside_->local(); }

Report Trainer::evaluate(Samples& samples, nn::Phase phase, std::int64_t batches) {
  Inside& in = *inside_;
  const std::int64_t whole = samples.count() / in.options.batch;
  if (whole == 0) {
    throw InvalidArgument(fmt::format("{} samples are less than one batch of {}", samples.count(), in.options.batch));
  }
  if (batches <= 0 || batches > whole) batches = whole;
  const std::int64_t start = now_ns();
  Mean mean;
  for (std::int64_t b = 0; b < batches; ++b) {
    const std::int64_t first = in.rank * in.local();
    samples.fill(in.net, b * in.options.batch + first, in.local());
    in.net.forward(phase, in.now(), first);
    mean.add(in.net.metrics());
  }
  Report report{.step = in.now(), .phase = phase, .metrics = mean.take(*in.exchange)};
  report.samples_per_second =
      static_cast<double>(batches * in.options.batch) * 1e9 / static_cast<double>(now_ns() - start);
  return report;
}

bool Trainer::run(Samples& train, Samples* validate, Samples* test, const TrainCalls& calls) {
  Inside& in = *inside_;
  const TrainOptions& o = in.options;
  const Interrupt interrupt;
  const auto tell = [&](const Report& report) { return !calls.report || calls.report(report); };
  Mean mean;
  std::int64_t shown_at = in.now();
  std::int64_t shown_ns = now_ns();
  while (in.now() < o.steps) {
    bool go_on = true;
    if (validate != nullptr && due(o.validate, in.now())) {
      go_on &= tell(evaluate(*validate, nn::Phase::validate, o.validate_batches));
    }
    if (test != nullptr && due(o.test, in.now())) go_on &= tell(evaluate(*test, nn::Phase::test, o.test_batches));
    if (calls.checkpoint && due(o.checkpoint, in.now())) go_on &= calls.checkpoint(in.now());
    if (go_on) {
      train.fill(in.net, in.now() * o.batch + in.rank * in.local(), in.local());
      (void)in.train();
      if (o.display > 0) mean.add(in.net.metrics());
      if (due(o.display, in.now())) {
        const std::int64_t ns = now_ns();
        const double steps = static_cast<double>(in.now() - shown_at);
        go_on &= tell(
            {.step = in.now(),
             .phase = nn::Phase::train,
             .metrics = mean.take(*in.exchange),
             .samples_per_second = steps * static_cast<double>(o.batch) * 1e9 / static_cast<double>(ns - shown_ns)});
        shown_at = in.now();
        shown_ns = ns;
      }
      if (calls.stop && calls.stop(in.now())) go_on = false;
    }
    if (in.any(!go_on || interrupt.raised())) return false;
  }
  if (test != nullptr && o.test > 0) (void)tell(evaluate(*test, nn::Phase::test, o.test_batches));
  if (calls.checkpoint && o.checkpoint > 0) (void)calls.checkpoint(in.now());
  return true;
}

std::vector<std::pair<std::string, Tensor>> Trainer::state() {
  Inside& in = *inside_;
  std::vector<std::pair<std::string, Tensor>> all = {{"step", in.step}, {"seed", in.seed}};
  for (const nn::Parameter& p : in.net.parameters()) all.emplace_back(p.name, p.value);
  for (const auto& [name, tensor] : in.net.states()) all.emplace_back(name, tensor);
  if (auto* rules = in.exchange->rules()) {
    for (std::size_t i = 0; i < rules->size(); ++i) {
      const std::string prefix = "updater/" + in.net.parameters()[i].name;
      const auto& history = (*rules)[i]->history();
      for (std::size_t k = 0; k < history.size(); ++k) all.emplace_back(fmt::format("{}/{}", prefix, k), history[k]);
      if ((*rules)[i]->unit().count() > 0) all.emplace_back(prefix + "/unit", (*rules)[i]->unit());
    }
  }
  return all;
}

void Trainer::load_state(const std::vector<std::pair<std::string, Tensor>>& from) {
  inside_->exchange->reload();
  const auto find = [&](const std::string& name, const Tensor& own) -> Tensor {
    for (const auto& [other, tensor] : from) {
      if (other != name) continue;
      if (tensor.dtype() != own.dtype() || tensor.shape() != own.shape()) {
        throw InvalidArgument(fmt::format("state: \"{}\" is {} of shape {}; received {} of shape {}", name,
                                          name_of(own.dtype()), own.shape().text(), name_of(tensor.dtype()),
                                          tensor.shape().text()));
      }
      return tensor;
    }
    throw InvalidArgument(fmt::format("state: \"{}\" is missing among {} tensors", name, from.size()));
  };
  std::vector<std::pair<Tensor, Tensor>> copies;  // all are found before any is changed
  for (const auto& [name, own] : state()) copies.emplace_back(own, find(name, own));
  for (const auto& [to, tensor] : copies) to.copy_from(tensor);
  inside_->net.set_seed(static_cast<std::uint64_t>(inside_->seed.values<std::int64_t>()[0]));
}

}  // namespace pleiad
