#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T decay;
  T weight;  // 1 - decay
  T rate;
  T epsilon;

  PLEIAD_INLINE void operator()(T& value, T g, T& square, T& steps) const {
    square = decay * square + weight * g * g;
    const T step = g * std::sqrt(steps + epsilon) / above_zero(std::sqrt(square + epsilon));
    steps = decay * steps + weight * step * step;
    value -= rate * step;
  }
};

PLEIAD_SWEEP(Step)

/// h = decay * h + (1 - decay) * g^2; t = g * sqrt(u + epsilon) / sqrt(h + epsilon); u = decay * u + (1 - decay) * t^2;
/// value -= rate * t. The original paper uses rate 1.
class AdaDelta final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override { return {.per_element = 2}; }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    sweep(u, gradient<T>(u.rates),
          Step<T>{.decay = static_cast<T>(options().decay),
                  .weight = static_cast<T>(1 - options().decay),
                  .rate = static_cast<T>(sign() * u.rates.learning_rate),
                  .epsilon = static_cast<T>(options().epsilon)});
  }
};

}  // namespace

std::unique_ptr<Updater> make_adadelta(const UpdaterOptions& options) { return std::make_unique<AdaDelta>(options); }

}  // namespace pleiad
