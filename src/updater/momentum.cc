#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T momentum;
  T in;
  T out;

  PLEIAD_INLINE void operator()(T& value, T g, T& velocity) const {
    velocity = momentum * velocity + in * g;
    value -= out * velocity;
  }
};

PLEIAD_SWEEP(Step)

/// v = m * v + g; value -= rate * v. If damped, g is multiplied by (1 - m) before it is added to v. If
/// rate_in_velocity, g is multiplied by the rate before it is added to v, and value -= v.
class Momentum final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override { return {.per_element = 1}; }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    const double m = u.rates.momentum;
    double in = options().damped ? 1 - m : 1;
    double out = sign();
    (options().rate_in_velocity ? in : out) *= rate(u.rates);
    sweep(u, change<T>(), Step<T>{static_cast<T>(m), static_cast<T>(in), static_cast<T>(out)});
  }
};

}  // namespace

std::unique_ptr<Updater> make_momentum(const UpdaterOptions& options) { return std::make_unique<Momentum>(options); }

}  // namespace pleiad
