#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T rate;

  PLEIAD_INLINE void operator()(T& value, T g) const { value -= rate * g; }
};

PLEIAD_SWEEP(Step)

/// value -= rate * g.
class Sgd final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] bool additive() const override { return options().weight_decay == 0 && !clips(); }
  [[nodiscard]] std::optional<Linear> linear(const Rates& rates) const override {
    if (clips()) return std::nullopt;
    const double step = sign() * rate(rates);
    return Linear{.keep = 1 - step * options().weight_decay, .factor = -step * options().scale};
  }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    sweep(u, change<T>(), Step<T>{static_cast<T>(sign() * rate(u.rates))});
  }
};

}  // namespace

std::unique_ptr<Updater> make_sgd(const UpdaterOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace pleiad
