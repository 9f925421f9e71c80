"""Detects assignments to weights other than the changes that training makes."""

from collections.abc import Sequence
from typing import Any

import keras


class Watch:
    """Records the state of weights and tells whether they have changed since. On PyTorch it compares the version counters of the
    tensors and on JAX the identity of the arrays, so it reads no values."""

    def __init__(self, model: Any, weights: Sequence[Any]) -> None:
        # Excludes weights such as batch normalisation statistics, because evaluations may replace them by equal arrays.
        self._weights = [x for x in weights if x.trainable]
        self._marks: list[Any] = []
        self._model = model
        self._jax = keras.backend.backend() == "jax"

    def mark(self) -> None:
        """Records the current state."""
        self._marks = self._state()

    def changed(self) -> bool:
        """Returns whether weights were assigned since the last mark or training step, whichever came later."""
        now = self._state()
        if not self._jax:
            return self._marks != now
        # After a step on JAX, weights are attached to the model only when they are read.
        state = getattr(self._model, "_jax_state", None) or {}
        made = {
            id(x): value
            for x, value in zip(self._model.trainable_variables, state.get("trainable_variables") or [], strict=False)
        }
        return any(
            value is not None and value is not mark and value is not made.get(id(x))
            for x, value, mark in zip(self._weights, now, self._marks, strict=True)
        )

    def start(self) -> None:
        """Makes every training step of the model call `mark` when it is done."""
        model = self._model
        if self._jax or model.train_function is None:
            return
        plain = getattr(model.train_function, "_pleiad_plain", model.train_function)

        def step(*args: Any, **kwargs: Any) -> Any:
            logs = plain(*args, **kwargs)
            self.mark()
            return logs

        step._pleiad_plain = plain  # type: ignore[attr-defined]
        model.train_function = step

    def stop(self) -> None:
        """Undoes `start`."""
        if not self._jax:
            self._model.train_function = getattr(
                self._model.train_function, "_pleiad_plain", self._model.train_function
            )

    def _state(self) -> list[Any]:
        if self._jax:
            return [x._value for x in self._weights]
        return [(id(x.value), x.value._version) for x in self._weights]
