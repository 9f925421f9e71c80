"""The epochs and steps of a call of `Trainer.fit`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pleiad.errors import InvalidArgument
from pleiad.nn.data import Source
from pleiad.nn.stream import Stream

if TYPE_CHECKING:
    from pleiad.nn.trainer import Trainer


@dataclass
class Extent:
    """The epochs of a run."""

    first: int  # number of the first epoch, from 1
    last: int  # number of the last epoch
    done: int  # steps of the first epoch that a loaded checkpoint has already made
    steps: "int | None"  # steps of an epoch; None: those of a pass over a stream
    incomplete: bool  # whether each pass over the samples ends with an incomplete batch
    log_every: "int | None"  # steps between records of training; None: one record per epoch


def extent_of(
    trainer: "Trainer",
    data: Source,
    epochs: int,
    steps_per_epoch: "int | None",
    drop_last: bool,
    log_every: "int | None",
) -> Extent:
    """Returns the epochs of a run. Raises an InvalidArgument if its last batch cannot be trained."""
    if isinstance(data, Stream):
        if trainer._resumed and steps_per_epoch is None:
            raise InvalidArgument(
                f"[Trainer.fit] steps_per_epoch: expected the number of steps, because a run is resumed and the number of "
                f"samples of the {data.what} is unknown; received None"
            )
        before, done = divmod(trainer.step_number, steps_per_epoch or 1) if trainer._resumed else (trainer._epochs, 0)
        last = epochs if trainer._resumed else before + epochs
        return Extent(before + 1, last, done, steps_per_epoch, not drop_last, log_every or steps_per_epoch)
    count = len(data)
    incomplete = not drop_last and data._core.allows_incomplete
    if incomplete and count % trainer.batch:
        trainer._core.check_batch(count % trainer.batch)
    steps = steps_per_epoch or (-(-count // trainer.batch) if incomplete else max(1, count // trainer.batch))
    before, done = trainer._epochs, 0
    if trainer._resumed:
        before, done = divmod(trainer.step_number, steps)
        if incomplete and steps_per_epoch is None:
            before, within = divmod(trainer._core.current_place, count)
            done = -(-within // trainer.batch)
    last = epochs if trainer._resumed else before + epochs
    return Extent(before + 1, last, done, steps, incomplete, log_every or steps)


def expect_readable(epochs: int, **given: "Source | None") -> None:
    """Raises an InvalidArgument for a generator that several epochs need."""
    for name, source in given.items():
        if isinstance(source, Stream) and source.once and epochs > 1:
            raise InvalidArgument(
                f"[Trainer.fit] {name}: expected an iterable that can be read in each of {epochs} epochs; received a "
                f"{source.what}, which can be read once; pass a function that returns it"
                + (", or steps_per_epoch" if name == "x" else "")
            )


def length_of(source: Source) -> "int | str":
    """Returns the number of samples, or that it is unknown."""
    return "a stream" if isinstance(source, Stream) else len(source)
