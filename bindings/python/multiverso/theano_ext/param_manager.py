"""All parameters of a model in one table, synced in one call."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import numpy

from multiverso.theano_ext.flat import FlatTable

Self = TypeVar("Self", bound="MVModelParamManager")


class MVModelParamManager:
    """Keeps the parameters of a model in step with one table. It starts with the master's values (where the master's are
    all zero and exactly one other worker's are not, with that worker's). Collective: all workers make the same managers
    in the same order.

    `model` is a list of shared variables of Theano or PyTensor. For another kind of model, derive from this class and
    say how to read and to write it: `get_all_param_values` and `set_all_param_values`.
    """

    def __init__(self, model: Any) -> None:
        self._start(model, None)

    def _start(self, model: Any, source: int | None, table: FlatTable | None = None) -> None:
        """With a `table` that an earlier manager of the model left, that one is started again."""
        self.model = model
        name = type(self).__name__
        values = self.get_all_param_values()
        if table is None:
            self._table = FlatTable(values, name=name, where=name, source=source)
        else:
            self._table = table
            table.start_again(values)
        self.set_all_param_values(self._table.values)

    def close(self) -> None:
        """Collective: releases the table's memory on all workers now. The manager cannot be used afterwards. Without it
        the memory is released once every worker has dropped its manager."""
        self._table.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other workers may not come to close()
            self.close()

    def get_all_param_values(self) -> Sequence[Any]:
        """The parameters' arrays, always in the same order. They are read at once, so that they may be the model's own
        memory."""
        return [variable.get_value(borrow=True) for variable in self.model]

    def set_all_param_values(self, params: Sequence[Any]) -> None:
        """Sets the model's parameters to these arrays, in the order of `get_all_param_values`. The arrays are overwritten
        by the next sync: they must be copied."""
        for variable, value in zip(self.model, params):
            variable.set_value(numpy.array(value, dtype=variable.dtype), borrow=True)

    def sync_all_param(self) -> None:
        """Adds what has changed in the parameters since the last call to the table, and sets them to the table's latest
        values. On a synchronous server all workers call it the same number of times."""
        self.set_all_param_values(self._table.sync(self.get_all_param_values()))


class KerasParamManager(MVModelParamManager):
    """For a model of Keras: 1 and 2 with the Theano back end, 3 on any. The model has its weights already (give its first
    layer an input shape, or build it); compiling may come later."""

    def __init__(self, model: Any, table: FlatTable | None = None) -> None:
        # Keras 3 on JAX keeps the weights outside the model while it trains.
        self._bring_back = getattr(model, "jax_state_sync", lambda: None)
        if not model.weights:
            raise ValueError(
                f'[KerasParamManager] expected a model with weights; "{model.name}" has none yet: '
                "give its first layer an input shape, or build it"
            )
        self._start(model, None, table)

    def get_all_param_values(self) -> Sequence[Any]:
        self._bring_back()
        return self.model.get_weights()  # type: ignore[no-any-return]

    def set_all_param_values(self, params: Sequence[Any]) -> None:
        # Copies, because JAX takes an array's memory as its own; in Keras 1 and 2 one more, as they copy themselves.
        self.model.set_weights([numpy.array(value) for value in params])
