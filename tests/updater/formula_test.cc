#include "tests/updater/shard.h"

namespace pleiad {
namespace {

// One element: its value, the rule's state for all workers (a, b) and for this worker (own), the learning rate of this
// add, and the number of updates of the unit, including this one.
struct Cell {
  Real w = 0, a = 0, b = 0, own = 0, rate = 0;
  int t = 0;
};

void momentum(Cell& c, Real in, Real out) {
  c.a = kMomentum * c.a + in;
  c.w -= out * c.a;
}

void nesterov(Cell& c, Real in) {
  const Real before = c.a;
  c.a = kMomentum * before + in;
  c.w -= (1 + kMomentum) * c.a - kMomentum * before;
}

Real adagrad(Real& history, Real rate, Real g) {
  history += g * g;
  return rate * g / (std::sqrt(history) + kEpsilon);
}

Real adagrad_inside(Real& history, Real rate, Real g, Real epsilon) {
  history += g * g;
  return rate * g / std::sqrt(history + epsilon);
}

// The step of Kingma and Ba's algorithm 1, without bias correction if t is infinite.
Real adam(Cell& c, Real g, Real t, Real epsilon_inside = 0, Real epsilon_outside = kEpsilon) {
  c.a = 0.9L * c.a + 0.1L * g;
  c.b = 0.999L * c.b + 0.001L * g * g;
  const Real m = c.a / (1 - std::pow(0.9L, t)), v = c.b / (1 - std::pow(0.999L, t));
  return c.rate * m / (std::sqrt(v + epsilon_inside) + epsilon_outside);
}

void dcasgd(Cell& c, Real g) {
  c.w -= c.rate * (g + kLambda * g * g * (c.w - c.own));
  c.own = c.w;
}

void dcasgda(Cell& c, Real g, Real epsilon) {
  c.a = kMomentum * c.a + (1 - kMomentum) * g * g;
  c.w -= c.rate * (g + kLambda / std::sqrt(c.a + epsilon) * g * g * (c.w - c.own));
  c.own = c.w;
}

Real rmsprop(Real& square, Real rate, Real g, Real epsilon_inside = 0, Real epsilon_outside = kEpsilon) {
  square = 0.9L * square + 0.1L * g * g;
  return rate * g / (std::sqrt(square + epsilon_inside) + epsilon_outside);
}

Real adadelta(Cell& c, Real g) {
  c.a = 0.9L * c.a + 0.1L * g * g;
  const Real t = g * std::sqrt(c.b + kEpsilon) / std::sqrt(c.a + kEpsilon);
  c.b = 0.9L * c.b + 0.1L * t * t;
  return c.rate * t;
}

// Kingma and Ba's algorithm 2, without bias correction if t is infinite.
Real adamax(Cell& c, Real g, Real t) {
  c.a = 0.9L * c.a + 0.1L * g;
  c.b = std::max(0.999L * c.b, std::abs(g));
  return c.rate / (1 - std::pow(0.9L, t)) * c.a / (c.b + kEpsilon);
}

// McMahan and others' algorithm 1.
void ftrl(Cell& c, Real g, Real l1, Real l2, Real beta) {
  const Real sigma = (std::sqrt(c.b + g * g) - std::sqrt(c.b)) / c.rate;
  c.a += g - sigma * c.w;
  c.b += g * g;
  const Real sign = c.a < 0 ? -1 : 1;
  c.w = std::abs(c.a) <= l1 ? 0 : -(c.a - sign * l1) / ((beta + std::sqrt(c.b)) / c.rate + l2);
}

void regularised(UpdaterOptions& o) { o.l1 = 0.6, o.l2 = 2, o.ftrl_beta = 0.5; }

struct Case {
  std::string name;
  UpdaterOptions options;
  std::function<void(Cell&, Real)> formula;
  double size = 1;  // magnitude of the deltas; small if a small epsilon must have an effect
};

std::vector<Case> cases() {
  using C = Cell&;
  constexpr Real kNever = HUGE_VALL;
  return {
      {"sum", usual("sum"), [](C c, Real d) { c.w += d; }},

      {"sgd", usual("sgd"), [](C c, Real d) { c.w -= c.rate * d; }},
      {"sgd_up", usual("sgd", ascending), [](C c, Real d) { c.w += c.rate * d; }},
      {"sgd_prescaled", usual("sgd", prescaled), [](C c, Real d) { c.w -= d; }},
      {"sgd_shaped", usual("sgd", shaped), [](C c, Real d) { c.w -= c.rate * shape(d, c.w); }},
      {"sgd_negated", usual("sgd", negated), [](C c, Real d) { c.w += c.rate * 3 * d; }},
      {"sgd_decaying", usual("sgd", decaying), [](C c, Real d) { c.w -= c.rate * (d + 0.3L * c.w); }},
      {"sgd_capped", usual("sgd", capped), [](C c, Real d) { c.w -= c.rate * std::min(d, 0.25L); }},

      {"momentum", usual("momentum"), [](C c, Real d) { momentum(c, d, c.rate); }},
      {"momentum_up", usual("momentum", ascending), [](C c, Real d) { momentum(c, d, -c.rate); }},
      {"momentum_damped", usual("momentum", damped), [](C c, Real d) { momentum(c, 0.1L * d, c.rate); }},
      {"momentum_rate_in", usual("momentum", rate_in_velocity), [](C c, Real d) { momentum(c, c.rate * d, 1); }},
      {"momentum_rate_in_up", usual("momentum", rate_in_velocity, ascending),
       [](C c, Real d) { momentum(c, c.rate * d, -1); }},
      {"momentum_damped_rate_in", usual("momentum", damped, rate_in_velocity),
       [](C c, Real d) { momentum(c, 0.1L * c.rate * d, 1); }},
      {"momentum_prescaled", usual("momentum", prescaled), [](C c, Real d) { momentum(c, d, 1); }},
      {"momentum_shaped", usual("momentum", shaped), [](C c, Real d) { momentum(c, shape(d, c.w), c.rate); }},

      {"nesterov", usual("nesterov"), [](C c, Real d) { nesterov(c, c.rate * d); }},
      {"nesterov_up", usual("nesterov", ascending), [](C c, Real d) { nesterov(c, -c.rate * d); }},
      {"nesterov_prescaled", usual("nesterov", prescaled), [](C c, Real d) { nesterov(c, d); }},
      {"nesterov_shaped", usual("nesterov", shaped), [](C c, Real d) { nesterov(c, c.rate * shape(d, c.w)); }},

      {"adagrad", usual("adagrad"), [](C c, Real d) { c.w -= adagrad(c.a, c.rate, d); }},
      {"adagrad_up", usual("adagrad", ascending), [](C c, Real d) { c.w += adagrad(c.a, c.rate, d); }},
      {"adagrad_inside", usual("adagrad", inside),
       [](C c, Real d) { c.w -= adagrad_inside(c.a, c.rate, d, kEpsilon); }},
      {"adagrad_per_worker", usual("adagrad", per_worker), [](C c, Real d) { c.w -= adagrad(c.own, c.rate, d); }},
      {"adagrad_prescaled", usual("adagrad", prescaled), [](C c, Real d) { c.w -= adagrad(c.a, kRho, d / c.rate); },
       0.02},
      {"adagrad_shaped", usual("adagrad", shaped), [](C c, Real d) { c.w -= adagrad(c.a, c.rate, shape(d, c.w)); }},

      {"adam", usual("adam"), [](C c, Real d) { c.w -= adam(c, d, c.t); }},
      {"adam_up", usual("adam", ascending), [](C c, Real d) { c.w += adam(c, d, c.t); }},
      {"adam_inside", usual("adam", inside), [](C c, Real d) { c.w -= adam(c, d, c.t, kEpsilon, 0); }},
      {"adam_uncorrected", usual("adam", uncorrected), [](C c, Real d) { c.w -= adam(c, d, kNever); }},
      {"adam_prescaled", usual("adam", prescaled), [](C c, Real d) { c.w -= adam(c, d / c.rate, c.t); }, 0.05},
      {"adamw", usual("adamw"), [](C c, Real d) { c.w -= adam(c, d, c.t); }},
      {"adamw_decaying", usual("adamw", decaying),
       [](C c, Real d) { c.w = (1 - c.rate * 0.3L) * c.w - adam(c, d, c.t); }},
      {"adamw_up", usual("adamw", decaying, ascending),
       [](C c, Real d) { c.w = (1 - c.rate * 0.3L) * c.w + adam(c, d, c.t); }},
      {"adam_shaped", usual("adam", shaped), [](C c, Real d) { c.w -= adam(c, shape(d, c.w), c.t); }},

      {"adamax", usual("adamax"), [](C c, Real d) { c.w -= adamax(c, d, c.t); }},
      {"adamax_up", usual("adamax", ascending), [](C c, Real d) { c.w += adamax(c, d, c.t); }},
      {"adamax_uncorrected", usual("adamax", uncorrected), [](C c, Real d) { c.w -= adamax(c, d, kNever); }},
      {"adamax_prescaled", usual("adamax", prescaled), [](C c, Real d) { c.w -= adamax(c, d / c.rate, c.t); }, 0.05},
      {"adamax_shaped", usual("adamax", shaped), [](C c, Real d) { c.w -= adamax(c, shape(d, c.w), c.t); }},

      {"rmsprop", usual("rmsprop"), [](C c, Real d) { c.w -= rmsprop(c.a, c.rate, d); }},
      {"rmsprop_up", usual("rmsprop", ascending), [](C c, Real d) { c.w += rmsprop(c.a, c.rate, d); }},
      {"rmsprop_inside", usual("rmsprop", inside), [](C c, Real d) { c.w -= rmsprop(c.a, c.rate, d, kEpsilon, 0); }},
      {"rmsprop_prescaled", usual("rmsprop", prescaled), [](C c, Real d) { c.w -= rmsprop(c.a, c.rate, d / c.rate); },
       0.05},
      {"rmsprop_shaped", usual("rmsprop", shaped), [](C c, Real d) { c.w -= rmsprop(c.a, c.rate, shape(d, c.w)); }},

      {"adadelta", usual("adadelta"), [](C c, Real d) { c.w -= adadelta(c, d); }},
      {"adadelta_up", usual("adadelta", ascending), [](C c, Real d) { c.w += adadelta(c, d); }},
      {"adadelta_prescaled", usual("adadelta", prescaled), [](C c, Real d) { c.w -= adadelta(c, d / c.rate); }, 0.05},
      {"adadelta_shaped", usual("adadelta", shaped), [](C c, Real d) { c.w -= adadelta(c, shape(d, c.w)); }},

      {"ftrl", usual("ftrl"), [](C c, Real d) { ftrl(c, d, 0, 0, 1); }},
      {"ftrl_regularised", usual("ftrl", regularised), [](C c, Real d) { ftrl(c, d, 0.6L, 2, 0.5L); }},
      {"ftrl_prescaled", usual("ftrl", prescaled), [](C c, Real d) { ftrl(c, d / c.rate, 0, 0, 1); }, 0.05},
      {"ftrl_shaped", usual("ftrl", shaped), [](C c, Real d) { ftrl(c, shape(d, c.w), 0, 0, 1); }},

      {"dcasgd", usual("dcasgd"), [](C c, Real d) { dcasgd(c, d); }},
      {"dcasgd_prescaled", usual("dcasgd", prescaled), [](C c, Real d) { dcasgd(c, d / c.rate); }, 0.05},
      {"dcasgd_shaped", usual("dcasgd", shaped), [](C c, Real d) { dcasgd(c, shape(d, c.w)); }},
      {"dcasgd_adaptive", usual("dcasgd", adaptive), [](C c, Real d) { dcasgda(c, d, kEpsilon); }},
      {"dcasgd_adaptive_shaped", usual("dcasgd", adaptive, shaped),
       [](C c, Real d) { dcasgda(c, shape(d, c.w), kEpsilon); }},

      {"multiverso/default", usual("multiverso/default"), [](C c, Real d) { c.w += d; }},
      {"multiverso/sgd", usual("multiverso/sgd"), [](C c, Real d) { c.w -= d; }},
      {"multiverso/momentum_sgd", usual("multiverso/momentum_sgd"), [](C c, Real d) { momentum(c, 0.1L * d, 1); }},
      {"multiverso/adagrad", usual("multiverso/adagrad"),
       [](C c, Real d) { c.w -= adagrad_inside(c.own, kRho, d / c.rate, 1e-6L); }, 5e-5},
      {"multiverso/dcasgd", usual("multiverso/dcasgd"), [](C c, Real d) { dcasgd(c, d / c.rate); }, 0.05},
      {"multiverso/dcasgda", usual("multiverso/dcasgda"), [](C c, Real d) { dcasgda(c, d / c.rate, 1e-7L); }, 5e-5},
      {"singa/sgd", usual("singa/sgd", shaped), [](C c, Real d) { momentum(c, c.rate * shape(d, c.w), 1); }},
      {"singa/nesterov", usual("singa/nesterov", shaped), [](C c, Real d) { nesterov(c, c.rate * shape(d, c.w)); }},
      {"singa/adagrad", usual("singa/adagrad"), [](C c, Real d) { c.w -= adagrad_inside(c.a, c.rate, d, kEpsilon); },
       1e-4},
      {"singa/adam", usual("singa/adam"), [](C c, Real d) { c.w -= adam(c, d, c.t, kEpsilon, 0); }, 1e-4},
      {"singa/adam_uncorrected", usual("singa/adam", uncorrected),
       [](C c, Real d) { c.w -= adam(c, d, kNever, kEpsilon, 0); }, 1e-4},
      {"singa/adadelta", usual("singa/adadelta"), [](C c, Real d) { c.w -= adadelta(c, d); }},
      {"singa/adamax", usual("singa/adamax"), [](C c, Real d) { c.w -= adamax(c, d, c.t); }},
      {"singa/rmsprop", usual("singa/rmsprop"), [](C c, Real d) { c.w -= rmsprop(c.a, c.rate, d, kEpsilon, 0); }},
      {"neon/adadelta", usual("neon/adadelta"), [](C c, Real d) { c.w -= adadelta(c, d); }},
      {"neon/gradient_descent", usual("neon/gradient_descent"), [](C c, Real d) { c.w -= c.rate * d; }},
      {"neon/momentum", usual("neon/momentum", decaying),
       [](C c, Real d) { momentum(c, c.rate * (d + 0.3L * c.w), 1); }},
  };
}

class Formula : public testing::TestWithParam<Case> {};

template <class T>
void expect_formula(const Case& which, std::size_t count) {
  const auto rule = make_updater(which.options, dtype_of<T>);
  Rates rates = merge(resolve_dialect(which.options), {});
  Shard<T> shard(*rule, random_values<T>(count), 2);
  std::vector<Cell> cells(count);
  std::vector<Real> own[2];
  for (std::size_t i = 0; i < count; ++i) {
    cells[i].w = shard.values[i];
    const bool from_value = resolve_dialect(which.options).rule == "dcasgd";
    for (auto& of_worker : own) of_worker.push_back(from_value ? cells[i].w : 0);
  }
  int t = 0;
  for (const std::size_t worker : {0u, 1u, 1u, 0u, 1u, 0u, 0u}) {
    const auto delta = random_values<T>(count, which.size);
    rates.learning_rate = t % 3 == 1 ? 0.03 : 0.05;
    shard.add(*rule, delta, rates, worker);
    ++t;
    for (std::size_t i = 0; i < count; ++i) {
      Cell& cell = cells[i];
      cell.t = t;
      cell.rate = rates.learning_rate;
      cell.own = own[worker][i];
      which.formula(cell, delta[i]);
      own[worker][i] = cell.own;
      const Real tolerance = 64 * std::numeric_limits<T>::epsilon() * (1 + std::abs(cell.w));
      ASSERT_LE(std::abs(shard.values[i] - cell.w), tolerance)
          << shard.values[i] << " is not " << cell.w << " at " << i << " of " << count << ", step " << t;
    }
  }
}

TEST_P(Formula, HoldsInFloat) {
  for (const std::size_t count : counts()) expect_formula<float>(GetParam(), count);
}

TEST_P(Formula, HoldsInDouble) {
  for (const std::size_t count : counts()) expect_formula<double>(GetParam(), count);
}

INSTANTIATE_TEST_SUITE_P(Updater, Formula, testing::ValuesIn(cases()),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(Formula, IsTestedForEveryRuleAndDialect) {
  std::set<std::string> tested;
  for (const Case& which : cases()) tested.insert(which.options.rule);
  for (const auto& name : updater_names()) EXPECT_TRUE(tested.contains(name)) << name;
  for (const auto& name : dialect_names()) EXPECT_TRUE(tested.contains(name)) << name;
}

}  // namespace
}  // namespace pleiad
