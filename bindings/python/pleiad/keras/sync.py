"""A callback that keeps a model's weights in one table that all workers share."""

import weakref
from typing import Any

import keras
import numpy
from numpy.typing import NDArray

from pleiad import arrays
from pleiad.choices import TableClock
from pleiad.errors import InvalidArgument
from pleiad.keras.assignments import Watch
from pleiad.keras.weights import attach_state, check_backend
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.worlds import agree, all_workers, check_clock, check_count

WHERE = "keras.Sync"

# The tables of each model that was trained with a Sync. They live as long as the model does.
_tables: "weakref.WeakKeyDictionary[Any, dict[tuple[str, str, bool], tuple[Session, ArrayTable]]]" = (
    weakref.WeakKeyDictionary()
)


class Sync(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the model's weights in one table that all workers share. After every freq-th batch a worker's changes are added to
    the table, and the worker receives those of the others. All workers start with the weights of rank 0 and end with the same
    weights. Use `pleiad.keras.DistributedOptimizer` to train as one process would on the joined batch, and Sync to train without
    waiting for other workers.

    Args:
        clock: "async", or "sync", with which every exchange waits for that of all workers. All workers must then have the same
            number of batches.
        average: divide the changes by the number of workers; with "sync" the result is the average of their weights. False
            adds the changes, which is a larger step and needs a smaller learning rate. Weights that gradients do not train,
            such as batch normalisation statistics, always follow the average.
        freq: number of batches between exchanges.
        name: name of the table.
        session: the session to use; by default the current one.

    Weights that are assigned between batches, between two calls of `fit` or at the end of training (set_weights in a callback,
    EarlyStopping with restore_best_weights) count as an assignment, not as a change: all ranks receive the values of the lowest
    rank that assigned. During training with clock "async" the ranks cannot agree on one assignment, so it raises.
    """

    def __init__(
        self,
        *,
        clock: TableClock = "async",
        average: bool = True,
        freq: int = 1,
        name: str = "weights",
        session: Session | None = None,
    ) -> None:
        super().__init__()
        check_backend(WHERE)
        check_clock(clock, WHERE)
        self.freq = check_count(freq, "freq", WHERE)
        self.clock = clock
        self.average = average
        self.table: ArrayTable | None = None
        self._watch: Watch | None = None
        self._assigned_before_test = False
        self._name = name
        self._session = all_workers(session, WHERE)
        self._calls = 0

    def on_train_begin(self, logs: Any = None) -> None:
        weights = [x for x in self.model.weights if keras.backend.is_float_dtype(x.dtype)]
        if not weights:
            raise InvalidArgument(f"[{WHERE}] expected a model with weights; received one without")
        if self.table is not None and self._watch is not None:
            self._check(weights)
            self._gather()
            if not self._take_assignment(self._watch.changed()):
                self._pull()
            self._watch.start()
            return
        for x in weights:
            if keras.backend.standardize_dtype(x.dtype) != "float32":
                raise InvalidArgument(f"[{WHERE}] expected weights of float32; {x.path} is {x.dtype}")
        self._weights = weights
        self._shapes = [tuple(x.shape) for x in weights]
        places, end = [], 0
        for shape in self._shapes:
            count = int(numpy.prod(shape, dtype=numpy.int64))
            places.append(slice(end, end + count))
            end += -(-count // 16) * 16
        self._places = places
        self._values: NDArray[Any] = arrays.empty((max(end, 1),), numpy.dtype(numpy.float32))
        self._values[:] = 0
        lines = [f"{x.name} {shape}" for x, shape in zip(weights, self._shapes, strict=True)]
        agree(self._session, WHERE, [self.clock, str(self.average), *lines])
        workers = self._session.workers
        divides = self.average and workers > 1
        self._shared = [
            place for x, place in zip(weights, places, strict=True) if not x.trainable and not divides and workers > 1
        ]
        rule = Updater("sgd", learning_rate=1 / workers, ascend=True) if divides else Updater("sum")
        self._gather()
        self.table = self._table_of_model()
        if self.table is None:
            self.table = self._session.array(
                len(self._values), self._values, name=self._name, clock=self.clock, updater=rule
            )
            _tables.setdefault(self.model, {})[self._key()] = (self._session, self.table)
        self._watch = Watch(self.model, weights)
        self._pull()
        self._watch.start()

    def _key(self) -> tuple[str, str, bool]:
        return self._name, self.clock, self.average

    def _table_of_model(self) -> ArrayTable | None:
        """Returns the table that an earlier Sync created for this model, filled with the weights of rank 0, or None unless all
        ranks have one. Collective."""
        session, table = _tables.get(self.model, {}).get(self._key(), (None, None))
        fits = session is self._session and table is not None and not table.closed and table.size == len(self._values)
        if not self._session.all_gather(numpy.array([fits], numpy.int32)).all():
            return None
        assert table is not None
        table.set(self._values)
        return table

    def close(self) -> None:
        """Releases the table's memory on all ranks. Without this call the memory is released once every rank has dropped the
        callback and its model. Collective."""
        if self.table is not None:
            self.table.close()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        assert self._watch is not None
        self._assigned_while_training(self._watch.changed())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self._watch is not None
        self._calls += 1
        if not self._assigned_while_training(self._watch.changed()) and self._calls % self.freq == 0:
            self._exchange()

    def on_test_begin(self, logs: Any = None) -> None:
        self._assigned_before_test = self._watch is None or self._watch.changed()

    def on_test_end(self, logs: Any = None) -> None:
        if self._watch is not None and not self._assigned_before_test:
            attach_state(self.model)  # on JAX an evaluation attaches other arrays with the same values
            self._watch.mark()

    def on_train_end(self, logs: Any = None) -> None:
        assert self._watch is not None
        self._watch.stop()
        self._gather()
        if self._take_assignment(self._watch.changed()):
            return
        self._exchange()
        self._session.barrier()
        self._pull()
        self._session.barrier()

    def _assigned_while_training(self, mine: bool) -> bool:
        if self._session.workers == 1:
            return False  # the next exchange copies it to the table
        if self.clock == "sync":
            if mine:
                self._gather()
            return self._take_assignment(mine)
        if mine:
            raise InvalidArgument(
                f'[{WHERE}] weights were assigned during training with clock "async", where the ranks cannot agree on a value; '
                f'use clock="sync" or pleiad.keras.DistributedOptimizer'
            )
        return False

    def _take_assignment(self, mine: bool) -> bool:
        """If any rank has assigned weights, copies those of the lowest such rank to all and returns True. Collective."""
        flags = self._session.all_gather(numpy.array([mine], numpy.int32)).reshape(-1)
        if not flags.any():
            return False
        assert self.table is not None
        self.table.set(self._values, int(flags.argmax()))
        self._session.barrier()
        self._pull()
        self._session.barrier()
        return True

    def _exchange(self) -> None:
        assert self.table is not None
        self._check(self._weights)
        self._gather()
        for place in self._shared:
            before = self._last[place]
            self._values[place] = before + (self._values[place] - before) / self._session.workers
        self.table.exchange(self._values, self._last)
        self._scatter()

    def _pull(self) -> None:
        assert self.table is not None
        self.table.get(self._values)
        self._last = self._values.copy()
        self._scatter()

    def _check(self, weights: Any) -> None:
        now = [tuple(x.shape) for x in weights]
        if now != self._shapes or any(a is not b for a, b in zip(weights, self._weights, strict=True)):
            raise InvalidArgument(f"[{WHERE}] the model's weights have changed since training began; use a new Sync")

    def _gather(self) -> None:
        attach_state(self.model)
        for x, place in zip(self._weights, self._places, strict=True):
            self._values[place] = keras.ops.convert_to_numpy(x.value).reshape(-1)

    def _scatter(self) -> None:
        for x, shape, place in zip(self._weights, self._shapes, self._places, strict=True):
            x.assign(self._values[place].reshape(shape).copy())
        assert self._watch is not None
        self._watch.mark()
