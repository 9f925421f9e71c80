#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T beta1;
  T beta2;
  T weight1;  // 1 - beta1
  T rate;     // divided by the bias correction of the mean
  T epsilon;

  PLEIAD_INLINE void operator()(T& value, T g, T& mean, T& greatest) const {
    mean = beta1 * mean + weight1 * g;
    const T size = g < 0 ? -g : g;
    const T faded = beta2 * greatest;
    greatest = !(size <= faded) ? size : faded;  // this form of the comparison keeps NaN
    value -= rate * mean / above_zero(greatest + epsilon);
  }
};

PLEIAD_SWEEP(Step)

/// m = beta1 * m + (1 - beta1) * g; u = max(beta2 * u, |g|); value -= rate * m / (u + epsilon). With bias correction, m
/// is divided by 1 - beta1^t. Each unit has its own step count t.
class AdaMax final : public Rule {
 public:
  explicit AdaMax(const UpdaterOptions& options) : Rule(options), log_beta1_(std::log(options.beta1)) {}
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override {
    return {.per_element = 2, .per_unit = options().bias_correction ? 1 : 0};
  }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    if (u.count == 0) return;
    double rate = sign() * u.rates.learning_rate;
    if (options().bias_correction) rate /= -std::expm1(++u.unit[0] * log_beta1_);
    sweep(u, gradient<T>(u.rates),
          Step<T>{.beta1 = static_cast<T>(options().beta1),
                  .beta2 = static_cast<T>(options().beta2),
                  .weight1 = static_cast<T>(1 - options().beta1),
                  .rate = static_cast<T>(rate),
                  .epsilon = static_cast<T>(options().epsilon)});
  }

  const double log_beta1_;
};

}  // namespace

std::unique_ptr<Updater> make_adamax(const UpdaterOptions& options) { return std::make_unique<AdaMax>(options); }

}  // namespace pleiad
