#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T beta1;
  T beta2;
  T weight1;  // 1 - beta1
  T weight2;
  T rate;        // divided by the bias correction of the mean
  T correction;  // bias correction of the mean square
  T inside;
  T outside;
  T keep;  // factor of the value before the step

  PLEIAD_INLINE void operator()(T& value, T g, T& mean, T& square) const {
    mean = beta1 * mean + weight1 * g;
    square = beta2 * square + weight2 * g * g;
    value = keep * value - rate * mean / above_zero(std::sqrt(correction * square + inside) + outside);
  }
};

PLEIAD_SWEEP(Step)

/// m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2; value -= rate * m / (sqrt(v) + epsilon), or /
/// sqrt(v + epsilon). With bias correction, m and v are divided by 1 - beta^t. Each unit has its own step count t.
/// If `decoupled` (AdamW), the decay is not a part of g: value is multiplied by 1 - rate * weight_decay.
class Adam final : public Rule {
 public:
  Adam(const UpdaterOptions& options, bool decoupled)
      : Rule(without_decay(options, decoupled)),
        log_beta1_(std::log(options.beta1)),
        log_beta2_(std::log(options.beta2)),
        decay_(decoupled ? options.weight_decay : 0) {}
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override {
    return {.per_element = 2, .per_unit = options().bias_correction ? 1 : 0};
  }

 private:
  static UpdaterOptions without_decay(UpdaterOptions options, bool decoupled) {
    if (decoupled) options.weight_decay = 0;
    return options;
  }
  template <class T>
  void run(const Update<T>& u) const {
    if (u.count == 0) return;
    double rate = sign() * u.rates.learning_rate;
    double correction = 1;
    if (options().bias_correction) {
      const double t = ++u.unit[0];
      rate /= -std::expm1(t * log_beta1_);
      correction = 1 / -std::expm1(t * log_beta2_);
    }
    sweep(u, gradient<T>(u.rates),
          Step<T>{.beta1 = static_cast<T>(options().beta1),
                  .beta2 = static_cast<T>(options().beta2),
                  .weight1 = static_cast<T>(1 - options().beta1),
                  .weight2 = static_cast<T>(1 - options().beta2),
                  .rate = static_cast<T>(rate),
                  .correction = static_cast<T>(correction),
                  .inside = static_cast<T>(epsilon_inside()),
                  .outside = static_cast<T>(epsilon_outside()),
                  .keep = static_cast<T>(1 - u.rates.learning_rate * decay_)});
  }

  const double log_beta1_;
  const double log_beta2_;
  const double decay_;
};

}  // namespace

std::unique_ptr<Updater> make_adam(const UpdaterOptions& options) { return std::make_unique<Adam>(options, false); }
std::unique_ptr<Updater> make_adamw(const UpdaterOptions& options) { return std::make_unique<Adam>(options, true); }

}  // namespace pleiad
