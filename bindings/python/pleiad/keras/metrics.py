"""Averages of metrics over all ranks, for callbacks that decide by metrics."""

from typing import Any

import keras
import numpy

from pleiad.errors import InvalidArgument
from pleiad.keras.weights import attach_state, average
from pleiad.sessions import Session
from pleiad.worlds import all_workers

WHERE = "keras.AverageMetrics"


class AverageMetrics(keras.callbacks.Callback):  # type: ignore[misc]
    """Replaces the metrics of every epoch and every evaluation by their averages over all ranks. The callbacks that follow it
    in the list (EarlyStopping, ReduceLROnPlateau, ModelCheckpoint, History) then decide alike on all ranks, so put it first.

        model.fit(x, y, callbacks=[pleiad.keras.AverageMetrics(), keras.callbacks.EarlyStopping("val_loss")])

    Before each evaluation and at the end of each epoch it also averages the weights that gradients do not train, such as batch
    normalisation statistics; statistics=False disables this. All ranks must use it, with the same metrics and epochs (collective).
    """

    def __init__(self, *, statistics: bool = True, session: Session | None = None) -> None:
        super().__init__()
        self.statistics = statistics
        self._session = all_workers(session, WHERE)

    def on_test_begin(self, logs: Any = None) -> None:
        self._share_statistics()

    def on_test_end(self, logs: Any = None) -> None:
        self._average(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._share_statistics()
        self._average(logs)

    def _share_statistics(self) -> None:
        if not self.statistics or self._session.size == 1:
            return
        attach_state(self.model)
        average(self._session, [x for x in self.model.non_trainable_weights if keras.backend.is_float_dtype(x.dtype)])

    def _average(self, logs: Any) -> None:
        if self._session.size == 1 or not logs:
            return
        names = sorted(name for name, value in logs.items() if numpy.ndim(value) == 0)
        # Compares the numbers of metrics first, so that all ranks raise if they differ.
        counts = self._session.all_gather(numpy.array([len(names)], numpy.int64)).reshape(-1)
        if (counts != counts[0]).any():
            raise InvalidArgument(
                f"[{WHERE}] expected the same metrics on all ranks; received {counts.tolist()} metrics"
            )
        values = numpy.array([float(logs[name]) for name in names])
        self._session.all_reduce(values, "mean")
        logs.update(zip(names, values.tolist(), strict=True))
