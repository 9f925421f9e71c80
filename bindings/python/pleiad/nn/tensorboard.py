"""Event files for TensorBoard."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.engine import _nn
from pleiad.nn.history import Record


class EventLog:
    """Writes scalars, histograms and images by tag and step to an event file in a folder, for `tensorboard --logdir`.

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
        """The path of the event file."""
        return self._core.path

    def scalar(self, tag: str, step: int, value: float) -> None:
        """Writes one value."""
        self._core.scalar(tag, step, value)

    def histogram(self, tag: str, step: int, values: Any) -> None:
        """Writes the distribution of the values."""
        self._core.histogram(tag, step, numpy.ascontiguousarray(values, "float64").ravel())

    def pictures(self, tag: str, step: int, images: Any) -> None:
        """Writes images (samples, height, width, channels), or rows that form squares, side by side as one image."""
        array = numpy.ascontiguousarray(images, "float32")
        if not self._core.pictures(tag, step, array):
            raise InvalidArgument(
                f"{tag}: expected (samples, height, width, channels) or rows that form squares; received {array.shape}"
            )

    def parameters(self, net: Any, step: int) -> None:
        """Writes histograms of all parameters, and images of the filters."""
        self._core.parameters(net._core, step)

    def flush(self) -> None:
        """Writes buffered events to disk."""
        self._core.flush()


class TensorBoard(Callback):
    """Writes the metrics as scalars after each record. After each epoch it also writes histograms of the parameters and images
    of filters, unless details=False, and the outputs of the layers that `pictures` names as images. Rank 0 writes."""

    def __init__(self, folder: "str | PathLike[str]", *, details: bool = True, pictures: Sequence[str] = ()) -> None:
        self.folder, self.details, self.pictures = folder, details, list(pictures)
        self.log: EventLog | None = None

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        for layer in self.pictures:
            if layer not in self.trainer.net.layers:
                raise InvalidArgument(
                    f'[TensorBoard] unknown layer "{layer}"; known: {", ".join(self.trainer.net.layers)}'
                )
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
