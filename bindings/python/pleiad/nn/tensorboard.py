"""Event files that TensorBoard shows."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.engine import _nn
from pleiad.nn.history import Record


class EventLog:
    """Numbers, histograms and pictures by tag and step, in a file of a folder that `tensorboard --logdir` is given.

    >>> import tempfile
    >>> from pleiad import nn
    >>> log = nn.EventLog(tempfile.mkdtemp())
    >>> log.scalar("train/loss", 1, 0.5)
    >>> log.histogram("weights", 1, [1.0, 2.0, 2.5])
    >>> log.flush()
    """

    def __init__(self, folder: "str | PathLike[str]") -> None:
        self._core = _nn.EventLog(fspath(folder))

    @property
    def path(self) -> str:
        return self._core.path

    def scalar(self, tag: str, step: int, value: float) -> None:
        self._core.scalar(tag, step, value)

    def histogram(self, tag: str, step: int, values: Any) -> None:
        """How often which values come."""
        self._core.histogram(tag, step, numpy.ascontiguousarray(values, "float64").ravel())

    def pictures(self, tag: str, step: int, images: Any) -> None:
        """(samples, height, width, channels), or rows that make squares, side by side as one picture."""
        array = numpy.ascontiguousarray(images, "float32")
        if not self._core.pictures(tag, step, array):
            raise InvalidArgument(
                f"{tag}: expected (samples, height, width, channels) or rows that make squares; received {array.shape}"
            )

    def parameters(self, net: Any, step: int) -> None:
        """Histograms of all parameters, and pictures of filters."""
        self._core.parameters(net._core, step)

    def flush(self) -> None:
        self._core.flush()


class TensorBoard(Callback):
    """Writes what the history has as scalars after each record, and after each epoch, unless `details` is off, histograms of
    the parameters and pictures of filters; `pictures` names layers whose outputs are written as pictures too:
    reconstructions. Rank 0 writes."""

    def __init__(self, folder: "str | PathLike[str]", *, details: bool = True, pictures: Sequence[str] = ()) -> None:
        self.folder, self.details, self.pictures = folder, details, list(pictures)
        self.log: EventLog | None = None

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        for layer in self.pictures:
            if layer not in self.trainer.net.layers:
                raise InvalidArgument(f'TensorBoard: no layer "{layer}"; known: {", ".join(self.trainer.net.layers)}')
        if self.trainer.rank == 0 and self.log is None:
            self.log = EventLog(self.folder)

    def on_record(self, record: Record) -> None:
        if self.log is None:
            return
        for name, value in record.metrics.items():
            self.log.scalar(f"{record.phase}/{name}", record.step, value)
        self.log.scalar(f"{record.phase}/samples_per_second", record.step, record.samples_per_second)
        self.log.flush()

    def on_epoch(self, epoch: int) -> None:
        if self.log is None or not (self.details or self.pictures):
            return
        step = self.trainer.step_number
        if self.details:
            self.log.parameters(self.trainer.net, step)
        for layer in self.pictures:
            self.log.pictures(f"outputs/{layer}", step, self.trainer.net.output(layer))
        self.log.flush()
