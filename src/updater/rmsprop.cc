#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T decay;
  T weight;  // 1 - decay
  T rate;
  T inside;
  T outside;

  PLEIAD_INLINE void operator()(T& value, T g, T& square) const {
    square = decay * square + weight * g * g;
    value -= rate * g / above_zero(std::sqrt(square + inside) + outside);
  }
};

PLEIAD_SWEEP(Step)

/// h = decay * h + (1 - decay) * g^2; value -= rate * g / (sqrt(h) + epsilon), or / sqrt(h + epsilon).
class RmsProp final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override { return {.per_element = 1}; }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    sweep(u, gradient<T>(u.rates),
          Step<T>{.decay = static_cast<T>(options().decay),
                  .weight = static_cast<T>(1 - options().decay),
                  .rate = static_cast<T>(sign() * u.rates.learning_rate),
                  .inside = static_cast<T>(epsilon_inside()),
                  .outside = static_cast<T>(epsilon_outside())});
  }
};

}  // namespace

std::unique_ptr<Updater> make_rmsprop(const UpdaterOptions& options) { return std::make_unique<RmsProp>(options); }

}  // namespace pleiad
