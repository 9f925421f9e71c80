// Asynchronous SGD with delay compensation (Zheng et al., arXiv 1609.08326). The gradient was computed at the values
// that the worker last saw, its shadow. lambda * g^2 * (value - shadow) corrects it to first order for the changes that
// others have made since.
#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T rate;
  T lambda;

  PLEIAD_INLINE void operator()(T& value, T g, T& shadow) const {
    // lambda * (value - shadow) comes first, because g * g may overflow even if the full product does not.
    value -= rate * (g + lambda * (value - shadow) * g * g);
    shadow = value;
  }
};

template <class T>
struct AdaptiveStep {
  T rate;
  T lambda;
  T decay;
  T weight;  // 1 - decay
  T epsilon;

  PLEIAD_INLINE void operator()(T& value, T g, T& mean_square, T& shadow) const {
    mean_square = decay * mean_square + weight * g * g;
    const T relative = g / above_zero(std::sqrt(mean_square + epsilon));
    value -= rate * (g + lambda * (value - shadow) * g * relative);
    shadow = value;
  }
};

PLEIAD_SWEEP(Step)
PLEIAD_SWEEP(AdaptiveStep)

/// value -= rate * (g + lambda * g^2 * (value - shadow)); shadow = value. Each worker has its own shadow. If adaptive,
/// lambda is divided by sqrt(s + epsilon), where s = m * s + (1 - m) * g^2 is shared by the workers.
class DcAsgd final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override {
    return {.per_element = options().adaptive ? 1 : 0, .per_worker = 1, .per_worker_starts_as_value = true};
  }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    const auto rate = static_cast<T>(sign() * u.rates.learning_rate);
    const auto lambda = static_cast<T>(u.rates.lambda);
    const Gradient<T> g = gradient<T>(u.rates);
    if (options().adaptive) {
      const double m = u.rates.momentum;
      sweep(u, g,
            AdaptiveStep<T>{rate, lambda, static_cast<T>(m), static_cast<T>(1 - m), static_cast<T>(options().epsilon)});
    } else {
      sweep(u, g, Step<T>{rate, lambda});
    }
  }
};

}  // namespace

std::unique_ptr<Updater> make_dcasgd(const UpdaterOptions& options) { return std::make_unique<DcAsgd>(options); }

}  // namespace pleiad
