// The tools for writing a rule: a step for one element, which is swept over an update. A rule's file contains
//   template <class T> struct Step { void operator()(T& value, T g, T& state...) const; };
//   PLEIAD_SWEEP(Step)
//   class MyRule final : public Rule { ... sweep(update, gradient<T>(update.rates), Step<T>{...}) ... };
// and the factory function that list.cc names.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "core/clones.h"
#include "updater/updater.h"

namespace pleiad {

/// g = scale * clip(delta) + decay * value, or the delta itself if `plain`.
template <class T>
struct Gradient {
  T low = -std::numeric_limits<T>::infinity();
  T high = std::numeric_limits<T>::infinity();
  T scale = 1;
  T decay = 0;
  bool plain = true;

  PLEIAD_INLINE T operator()(T delta, T value) const {
    delta = delta < low ? low : delta;  // this form of the comparison keeps NaN
    delta = delta > high ? high : delta;
    return scale * delta + decay * value;
  }
};

/// The base class of rules that use gradients. Its options are resolved and checked.
class Rule : public Updater {
 public:
  explicit Rule(const UpdaterOptions& options) : options_(options) {}

 protected:
  [[nodiscard]] const UpdaterOptions& options() const { return options_; }
  [[nodiscard]] bool clips() const { return options_.clip_high > options_.clip_low; }
  /// The factor of the step before it is subtracted.
  [[nodiscard]] double sign() const { return options_.ascend ? -1 : 1; }
  /// The learning rate of a rule whose step is proportional to g. Use it together with change().
  [[nodiscard]] double rate(const Rates& rates) const { return options_.prescaled ? 1 : rates.learning_rate; }
  [[nodiscard]] double epsilon_inside() const { return options_.epsilon_inside_root ? options_.epsilon : 0; }
  [[nodiscard]] double epsilon_outside() const { return options_.epsilon_inside_root ? 0 : options_.epsilon; }

  /// Returns the gradient. A prescaled delta is returned unchanged; make_updater refuses scale, clipping and decay for
  /// it.
  template <class T>
  [[nodiscard]] Gradient<T> change() const {
    Gradient<T> g;
    if (clips()) {
      g.low = static_cast<T>(options_.clip_low);
      g.high = static_cast<T>(options_.clip_high);
    }
    g.scale = static_cast<T>(options_.scale);
    g.decay = static_cast<T>(options_.weight_decay);
    g.plain = !clips() && options_.scale == 1 && options_.weight_decay == 0;
    return g;
  }

  /// Returns the gradient. A prescaled delta is divided by the learning rate. At rate 0 such a delta carries no
  /// information, and g is 0.
  template <class T>
  [[nodiscard]] Gradient<T> gradient(const Rates& rates) const {
    Gradient<T> g = change<T>();
    if (options_.prescaled) {
      g.scale = static_cast<T>(rates.learning_rate == 0 ? 0 : 1 / rates.learning_rate);
      g.plain = false;
    }
    return g;
  }

 private:
  const UpdaterOptions options_;
};

/// Avoids 0 / 0 if epsilon is 0: an element that has received only zeros does not move.
template <class T>
PLEIAD_INLINE T above_zero(T divisor) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  return divisor < kLeast ? kLeast : divisor;
}

template <bool kPlain, class T, class Step>
PLEIAD_INLINE void sweep_elements(T* __restrict value, const T* __restrict delta, T* __restrict state0,
                                  T* __restrict state1, std::size_t count, Gradient<T> gradient, Step step) {
  for (std::size_t i = 0; i < count; ++i) {
    const T g = kPlain ? delta[i] : gradient(delta[i], value[i]);
    if constexpr (std::is_invocable_v<Step, T&, T>) {
      step(value[i], g);
    } else if constexpr (std::is_invocable_v<Step, T&, T, T&>) {
      step(value[i], g, state0[i]);
    } else {
      step(value[i], g, state0[i], state1[i]);
    }
  }
}

template <class T, class Step>
PLEIAD_INLINE void sweep_all(const Update<T>& u, const Gradient<T>& gradient, const Step& step) {
  if (gradient.plain) {
    sweep_elements<true>(u.value, u.delta, u.state[0], u.state[1], u.count, gradient, step);
  } else {
    sweep_elements<false>(u.value, u.delta, u.state[0], u.state[1], u.count, gradient, step);
  }
}

}  // namespace pleiad

/// Rounds products and sums separately, without fused multiply-add. Results therefore depend neither on the CPU nor on
/// the position of an element in the loop, and hence not on how a table is split.
#if defined(__clang__)
#define PLEIAD_UNFUSED
#else
#define PLEIAD_UNFUSED __attribute__((optimize("fp-contract=off")))
#endif

/// Defines sweep(update, gradient, step) for Step<float> and Step<double>, vectorised for the CPU at run time.
#define PLEIAD_SWEEP(Step)                                                                                             \
  PLEIAD_UNFUSED PLEIAD_CLONES void sweep(const Update<float>& u, const Gradient<float>& g, const Step<float>& step) { \
    sweep_all(u, g, step);                                                                                             \
  }                                                                                                                    \
  PLEIAD_UNFUSED PLEIAD_CLONES void sweep(const Update<double>& u, const Gradient<double>& g,                          \
                                          const Step<double>& step) {                                                  \
    sweep_all(u, g, step);                                                                                             \
  }

/// Implements the two apply() functions of a Rule through its member template `run`.
#define PLEIAD_APPLY_BY(run)                                              \
  void apply(const Update<float>& update) const override { run(update); } \
  void apply(const Update<double>& update) const override { run(update); }
