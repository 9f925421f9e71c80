"""Epochs of `fit` in which the ranks have different numbers of batches."""

from typing import Any

import keras
import numpy

from pleiad.errors import InvalidArgument
from pleiad.keras.optimizer import is_distributed
from pleiad.keras.weights import attach_state, broadcast

WHERE = "keras.Join"


class Join(keras.callbacks.Callback):  # type: ignore[misc]
    """Supports ranks with different numbers of batches in an epoch. A rank that has run out of batches takes part in the steps
    of the others with zero gradients; the average is over all ranks, as with DDP's join. At the end of the epoch all ranks take
    the trainable weights and the optimizer state of a rank that had the most batches. Put it first in the list of callbacks:

        model.fit(x, y, callbacks=[pleiad.keras.Join(), pleiad.keras.AverageMetrics()])

    The model's optimizer must be a `DistributedOptimizer`. All ranks must use it, with the same number of epochs (collective).
    """

    def on_train_begin(self, logs: Any = None) -> None:
        if not is_distributed(self.model.optimizer):
            raise InvalidArgument(
                f"[{WHERE}] expected a model compiled with a DistributedOptimizer; received "
                f"{type(self.model.optimizer).__name__}"
            )
        self._set_joined(True)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._under_way = True

    def on_test_begin(self, logs: Any = None) -> None:
        self._wait()  # before the validation at the end of an epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._wait()

    def on_train_end(self, logs: Any = None) -> None:
        self._set_joined(False)

    def _set_joined(self, joined: bool) -> None:
        self._under_way = False
        self.model.optimizer._pleiad.joined = joined
        if keras.backend.backend() == "jax":  # the compiled step depends on `joined`
            self.model.make_train_function(force=True)

    def _wait(self) -> None:
        """Takes part in the steps of other ranks until all have called it. Collective."""
        if not getattr(self, "_under_way", False):
            return
        self._under_way = False
        optimizer = self.model.optimizer
        session = optimizer._pleiad.session
        if session.size == 1:
            return
        steps = 0
        while optimizer._take_part():
            steps += 1
        idle = session.all_gather(numpy.array([steps], numpy.int64)).reshape(-1)
        if idle.any():
            attach_state(self.model)
            variables = [*optimizer.__dict__["_trainable_variables"], *optimizer.variables]
            broadcast(session, variables, WHERE, int(idle.argmin()))
