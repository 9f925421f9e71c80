"""Keeps all parameters of a model in one table and synchronizes them in one call."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import numpy

from multiverso.theano_ext.flat import FlatTable

Self = TypeVar("Self", bound="MVModelParamManager")


class MVModelParamManager:
    """Synchronizes the parameters of a model with one table. It starts with the values of worker 0, or, if those are all zero
    and those of exactly one other worker are not, with that worker's values. Collective: all workers must create the same
    managers in the same order.

    `model` is a list of shared variables of Theano or PyTensor. For another kind of model, derive from this class and override
    `get_all_param_values` and `set_all_param_values`, which read and write the model.
    """

    def __init__(self, model: Any) -> None:
        self._start(model, None)

    def _start(self, model: Any, source: int | None, table: FlatTable | None = None) -> None:
        """Creates the table, or restarts `table`, which an earlier manager of the model left."""
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
        """Releases the table's memory on all workers. The manager cannot be used afterwards. Collective. Without it the
        memory is released once every worker has dropped its manager."""
        self._table.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other workers may never call close()
            self.close()

    def get_all_param_values(self) -> Sequence[Any]:
        """Returns the arrays of the parameters, always in the same order. They may be the model's own memory, because they
        are read immediately."""
        return [variable.get_value(borrow=True) for variable in self.model]

    def set_all_param_values(self, params: Sequence[Any]) -> None:
        """Sets the model's parameters to copies of these arrays, in the order of `get_all_param_values`. The next sync
        overwrites the arrays, so they must be copied."""
        for variable, value in zip(self.model, params):
            variable.set_value(numpy.array(value, dtype=variable.dtype), borrow=True)

    def sync_all_param(self) -> None:
        """Adds the changes of the parameters since the last call to the table, and sets the parameters to the table's new
        values. On a synchronous server all workers must call it equally often."""
        self.set_all_param_values(self._table.sync(self.get_all_param_values()))


class KerasParamManager(MVModelParamManager):
    """The parameter manager of a Keras model: version 1 or 2 with the Theano back end, version 3 on any back end. The model must
    have weights already (give its first layer an input shape, or build it); it may be compiled later."""

    def __init__(self, model: Any, table: FlatTable | None = None) -> None:
        # During training, Keras 3 on JAX stores the weights outside the model.
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
        # Copies, because JAX takes ownership of an array's memory. Keras 1 and 2 copy themselves, so this is redundant there.
        self.model.set_weights([numpy.array(value) for value in params])
