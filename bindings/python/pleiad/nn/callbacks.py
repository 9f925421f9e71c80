"""What a trainer calls while it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pleiad.errors import InvalidArgument
from pleiad.nn.history import Record

if TYPE_CHECKING:
    from pleiad.nn.trainer import Trainer


class Callback:
    """Derive from it and override what is of interest. Any of the methods may return False, which ends the run after the
    step that is under way, on all ranks. Where `on_step` is overridden on any rank, the run stops for it after every step.
    Ranks may have different callbacks, such as a log on rank 0 alone. A callback that changes the net is needed on all of
    them; `same_on_all_ranks` has `fit` check that."""

    trainer: "Trainer"

    def same_on_all_ranks(self) -> "dict[str, Any] | None":
        """The options that must be the same on all ranks; None if the callback need not exist on all of them."""
        return None

    def on_begin(self, epochs: int, steps_per_epoch: int) -> "bool | None": ...

    def on_step(self, step: int, metrics: dict[str, float]) -> "bool | None":
        """After each step, with this rank's metrics of it."""

    def on_progress(self, epoch: int, done: int, metrics: dict[str, float]) -> "bool | None":
        """About ten times a second: steps of this epoch so far, and the averages since the last record."""

    def on_record(self, record: Record) -> "bool | None":
        """After each epoch, and every `log_every` steps; training and validation each."""

    def on_epoch(self, epoch: int) -> "bool | None": ...

    def on_end(self) -> None: ...


class EarlyStopping(Callback):
    """Ends the run when `monitor` has not improved by `min_delta` for `patience` records. mode: min, max, or auto: max for
    accuracies. restore_best: the net gets the numbers of the best record back. All ranks need it, with the same options.

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
        mode: str = "auto",
        restore_best: bool = False,
    ) -> None:
        if mode not in ("auto", "min", "max"):
            raise InvalidArgument(f"mode: expected auto, min or max; received {mode!r}")
        self._options = {
            "monitor": monitor,
            "patience": patience,
            "min_delta": float(min_delta),
            "mode": mode,
            "restore_best": bool(restore_best),
        }
        self.phase = "validate" if monitor.startswith("val_") else "train"
        self.metric = monitor.removeprefix("val_")
        self.sign = 1 if mode == "max" or (mode == "auto" and "accuracy" in monitor) else -1
        self.patience, self.min_delta, self.restore_best = patience, min_delta, restore_best
        self.best: float | None = None
        self.best_step = 0
        self._since = 0
        self._kept: dict[str, Any] | None = None

    def same_on_all_ranks(self) -> dict[str, Any]:
        return self._options

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        self.best, self._since, self._kept = None, 0, None

    def on_record(self, record: Record) -> "bool | None":
        if record.phase != self.phase:
            return None
        if self.metric not in record.metrics:
            raise InvalidArgument(f'EarlyStopping: no metric "{self.metric}"; known: {", ".join(record.metrics)}')
        value = record.metrics[self.metric]
        if self.best is None or self.sign * (value - self.best) > self.min_delta:
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
    """Writes the history into a file after each epoch; rank 0's only."""

    def __init__(self, path: "str | Path") -> None:
        self.path = path

    def on_epoch(self, epoch: int) -> None:
        if self.trainer.rank == 0:
            self.trainer.history.write_csv(self.path)


class Call(Callback):
    """A plain function of each record."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def on_record(self, record: Record) -> "bool | None":
        answer = self.function(record)
        return answer if isinstance(answer, bool) else None
