"""Averages gradients over all ranks, for any Keras optimizer."""

from typing import Any

import keras
import numpy

from pleiad import drift
from pleiad.errors import InvalidArgument
from pleiad.keras.weights import broadcast, check_backend
from pleiad.sessions import Session
from pleiad.worlds import agree, all_workers, check_count

WHERE = "keras.DistributedOptimizer"
_classes: dict[type, type] = {}


def DistributedOptimizer(  # noqa: N802, it stands for a class, as in pleiad.torch
    optimizer: Any,
    *,
    model: Any = None,
    average: bool = True,
    check_every: int = 500,
    session: Session | None = None,
) -> Any:
    """Makes a Keras optimizer average the gradients of all ranks before every step, and returns it. All ranks keep the same
    model, equal to that of one process on the joined batch.

        model.compile(loss="mse", optimizer=pleiad.keras.DistributedOptimizer(keras.optimizers.Adam(1e-3), model=model))

    It works in `fit`, in a custom `train_step` and in custom loops, on PyTorch and on JAX, where it runs inside the compiled step.
    The optimizer remains an instance of its class: schedules, `learning_rate`, `get_config` and saved files work as before. For
    mixed_float16, wrap the loss scaling too: DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer)).

    All ranks must create it and take the same number of steps (collective). They start with the trainable weights and the
    optimizer state of rank 0.

    Args:
        optimizer: the optimizer to change.
        model: if given, its other weights (of frozen layers, batch normalisation statistics) start with those of rank 0 too.
        average: if False, gradients are summed.
        check_every: number of steps between checks that the trainable weights of all ranks are equal. A failed check raises a
            StateError that names the first weight that differs; inside a compiled step on JAX it is a JAX error with the same
            message. 0 disables it.
        session: the session to use; by default the current one.
    """
    check_backend(WHERE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidArgument(f"[{WHERE}] expected a Keras optimizer; received {type(optimizer).__name__}")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgument(f"[{WHERE}] the optimizer already averages gradients; wrap it only once")
    if model is not None and not isinstance(model, keras.Model):
        raise InvalidArgument(f"[{WHERE}] model: expected a keras.Model; received {type(model).__name__}")
    if check_every != 0:
        check_count(check_every, "check_every", WHERE)
    found = all_workers(session, WHERE)
    kind = type(optimizer)
    if kind not in _classes:
        # The same name and module, so that saved models name the original class and load without Pleiad.
        _classes[kind] = type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__})
    # Written to __dict__ directly, because Keras tracks attributes as state of the optimizer.
    optimizer.__dict__["_pleiad"] = _Settings(found, average, model, check_every)
    optimizer.__class__ = _classes[kind]
    agree(found, WHERE, [kind.__name__, str(average), str(check_every), f"built {optimizer.built}"])
    if optimizer.built:
        optimizer._share()
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    """Returns whether DistributedOptimizer was applied to an optimizer."""
    return isinstance(optimizer, _Distributed)


class _Settings:
    def __init__(self, session: Session, average: bool, model: Any, check_every: int) -> None:
        self.session = session
        self.average = average
        self.model = model
        self.joined = False  # whether ranks may have run out of batches (`Join`)
        self.check_every = check_every
        self.exchanged = False  # True while this step's gradients are those of all ranks


class _Distributed:
    """The methods that are added to an optimizer's class."""

    _pleiad: _Settings

    def build(self, variables: Any) -> None:
        before = self.built  # type: ignore[attr-defined]
        super().build(variables)  # type: ignore[misc]
        if not before:
            self._share()

    def _share(self) -> None:
        """Copies the weights and the optimizer state of rank 0 to all ranks. Collective."""
        settings, own = self._pleiad, self.__dict__
        variables = [*own["_trainable_variables"], *self.variables]  # type: ignore[attr-defined]
        if settings.model is not None:
            known = {id(x) for x in variables}
            variables += [x for x in settings.model.weights if id(x) not in known]
        broadcast(settings.session, variables, WHERE)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        settings = self._pleiad
        if settings.exchanged:
            return super().apply(grads, trainable_variables)  # type: ignore[misc]
        trainable_variables = None if trainable_variables is None else list(trainable_variables)
        if not self.built:  # type: ignore[attr-defined]
            if trainable_variables is None:
                raise InvalidArgument(f"[{WHERE}.apply] expected the variables with the first gradients; received None")
            self.build(trainable_variables)
        grads = self._exchange(list(grads), trainable_variables)
        settings.exchanged = True
        try:
            result = super().apply(grads, trainable_variables)  # type: ignore[misc]
        finally:
            settings.exchanged = False
        self._check([x.value for x in self.__dict__["_trainable_variables"]], self.iterations.value)  # type: ignore[attr-defined]
        return result

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        settings = self._pleiad
        grads = self._exchange(list(grads), None)
        settings.exchanged = True
        try:
            trained, own = super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]
        finally:
            settings.exchanged = False
        steps = [value for x, value in zip(self.variables, own, strict=True) if x is self.iterations]  # type: ignore[attr-defined]
        self._check(trained, steps[0])
        return trained, own

    def _check(self, values: list[Any], step: Any) -> None:
        """Compares the trainable weights of all ranks every `check_every` steps. Collective."""
        settings = self._pleiad
        if settings.session.size == 1 or settings.check_every == 0:
            return
        names = [x.path for x in self.__dict__["_trainable_variables"]]
        if keras.backend.backend() == "jax":
            from pleiad.jax.drift import check

            check(settings.session, names, values, step, settings.check_every, WHERE)
        elif int(step) % settings.check_every == 0:
            from pleiad.torch.start import fingerprint

            drift.compare(settings.session, names, [fingerprint(x) for x in values], int(step), WHERE)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "loss_scale_factor" and value is None:  # LossScaleOptimizer sets it on the optimizer that it wraps
            raise InvalidArgument(
                f"[{WHERE}] loss scaling must see the gradients of all ranks; wrap the LossScaleOptimizer instead: "
                f"DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
            )
        super().__setattr__(name, value)

    def _exchange(self, grads: list[Any], variables: Any) -> list[Any]:
        settings = self._pleiad
        if settings.session.size == 1 or not grads:
            return grads
        if keras.backend.backend() == "jax":
            return self._exchange_jax(grads, True)[0]
        from pleiad.keras.torch_gradients import exchange

        known = self.__dict__["_trainable_variables"] if variables is None else list(variables)
        return exchange(settings.session, grads, known, settings.average, WHERE, settings.joined)[0]

    def _exchange_jax(self, grads: list[Any], active: bool) -> tuple[list[Any], Any]:
        """Returns the exchanged gradients, and a number that is 0 if no rank is active (with `Join`)."""
        from pleiad.jax import all_reduce

        settings = self._pleiad
        more = [numpy.float32(active)] if settings.joined else []
        made = list(all_reduce([*grads, *more], average=settings.average, session=settings.session))
        return (made[:-1], made[-1]) if settings.joined else (made, 1)

    def _take_part(self) -> bool:
        """Takes part in one exchange with zero gradients. Returns False if no rank had gradients. Collective."""
        settings, variables = self._pleiad, self.__dict__["_trainable_variables"]
        if keras.backend.backend() == "jax":
            zeros = [keras.ops.zeros(x.shape, x.dtype) for x in variables]
            return float(self._exchange_jax(zeros, False)[1]) > 0
        from pleiad.keras.torch_gradients import exchange

        return (
            exchange(settings.session, [None] * len(variables), variables, settings.average, WHERE, True, False)[1] > 0
        )
