#include "pleiad/train.h"

#include <fmt/format.h>
#include <algorithm>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/process.h"
#include "core/text.h"
#include "core/threads.h"
#include "pleiad/error.h"
#include "train/metrics_mean.h"
#include "train/named_values.h"
#include "train/trainer_impl.h"
#include "updater/user_rule.h"

namespace pleiad {
namespace {

/// Divides the cores of this host among its ranks; ranks that are threads get one each. OMP_NUM_THREADS takes
/// precedence.
void share_cores(const Session& session) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr || session.size() == 1) return;
  int neighbours = 0;
  for (int rank = 0; rank < session.size(); ++rank) {
    neighbours += session.ranks().host_of(rank) == session.ranks().host_of(session.rank()) ? 1 : 0;
  }
  set_compute_threads(session.engine() == "inproc" ? 1 : usable_cores() / neighbours);
}

/// Gives all ranks the parameters, states and seed of rank 0.
void broadcast_initial_state(nn::Net& net, Communicator& comm) {
  for (const nn::Parameter& p : net.parameters()) comm.broadcast(p.value.view(), 0);
  for (const auto& [name, state] : net.states()) comm.broadcast(state.view(), 0);
  std::vector<std::int64_t> seed = {static_cast<std::int64_t>(net.options().seed)};
  comm.broadcast(seed, 0);
  net.control().set_seed(static_cast<std::uint64_t>(seed[0]));
}

/// Collective. Returns the text of the first rank whose text is not empty, so that all ranks report the same error.
std::string first_error(Communicator& comm, const std::string& mine) {
  const std::vector<std::string> all = comm.gather_texts(mine);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  return fmt::format("on rank {} {}", first - all.begin(), *first);
}

/// Throws InvalidArgument if ranks that only serve cannot take part.
void check_servers(const nn::Net& net, const TrainOptions& options, const Communicator& comm) {
  const int servers = comm.size() - comm.workers();
  if (servers == 0) return;
  if (options.exchange != ExchangeKind::tables || options.plan.kind != PlanKind::data) {
    throw InvalidArgument(
        fmt::format("{} of {} ranks only serve, which requires exchange \"tables\" and plan \"data\"; "
                    "received \"{}\" and \"{}\"",
                    servers, comm.size(), options.exchange.text(), options.plan.kind.text()));
  }
  for (const std::string& name : net.layer_names()) {
    if (net.layer(name).capabilities().coupled != nullptr) {
      throw InvalidArgument(
          fmt::format("layer \"{}\" sums over the batch of all ranks, of which {} only serve", name, servers));
    }
  }
}

}  // namespace

Trainer::Impl::Impl(nn::Net& n, TrainOptions o, Session* session)
    : net(n), options(std::move(o)), current_batch(options.batch), trace(options.trace, options.trace_steps) {
  if (session != nullptr) share_cores(*session);
  comm = std::make_shared<Communicator>(exchanges(options, session) ? session : nullptr);
  if (!options.schedule.type.empty()) check(options.schedule);
  if (!options.momentum.type.empty()) check(options.momentum);
  check_servers(net, options, *comm);
  if (comm->shared()) {
    expect_same(comm->session(), "trainer", named_values(options));
    expect_same(comm->session(), fmt::format("net \"{}\"", net.options().name), named_values(net));
  }
  const Plan plan = make_plan(net, options.plan, ranks(), options.batch);
  broadcast_initial_state(net, *comm);
  shares = plan.shares();
  layout = Layout(net, plan, comm);
  exchange = make_exchange(net, options, layout, *comm);
  own_rule = find_user_rule(options.updater.rule) != nullptr;
  net.control().set_gradient_scale(plan.deterministic ? 1 : gradient_scale());
  net.control().set_deterministic(plan.deterministic);
  if (ranks() > 1 && synchronous()) net.control().set_parts(comm.get());
  net.prepare(local());
  schedule_state = Tensor(DType::float64, {options.schedule_state});
  seed.values<std::int64_t>()[0] = static_cast<std::int64_t>(net.options().seed);
  ready = [this](std::size_t parameter) {
    if (idle()) net.parameters()[parameter].gradient.fill(0);
    exchange->ready(parameter);
    if (net.parameters()[parameter].apart) exchange->finish();  // the memory of its gradient is reused
  };
}

Trainer::Impl::~Impl() {
  net.control().set_gradient_scale(1);
  net.control().set_placeholder(false);
  net.control().set_deterministic(false);
  net.control().set_parts(nullptr);
  net.control().set_trace(nullptr);
}

StepRates Trainer::Impl::rates() const {
  return {
      .learning_rate = options.schedule.type.empty() ? options.updater.learning_rate : rate_at(options.schedule, now()),
      .momentum = options.momentum.type.empty() ? options.updater.momentum : rate_at(options.momentum, now())};
}

double Trainer::Impl::gradient_scale() const {
  const int groups = std::max(options.groups, 1);
  if (shares != ranks() || serves())
    return static_cast<double>(groups) / ranks();  // ranks that split images share samples
  return static_cast<double>(groups) * static_cast<double>(rows().size()) / static_cast<double>(current_batch);
}

std::string Trainer::Impl::where_not_finite(double loss) const {
  return fmt::format("the loss is {}; the first layer, in forward order, with an output that is not finite is \"{}\"",
                     loss, nn::first_not_finite(net));
}

