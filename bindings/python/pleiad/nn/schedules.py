"""Learning rates and momenta that depend on the step, for `Trainer(schedule=...)` and `Trainer(momentum=...)`. A function of the
step, from 0, is a schedule, too.

>>> from pleiad import nn
>>> rate = nn.schedules.step(0.1, gamma=0.5, every=100)
>>> rate(0), rate(99), rate(100)
(0.1, 0.1, 0.05)
>>> nn.schedules.warmup(nn.schedules.cosine(0.1, steps=1000), steps=100)(50)
0.05
"""

from collections.abc import Callable, Sequence

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn
from pleiad.nn.history import Record
from pleiad.nn.monitor import Mode, Monitor
from pleiad.representation import constructor_text


class Schedule:
    """A rate that depends on the step: `schedule(step)` returns it. The functions of `nn.schedules` create schedules; the
    fields are those of C++ (docs/nn.md).

    >>> from pleiad import nn
    >>> nn.schedules.step(0.1, gamma=0.5, every=100)
    Schedule(type='step', base=0.1, gamma=0.5, freq=100)
    """

    def __init__(
        self,
        type: str = "fixed",
        base: float = 0.01,
        final: float = 0.0,
        gamma: float = 1.0,
        power: float = 0.0,
        freq: int = 1,
        start: int = 0,
        steps: Sequence[int] = (),
        rates: Sequence[float] = (),
        warmup: int = 0,
        warmup_from: float = 0.0,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self._core = _nn.Schedule(**{**self._given, "steps": list(steps), "rates": list(rates)})

    @property
    def type(self) -> str:
        """The name of the formula."""
        return self._core.type

    def __call__(self, step: int) -> float:
        return self._core(step)

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._given == other._given

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> dict[str, object]:
        return self._given

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def fixed(rate: float) -> Schedule:
    """A constant rate."""
    return Schedule("fixed", base=rate)


def linear(base: float, final: float, steps: int) -> Schedule:
    """Changes linearly from `base` to `final` within `steps` steps."""
    return Schedule("linear", base=base, final=final, freq=steps)


def cosine(base: float, steps: int, final: float = 0.0) -> Schedule:
    """Falls from `base` to `final` along half a cosine within `steps` steps, and stays there."""
    return Schedule("cosine", base=base, final=final, freq=steps)


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


def warmup(schedule: Schedule, steps: int, start: float = 0.0) -> Schedule:
    """Rises linearly from `start` to the first rate of `schedule` in `steps` steps, and follows `schedule` from there, whose
    steps count from the end of the warm-up."""
    if not isinstance(schedule, Schedule):
        raise InvalidArgument(f"[warmup] expected a schedule of nn.schedules; received {type(schedule).__name__}")
    if schedule._given["warmup"]:
        raise InvalidArgument(f"[warmup] expected a schedule without a warm-up; received {schedule!r}")
    return Schedule(**{**schedule._given, "warmup": steps, "warmup_from": start})


class Plateau:
    """A rate that falls when a metric has stopped improving: `nn.schedules.plateau`. Checkpoints save its state."""

    def __init__(
        self,
        base: float,
        monitor: str = "val_loss",
        *,
        factor: float = 0.1,
        patience: int = 5,
        min_delta: float = 0.0,
        mode: Mode = "auto",
        least: float = 0.0,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        if not (base > 0 and 0 < factor < 1 and patience >= 1 and 0 <= least <= base):
            raise InvalidArgument(
                "[schedules.plateau] expected base > 0, 0 < factor < 1, patience >= 1 and 0 <= least <= base; received "
                f"{base}, {factor}, {patience} and {least}"
            )
        self.base, self.factor, self.patience, self.least = float(base), float(factor), patience, float(least)
        self.monitor = Monitor("schedules.plateau", monitor, min_delta, mode)

    def options(self) -> dict[str, object]:
        return self._given

    def first_state(self) -> tuple[float, float, float, float]:
        """Returns rate, best metric, whether there is one, and the number of records without improvement."""
        return self.base, 0.0, 0.0, 0.0

    def next_state(self, state: Sequence[float], record: Record) -> Sequence[float]:
        """Returns the state after a record."""
        value = self.monitor.value(record)
        if value is None:
            return state
        rate, best, has_best, since = state
        if self.monitor.improves(value, best if has_best else None):
            return rate, value, 1.0, 0.0
        since += 1
        if since < self.patience:
            return rate, best, has_best, since
        return max(rate * self.factor, self.least), best, has_best, 0.0

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)


def plateau(
    base: float,
    monitor: str = "val_loss",
    *,
    factor: float = 0.1,
    patience: int = 5,
    min_delta: float = 0.0,
    mode: Mode = "auto",
    least: float = 0.0,
) -> Plateau:
    """Multiplies the rate by `factor` after `patience` records without an improvement of the metric by more than `min_delta`,
    but not below `least`. `monitor` and `mode` are those of `nn.EarlyStopping`."""
    return Plateau(base, monitor, factor=factor, patience=patience, min_delta=min_delta, mode=mode, least=least)


#: The types that `Trainer` accepts as schedule and as momentum.
ScheduleLike = Schedule | Plateau | Callable[[int], float] | None
