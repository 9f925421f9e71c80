"""A callback that synchronizes a Keras model during training: model.fit(X_train, Y_train, callbacks=[MVCallback(model)])."""

import operator
import weakref
from typing import Any

import keras

import pleiad
from multiverso import api
from multiverso.theano_ext.flat import FlatTable, ranks_where
from multiverso.theano_ext.param_manager import KerasParamManager

# The table of each model that has had a callback. It lives as long as the model does.
_tables: "weakref.WeakKeyDictionary[Any, FlatTable]" = weakref.WeakKeyDictionary()


class MVCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Synchronizes the model's weights after every `freq` mini-batches and at the end of training. Training starts with the
    weights of worker 0. On a synchronous server all workers must train the same number of mini-batches.

    The same callback serves Keras 1.2.2 and 2.3.1 with the Theano back end, and Keras 3 on PyTorch and JAX."""

    def __init__(self, model: Any, freq: int = 1) -> None:
        super().__init__()
        try:
            self._freq = operator.index(freq)
        except TypeError:
            self._freq = 0
        if self._freq < 1:
            raise pleiad.InvalidArgument(f"[MVCallback] freq: expected an integer of 1 or more; received {freq!r}")
        # A later callback for the same model reuses the table of the earlier one, on all workers or on none.
        table = _tables.get(model)
        fits = table is not None and bool(model.weights) and table.fits(model.get_weights())
        reuse = len(ranks_where(fits)) == api._session().size
        self._manager = KerasParamManager(model, table if reuse else None)
        _tables[model] = self._manager._table
        self._batches = 0

    def close(self) -> None:
        """Releases the table's memory on all workers. Collective."""
        self._manager.close()

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        if self._batches == self._freq:
            self._sync()

    def on_train_end(self, logs: Any = None) -> None:
        if self._batches:
            self._sync()

    def _sync(self) -> None:
        self._batches = 0
        self._manager.sync_all_param()
