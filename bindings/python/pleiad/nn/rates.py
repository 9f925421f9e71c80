"""The learning rate and momentum of each step of a trainer."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.engine import _nn
from pleiad.nn.history import Record
from pleiad.nn.schedules import Plateau, Schedule, ScheduleLike

if TYPE_CHECKING:
    from pleiad.nn.trainer import Trainer

MOST = 1000  # steps whose rates are computed at once


class Rates(Callback):
    """The schedule and the momentum that a trainer was given. Before each piece of steps it passes to the engine what a function or a
    plateau prescribes; all ranks use the values of rank 0."""

    def __init__(self, schedule: ScheduleLike, momentum: ScheduleLike) -> None:
        for name, given in (("schedule", schedule), ("momentum", momentum)):
            wanted = isinstance(given, Schedule) or given is None or callable(given)
            if not wanted and not (name == "schedule" and isinstance(given, Plateau)):
                raise InvalidArgument(
                    f"[Trainer] {name}: expected a schedule of nn.schedules or a function of the step; received {given!r}"
                )
        self.schedule, self.momentum = schedule, momentum
        self.by_step = any(not isinstance(each, Schedule | None) for each in (schedule, momentum))

    def core_of(self, given: ScheduleLike) -> "_nn.Schedule | None":
        """Returns the schedule that the engine starts with."""
        if given is None or isinstance(given, Schedule):
            return None if given is None else given._core
        return Schedule("fixed", given.base if isinstance(given, Plateau) else 0.0)._core

    @property
    def state_size(self) -> int:
        """The number of values that checkpoints save."""
        return len(self.schedule.first_state()) if isinstance(self.schedule, Plateau) else 0

    def start(self, trainer: "Trainer") -> None:
        self.trainer = trainer
        if isinstance(self.schedule, Plateau):
            trainer._core.schedule_state()[:] = self.schedule.first_state()

    def same_on_all_ranks(self) -> "dict[str, object] | None":
        return self.schedule.options() if isinstance(self.schedule, Plateau) else None

    def check(self, validates: bool) -> None:
        if isinstance(self.schedule, Plateau):
            self.schedule.monitor.check(validates)

    def on_record(self, record: Record) -> None:
        if isinstance(self.schedule, Plateau):
            state = self.trainer._core.schedule_state()
            state[:] = self.schedule.next_state(state.tolist(), record)

    def set_for(self, count: int, together: bool = True) -> int:
        """Sets the rates of the next steps, at most `count`, and returns of how many. Collective if `together`."""
        if not self.by_step:
            return count
        core, first = self.trainer._core, self.trainer.step_number
        count = min(count, MOST)
        if isinstance(self.schedule, Plateau):
            core.set_schedule(Schedule("fixed", float(core.schedule_state()[0]))._core)
        elif not isinstance(self.schedule, Schedule | None):
            core.set_schedule(self._of_steps("schedule", self.schedule, first, count, together))
        if not isinstance(self.momentum, Schedule | Plateau | None):
            core.set_momentum(self._of_steps("momentum", self.momentum, first, count, together))
        return count

    def _of_steps(
        self, name: str, function: Callable[[int], float], first: int, count: int, together: bool
    ) -> "_nn.Schedule":
        rates = [_checked(name, step, function(step)) for step in range(first, first + count)]
        if together:
            rates = self.trainer._sum([rate if self.trainer.rank == 0 else 0.0 for rate in rates])
        return Schedule("fixed_step", steps=range(first, first + count), rates=rates)._core

    def rate_at(self, step: int, without: float) -> float:
        """Returns the learning rate of a step, which is `without` if there is no schedule."""
        if isinstance(self.schedule, Plateau):
            return float(self.trainer._core.schedule_state()[0])
        return without if self.schedule is None else float(self.schedule(step))


def _checked(name: str, step: int, rate: object) -> float:
    try:
        number = float(rate)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise InvalidArgument(
            f"[Trainer] {name}: expected a finite rate of at least 0 at step {step}; received {rate!r}"
        )
    return number
