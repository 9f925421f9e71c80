#include <cmath>

#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  static constexpr T kMost = std::numeric_limits<T>::max();
  T inverse_rate;
  T beta;
  T l1;
  T l2;

  PLEIAD_INLINE void operator()(T& value, T g, T& dual, T& squares) const {
    const T before = std::sqrt(squares);
    const T sum = squares + g * g;
    squares = sum > kMost ? kMost : sum;
    const T after = std::sqrt(squares);
    dual += g - (after - before) * inverse_rate * value;
    const T size = dual < 0 ? -dual : dual;
    const T beyond = dual < 0 ? l1 - size : size - l1;
    const T moved = size <= l1 ? T(0) : -beyond / above_zero((beta + after) * inverse_rate + l2);
    value = g == 0 ? value : moved;  // without this check, an initial value would become 0 at the first zero gradient
  }
};

PLEIAD_SWEEP(Step)

/// FTRL-Proximal (McMahan et al., "Ad click prediction: a view from the trenches", 2013), where the rate is its alpha:
/// s = (sqrt(n + g^2) - sqrt(n)) / rate; z += g - s * value; n += g^2; value = 0 if |z| <= l1, otherwise -(z - sign(z)
/// * l1) / ((beta + sqrt(n)) / rate + l2). It pulls values towards 0, so zero is the best initial value.
class Ftrl final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override { return {.per_element = 2}; }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    if (u.rates.learning_rate == 0) return;  // a rate of 0 makes no step
    sweep(u, gradient<T>(u.rates),
          Step<T>{.inverse_rate = static_cast<T>(1 / u.rates.learning_rate),
                  .beta = static_cast<T>(options().ftrl_beta),
                  .l1 = static_cast<T>(options().l1),
                  .l2 = static_cast<T>(options().l2)});
  }
};

}  // namespace

std::unique_ptr<Updater> make_ftrl(const UpdaterOptions& options) { return std::make_unique<Ftrl>(options); }

}  // namespace pleiad
