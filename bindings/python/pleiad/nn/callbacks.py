"""Callbacks, which a trainer calls during a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pleiad.nn.history import Record
from pleiad.nn.monitor import Mode, Monitor

if TYPE_CHECKING:
    from pleiad.nn.trainer import Trainer


class Callback:
    """Base class of callbacks. Override the methods of interest. Any method may return False, which ends the run on all ranks
    after the current step. If any rank overrides `on_step`, the engine returns to Python after every step, which is slower.
    Ranks may have different callbacks, such as a log on rank 0 only. A callback that changes the net must exist on all ranks;
    `same_on_all_ranks` makes `fit` check that."""

    trainer: "Trainer"

    def same_on_all_ranks(self) -> "dict[str, Any] | None":
        """Returns the options that must be the same on all ranks, or None if the callback may exist on some ranks only."""
        return None

    def check(self, validates: bool) -> None:
        """Runs before the training. Raises an error if the callback cannot work: `validates` says whether `fit` has validation
        data."""

    def on_begin(self, epochs: int, steps_per_epoch: int) -> "bool | None":
        """Runs before the first epoch, with the number of the last epoch and the steps of each."""

    def on_step(self, step: int, metrics: dict[str, float]) -> "bool | None":
        """Runs after each step, with this rank's metrics of the step."""

    def on_progress(self, epoch: int, done: int, metrics: dict[str, float]) -> "bool | None":
        """Runs about ten times per second, with the steps done in this epoch and the averages since the last record."""

    def on_record(self, record: Record) -> "bool | None":
        """Runs after each epoch and every `log_every` steps, separately for training and validation."""

    def on_epoch(self, epoch: int) -> "bool | None":
        """Runs after each epoch, when its training and validation records exist."""

    def on_end(self) -> None:
        """Runs at the end of the run, also after an error."""


class EarlyStopping(Callback):
    """Ends the run when a metric has stopped improving. All ranks need it, with the same options.

    Args:
        monitor: the metric to watch; "val_loss" is the loss on the validation data.
        patience: number of records without improvement after which the run ends.
        min_delta: the least change that counts as an improvement.
        mode: "min", "max", or "auto", which maximises accuracies and minimises other metrics.
        restore_best: whether the net gets the values of the best record back at the end.

    >>> import numpy
    >>> from pleiad import nn
    >>> net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> x, y = numpy.ones((8, 3)), numpy.zeros(8, int)
    >>> stop = nn.EarlyStopping("loss", patience=2, min_delta=0.5)
    >>> len(nn.Trainer(net, batch=8).fit(x, y, epochs=50, callbacks=[stop], progress=False))
    3
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 3,
        min_delta: float = 0,
        mode: Mode = "auto",
        restore_best: bool = False,
    ) -> None:
        self._monitor = Monitor("EarlyStopping", monitor, min_delta, mode)
        self.patience, self.restore_best = patience, restore_best
        self.best: float | None = None
        self.best_step = 0
        self._since = 0
        self._kept: dict[str, Any] | None = None

    def same_on_all_ranks(self) -> dict[str, Any]:
        return {**self._monitor.options(), "patience": self.patience, "restore_best": bool(self.restore_best)}

    def check(self, validates: bool) -> None:
        self._monitor.check(validates)

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        self.best, self._since, self._kept = None, 0, None

    def on_record(self, record: Record) -> "bool | None":
        value = self._monitor.value(record)
        if value is None:
            return None
        if self._monitor.improves(value, self.best):
            self.best, self.best_step, self._since = value, record.step, 0
            if self.restore_best:
                self._kept = self.trainer.net.state_dict()
            return None
        self._since += 1
        return self._since < self.patience

    def on_end(self) -> None:
        if self._kept is not None:
            self.trainer.net.load_state_dict(self._kept)


class CsvLog(Callback):
    """Writes the history to a CSV file after each epoch, on rank 0."""

    def __init__(self, path: "str | Path") -> None:
        self.path = path

    def on_epoch(self, epoch: int) -> None:
        if self.trainer.rank == 0:
            self.trainer.history.write_csv(self.path)


class Call(Callback):
    """Wraps a function that is called with each record."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def on_record(self, record: Record) -> "bool | None":
        answer = self.function(record)
        return answer if isinstance(answer, bool) else None
