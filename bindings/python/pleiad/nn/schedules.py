"""Learning rates and momenta that depend on the step, for `Trainer(schedule=...)` and `Trainer(momentum=...)`.

>>> from pleiad import nn
>>> rate = nn.schedules.step(0.1, gamma=0.5, every=100)
>>> rate(0), rate(99), rate(100)
(0.1, 0.1, 0.05)
"""

from collections.abc import Sequence

from pleiad.nn.engine import _nn

Schedule = _nn.Schedule


def fixed(rate: float) -> Schedule:
    """A constant rate."""
    return Schedule("fixed", base=rate)


def linear(base: float, final: float, steps: int) -> Schedule:
    """Changes linearly from `base` to `final` within `steps` steps."""
    return Schedule("linear", base=base, final=final, freq=steps)


def exponential(base: float, half_life: int) -> Schedule:
    """base / 2^(step / half_life)."""
    return Schedule("exponential", base=base, freq=half_life)


def inverse(base: float, gamma: float, power: float) -> Schedule:
    """base * (1 + gamma * step)^-power."""
    return Schedule("inverse", base=base, gamma=gamma, power=power)


def inverse_t(base: float, final: float) -> Schedule:
    """base / (1 + step / final)."""
    return Schedule("inverse_t", base=base, final=final)


def step(base: float, gamma: float, every: int) -> Schedule:
    """base * gamma^floor(step / every)."""
    return Schedule("step", base=base, gamma=gamma, freq=every)


def fixed_step(steps: Sequence[int], rates: Sequence[float]) -> Schedule:
    """rates[i] from step steps[i] on."""
    return Schedule("fixed_step", steps=list(steps), rates=list(rates))


def epochs(base: float, gamma: float, every: int) -> Schedule:
    """base * gamma^floor((s + 1) / every), where the caller counts s; neon counts epochs."""
    return Schedule("epochs", base=base, gamma=gamma, freq=every)


def momentum(base: float, final: float, start: int, end: int) -> Schedule:
    """Rises linearly from `base` to `final` between the steps `start` and `end` (neon's linear_monotone)."""
    return Schedule("momentum", base=base, final=final, start=start, freq=end)
