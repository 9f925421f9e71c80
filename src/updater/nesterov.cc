#include "updater/loops.h"

namespace pleiad {
namespace {

template <class T>
struct Step {
  T momentum;
  T rate;
  T sign;

  PLEIAD_INLINE void operator()(T& value, T g, T& history) const {
    const T next = momentum * history + rate * g;
    value -= sign * ((1 + momentum) * next - momentum * history);
    history = next;
  }
};

PLEIAD_SWEEP(Step)

/// h' = m * h + rate * g; value -= (1 + m) * h' - m * h.
class Nesterov final : public Rule {
 public:
  using Rule::Rule;
  PLEIAD_APPLY_BY(run)
  [[nodiscard]] StateLayout state() const override { return {.per_element = 1}; }

 private:
  template <class T>
  void run(const Update<T>& u) const {
    sweep(u, change<T>(),
          Step<T>{static_cast<T>(u.rates.momentum), static_cast<T>(rate(u.rates)), static_cast<T>(sign())});
  }
};

}  // namespace

std::unique_ptr<Updater> make_nesterov(const UpdaterOptions& options) { return std::make_unique<Nesterov>(options); }

}  // namespace pleiad
