#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T rate;
  T inside;
  T outside;

  PLEIAD_INLINE void operator()(T& value, T g, T& history) const {
    history += g * g;
    value -= rate * g / above_zero(std::sqrt(history + inside) + outside);
  }
};

PLEIAD_SWEEP(Step)

/// h += g^2; value -= rate * g / (sqrt(h) + epsilon), or / sqrt(h + epsilon). With a prescaled delta, the rate is rho.
/// With per_worker, each worker has its own history.
class AdaGrad final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override {
    return options().per_worker ? StateLayout{.per_worker = 1} : StateLayout{.per_element = 1};
  }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    const double rate = options().prescaled ? u.rates.rho : u.rates.learning_rate;
    sweep(u, gradient<T>(u.rates),
          Step<T>{static_cast<T>(sign() * rate), static_cast<T>(epsilon_inside()), static_cast<T>(epsilon_outside())});
  }
};

}  // namespace

std::unique_ptr<Updater> make_adagrad(const UpdaterOptions& options) { return std::make_unique<AdaGrad>(options); }

}  // namespace pleiad
