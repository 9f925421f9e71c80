"""How a run of `fit` gets its batches."""

import zlib
from typing import TYPE_CHECKING

from pleiad.errors import InvalidArgument, StateError
from pleiad.nn.stream import Batch, Batches, Stream

if TYPE_CHECKING:
    from pleiad.nn.data import Dataset
    from pleiad.nn.indexed import Indexed
    from pleiad.nn.stores import StoreSamples
    from pleiad.nn.trainer import Trainer

#: Steps made, samples of this rank in them, and the metrics summed over these samples.
Made = tuple[int, int, list[tuple[str, float]]]


class SampleFeed:
    """Samples with a known number, which the engine reads."""

    def __init__(self, trainer: "Trainer", data: "Dataset | StoreSamples | Indexed", incomplete: bool) -> None:
        self.trainer, self.data, self.incomplete = trainer, data, incomplete
        self.ended = False  # a pass has no end of its own: the number of steps is known

    def train(self, steps: int) -> Made:
        return self.trainer._core.train(self.data._core, steps, self.incomplete)

    def skip(self, steps: int) -> None:
        """Skips the batches of steps that a loaded checkpoint has made: the engine knows its position."""


class StreamFeed:
    """A stream of batches, which Python reads. `ended` says whether the last call of `train` has reached the end of a pass."""

    def __init__(self, trainer: "Trainer", stream: Stream, incomplete: bool, endless: bool) -> None:
        self.trainer, self.stream = trainer, stream
        self.batches = Batches(stream, trainer.batch, complete=not incomplete)
        self.endless = endless  # epochs have a given number of steps, and continue where the previous one ended
        self.ended = False
        self.sums: list[tuple[str, float]] = []

    def skip(self, steps: int) -> None:
        for _ in range(steps):
            self._next()

    def train(self, steps: int) -> Made:
        done = seen = 0
        self.ended = False
        sums: dict[str, float] = {name: 0.0 for name, _ in self.sums}
        while done < steps and not (self.trainer._core.ranks == 1 and self.trainer._ctrl_c.pressed):
            batch = self._next()
            self._expect_same(batch)
            if batch is None:
                self.ended = True
                break
            rows, pairs = self._step(batch)
            seen += rows
            done += 1
            self.sums = pairs
            for name, value in pairs:
                sums[name] = sums.get(name, 0.0) + value
        return done, seen, list(sums.items())

    def _next(self) -> "Batch | None":
        batch = self.batches.next()
        if batch is None and self.endless:
            if self.stream.once:
                raise StateError(
                    f"x ({self.stream.what}): the iterator ended before the steps_per_epoch of all epochs were made"
                )
            batch = self.batches.next()
            if batch is None:
                raise InvalidArgument(f"x ({self.stream.what}): expected at least one batch; received none")
        return batch

    def _step(self, batch: Batch) -> tuple[int, list[tuple[str, float]]]:
        arrays, factors = batch
        net, core = self.stream.net, self.trainer._core
        begin, end = core.prepare_batch(len(next(iter(arrays.values()))))
        net._core.weigh_samples(factors is not None)
        if end > begin:
            for name, array in arrays.items():
                net.write_input(name, array[begin:end])
            if factors is not None:
                net._core.sample_weights()[...] = factors[begin:end]
        return end - begin, core.step_prepared()

    def _expect_same(self, batch: "Batch | None") -> None:
        """Raises an InvalidArgument on all ranks unless all have read the same samples. Collective."""
        t = self.trainer
        if t._core.ranks == 1:
            return
        code = 0
        for array in () if batch is None else (*batch[0].values(), *([] if batch[1] is None else [batch[1]])):
            code = zlib.crc32(array.data if array.flags.c_contiguous else array.tobytes(), code)
        code = 0 if batch is None else 1 + (code & 0xFFFF)
        total, squares = t._sum([float(code), float(code * code)])
        if squares * t._core.ranks != total * total:  # the variance is 0 only if all are equal; both sides are exact
            raise InvalidArgument(
                f"x ({self.stream.what}): step {t.step_number}: expected the same samples on every rank; the ranks read "
                "different ones; give a shuffle the same seed on all ranks (DataLoader(generator=...))"
            )
