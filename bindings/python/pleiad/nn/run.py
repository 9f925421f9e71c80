"""One call of `Trainer.fit`: its epochs, records, checkpoints and callbacks."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.evaluation import evaluate
from pleiad.nn.extent import Extent
from pleiad.nn.feeds import SampleFeed, StreamFeed
from pleiad.nn.history import History, Record

if TYPE_CHECKING:
    from pleiad.nn.data import Source
    from pleiad.nn.trainer import Trainer

TICK = 0.1  # seconds between checks for progress output and Ctrl-C


class Run:
    """One call of `fit`."""

    def __init__(
        self,
        trainer: "Trainer",
        feed: "SampleFeed | StreamFeed",
        checks: "Source | None",
        extent: Extent,
        listeners: list[Callback],
    ) -> None:
        self.trainer, self.feed, self.checks = trainer, feed, checks
        self.extent, self.listeners = extent, listeners
        self.history = History()
        wants_steps = any(type(each).on_step is not Callback.on_step for each in listeners)
        self.every_step = trainer._sum([float(wants_steps)])[0] > 0  # all ranks make the same pieces
        self.started = self.logged = time.perf_counter()
        self.sums: dict[str, float] = {}  # of the metrics over the samples since the last record
        self.weight = 0.0  # number of samples that `sums` counts
        self.samples = 0.0  # number of samples since the last record
        self.wish = False
        self.saved = -1  # step of the last checkpoint

    def go(self) -> None:
        """Runs the epochs."""
        extent, trainer = self.extent, self.trainer
        self._tell("on_begin", extent.last, extent.steps or 0)
        done = extent.done
        self.feed.skip(done)
        trainer._epochs = extent.first - 1
        try:
            for epoch in range(extent.first, extent.last + 1):
                trainer._epochs = epoch
                if not self._epoch(epoch, done):
                    break
                done = 0
            if trainer._saves and self.saved != trainer.step_number:
                self._save()
        finally:
            for each in self.listeners:
                each.on_end()

    def _save(self) -> None:
        self.trainer._core.checkpoint()
        self.saved = self.trainer.step_number

    def _epoch(self, epoch: int, done: int) -> bool:
        t, steps, log_every = self.trainer, self.extent.steps, self.extent.log_every
        while steps is None or done < steps:
            made, stop = self._piece(self._most(done))
            done += made
            if t._every is not None and made and t.step_number % t._every == 0:
                self._save()
            self._tell("on_progress", epoch, done, self._means())
            ended = self.feed.ended  # the end of a pass over a stream
            if ended and done == 0:
                raise InvalidArgument("x: expected at least one batch; received none")
            if (made and (done == steps or (log_every and done % log_every == 0))) or (ended and self.weight > 0):
                self._record(epoch, "train", self._means(), self.samples)
                self.sums, self.weight, self.samples = {}, 0, 0
                stop = self._agreed() or stop
            if stop:
                return False
            if ended:
                break
        if self.checks is not None:
            self._record(epoch, "validate", *evaluate(t, self.checks, "validate"))
        self._tell("on_epoch", epoch)
        if t._saves and t._every is None:
            self._save()
        return not self._agreed()

    def _most(self, done: int) -> int:
        """Returns the number of steps until the next record, checkpoint or end of the epoch."""
        t, extent = self.trainer, self.extent
        most = t._chunk if extent.steps is None else extent.steps - done
        if extent.log_every is not None:
            most = min(most, extent.log_every - done % extent.log_every)
        return most if t._every is None else min(most, t._every - t.step_number % t._every)

    def _piece(self, most: int) -> tuple[int, bool]:
        """Makes some steps, the same number on all ranks. Returns their number and whether any rank wants to stop."""
        t = self.trainer
        start = time.perf_counter()
        wanted = t._rates.set_for(1 if self.every_step else min(t._chunk, most))
        done, seen, pairs = self.feed.train(wanted)
        sums = dict(pairs)
        if self.every_step and done:
            self._tell("on_step", t.step_number, {name: value / max(seen, 1) for name, value in sums.items()})
        each = (time.perf_counter() - start) / max(done, 1)
        chunk = max(1, min(int(TICK / max(each, 1e-7)), 100_000)) if t.rank == 0 else 0
        whole = t._sum([chunk, float(self.wish or t._ctrl_c.pressed), seen, *sums.values()])
        t._chunk = int(whole[0])
        self.samples += whole[2] * t._samples_counted_once
        self.weight += seen if t._alike else whole[2]
        for name, value in zip(sums, sums.values() if t._alike else whole[3:], strict=True):
            self.sums[name] = self.sums.get(name, 0.0) + value
        return done, whole[1] > 0

    def _means(self) -> dict[str, float]:
        return {name: value / max(self.weight, 1) for name, value in self.sums.items()}

    def _record(self, epoch: int, phase: str, metrics: dict[str, float], samples: float) -> None:
        t = self.trainer
        now = time.perf_counter()
        rate = samples / max(now - self.logged, 1e-9)
        record = Record(epoch, t.step_number, phase, metrics, now - self.started, rate)
        self.logged = now
        if t._ctrl_c.pressed and t._core.ranks == 1 and phase != "train":
            return  # the validation was interrupted before it had seen all samples
        self.history.records.append(record)
        t.history.records.append(record)
        self._tell("on_record", record)

    def _agreed(self) -> bool:
        return self.trainer._sum([float(self.wish or self.trainer._ctrl_c.pressed)])[0] > 0

    def _tell(self, event: str, *words: Any) -> None:
        for each in self.listeners:
            if getattr(each, event)(*words) is False:
                self.wish = True


def common_options(listeners: Sequence[Callback]) -> dict[str, Any]:
    """Returns the callbacks that all ranks need and their options, by the names that an error gives them."""
    found: dict[str, Any] = {}
    for each in listeners:
        options = each.same_on_all_ranks()
        if options is None:
            continue
        kind = name = type(each).__name__
        number = 1
        while name in found:
            number += 1
            name = f"{kind} {number}"
        found[name] = "a callback"
        found |= {f"{name}.{option}": value for option, value in options.items()}
    return found