void Trainer::Impl::check_loss(double loss) {
  const bool bad = !std::isfinite(loss);
  if (!options.check_finite) {
    if (bad && !reported_not_finite) {
      fmt::print(stderr, "pleiad: step {}: {}; training continues because check_finite is off\n", now(),
                 where_not_finite(loss));
      reported_not_finite = true;
    }
    return;
  }
  if (!(synchronous() ? comm->any(bad) : bad)) return;
  std::string where = bad ? where_not_finite(loss) : "";
  if (synchronous() && comm->size() > 1) where = first_error(*comm, where);
  throw StateError(fmt::format("step {}: {}", now(), where));
}

void Trainer::Impl::check_rule() {
  if (!own_rule) return;
  std::string problem = exchange->take_problem();
  if (!(synchronous() ? comm->any(!problem.empty()) : !problem.empty())) return;
  if (synchronous() && comm->size() > 1) problem = first_error(*comm, problem);
  throw RuleError(fmt::format("step {}: {}", now(), problem));
}

double Trainer::Impl::train() {
  if (serves()) {
    check_loss(0);
    check_rule();
    ++step.values<std::int64_t>()[0];
    place.values<std::int64_t>()[0] += current_batch;
    return 0;
  }
  Trace* const tracer = trace.at(now());
  net.control().set_trace(tracer);
  net.control().set_placeholder(idle());
  net.forward(nn::Phase::train, now(), rows().begin);
  const double loss = idle() ? 0 : net.loss();
  check_loss(loss);
  exchange->begin(rates(), tracer);
  net.backward(ready);
  exchange->finish();
  net.control().set_trace(nullptr);
  net.control().set_placeholder(false);
  check_rule();
  ++step.values<std::int64_t>()[0];
  place.values<std::int64_t>()[0] += current_batch;
  return loss;
}

Trainer::Trainer(nn::Net& net, TrainOptions options)
    : impl_(std::make_unique<Impl>(net, std::move(options), nullptr)) {}
Trainer::Trainer(nn::Net& net, TrainOptions options, Session& session)
    : impl_(std::make_unique<Impl>(net, std::move(options), &session)) {}
Trainer::~Trainer() = default;

double Trainer::step() { return impl_->train(); }
void Trainer::set_schedule(nn::Schedule schedule) {
  check(schedule);
  impl_->options.schedule = std::move(schedule);
}
void Trainer::set_momentum(nn::Schedule momentum) {
  check(momentum);
  impl_->options.momentum = std::move(momentum);
}
Tensor Trainer::schedule_state() const { return impl_->schedule_state; }
std::int64_t Trainer::current_step() const { return impl_->now(); }
std::int64_t Trainer::current_place() const { return impl_->place.values<std::int64_t>()[0]; }
std::int64_t Trainer::local_batch() const { return impl_->local(); }
std::int64_t Trainer::batch() const { return impl_->options.batch; }
int Trainer::share() const { return impl_->share(); }
int Trainer::shares() const { return impl_->shares; }

std::string Trainer::where_not_finite() const {
  const double loss = impl_->net.loss();
  return std::isfinite(loss) ? "" : impl_->where_not_finite(loss);
}

void Trainer::expect_finite(const std::string& where) {
  Impl& in = *impl_;
  if (!in.comm->any(!where.empty())) return;
  const std::string first = in.comm->size() > 1 ? first_error(*in.comm, where) : where;
  const std::string text = fmt::format("evaluation at step {}: {}", in.now(), first);
  if (in.options.check_finite) throw StateError(text);
  if (in.rank() == 0) fmt::print(stderr, "pleiad: {}\n", text);
}

Report Trainer::evaluate(Samples& samples, nn::Phase phase, std::int64_t batches, std::int64_t batch) {
  Impl& in = *impl_;
  if (batch <= 0) {
    batch = in.options.batch;
  } else if (batch < in.shares) {
    throw InvalidArgument(fmt::format("batch size {} is less than the {} ranks", batch, in.shares));
  } else if (batch % in.shares != 0 && !in.uneven()) {
    throw InvalidArgument(
        fmt::format("batch size {} is not divisible by the {} ranks, which split layers", batch, in.shares));
  }
  const Interval part = in.part_of_batch(batch);
  const std::int64_t whole = samples.count() / batch;
  if (whole == 0) {
    throw InvalidArgument(fmt::format("{} samples are less than one batch of {}", samples.count(), batch));
  }
  in.net.prepare(part.size());
  if (batches <= 0 || batches > whole) batches = whole;
  const std::int64_t start = now_ns();
  MetricsMean mean;
  if (in.serves()) {
    mean.add_nothing(in.net.metrics());
    batches = 0;
  } else {
    samples.expect(batch, in.share(), in.shares);
    samples.set_last(LastBatch::wrap);
    in.net.control().weigh_samples(samples.weighted());
  }
  in.net.control().forget(phase == nn::Phase::train ? nn::Phase::test : phase);
  std::string not_finite;
  for (std::int64_t b = 0; b < batches; ++b) {
    samples.fill(in.net, b * batch + part.begin, part.size());
    in.net.forward(phase, in.now(), part.begin);
    mean.add(in.net.metrics(), part.size());
    if (not_finite.empty()) not_finite = where_not_finite();
  }
  Report report{.step = in.now(), .phase = phase, .metrics = mean.take(*in.comm, in.options.plan.deterministic)};
  report.samples_per_second = static_cast<double>(batches * batch) * 1e9 / static_cast<double>(now_ns() - start);
  expect_finite(not_finite);
  in.prepare_batch(in.current_batch);
  return report;
}

}  // namespace pleiad
