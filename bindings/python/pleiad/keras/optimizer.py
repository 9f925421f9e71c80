"""Gradients averaged over all ranks, for any optimizer of Keras."""

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
    """Makes an optimizer of Keras average the gradients of all ranks before every step, and returns it. All ranks keep the
    same model, which is that of one process on the joined batch.

        model.compile(loss="mse", optimizer=pleiad.keras.DistributedOptimizer(keras.optimizers.Adam(1e-3), model=model))

    It works in `fit`, in a `train_step` of your own and in loops of your own, on PyTorch and on JAX, there inside the compiled
    step. It stays an instance of its class: schedules, `learning_rate`, `get_config` and saved files are as before. For
    mixed_float16, wrap the loss scaling too: DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer)).

    All ranks start with the trainable weights and the optimizer state of rank 0. model: its other weights too, those of
    frozen layers and the statistics of batch normalisation. average=False: gradients are summed. check_every: every so many steps the ranks compare their
    trainable weights and raise a StateError that names the first one that differs (on JAX, inside a compiled step, an error of
    JAX with the same message); 0 disables it.

    Collective: all ranks make it, and take the same number of steps.
    """
    check_backend(WHERE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidArgument(f"[{WHERE}] expected an optimizer of Keras; received {type(optimizer).__name__}")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgument(f"[{WHERE}] the optimizer averages gradients already")
    if model is not None and not isinstance(model, keras.Model):
        raise InvalidArgument(f"[{WHERE}] model: expected a keras.Model; received {type(model).__name__}")
    if check_every != 0:
        check_count(check_every, "check_every", WHERE)
    found = all_workers(session, WHERE)
    kind = type(optimizer)
    if kind not in _classes:
        # The same name and module, so that a saved model names the original class and loads without Pleiad.
        _classes[kind] = type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__})
    # Not by attributes: Keras would track them as state of the optimizer.
    optimizer.__dict__["_pleiad"] = _Settings(found, average, model, check_every)
    optimizer.__class__ = _classes[kind]
    agree(found, WHERE, [kind.__name__, str(average), str(check_every), f"built {optimizer.built}"])
    if optimizer.built:
        optimizer._share()
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    return isinstance(optimizer, _Distributed)


class _Settings:
    def __init__(self, session: Session, average: bool, model: Any, check_every: int) -> None:
        self.session = session
        self.average = average
        self.model = model
        self.joined = False  # whether ranks may have run out of batches (`Join`)
        self.check_every = check_every
        self.exchanged = False  # while the gradients of this step are those of all ranks


class _Distributed:
    """What is added to an optimizer's class."""

    _pleiad: _Settings

    def build(self, variables: Any) -> None:
        before = self.built  # type: ignore[attr-defined]
        super().build(variables)  # type: ignore[misc]
        if not before:
            self._share()

    def _share(self) -> None:
        """Gives all ranks the weights and the optimizer state of rank 0."""
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
                raise InvalidArgument(f"[{WHERE}.apply] expected the variables with the first gradients")
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
        """Compares the trained weights of all ranks, every so many steps."""
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
        if name == "loss_scale_factor" and value is None:  # LossScaleOptimizer does so with the optimizer that it wraps
            raise InvalidArgument(
                f"[{WHERE}] loss scaling must see the gradients of all ranks; wrap it as well: "
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
        """The exchanged gradients, and a number that is 0 if no rank is active, where ranks may have run out of batches."""
        from pleiad.jax import all_reduce

        settings = self._pleiad
        more = [numpy.float32(active)] if settings.joined else []
        made = list(all_reduce([*grads, *more], average=settings.average, session=settings.session))
        return (made[:-1], made[-1]) if settings.joined else (made, 1)

    def _take_part(self) -> bool:
        """Joins one exchange of other ranks with zero gradients. False if no rank had gradients. Collective."""
        settings, variables = self._pleiad, self.__dict__["_trainable_variables"]
        if keras.backend.backend() == "jax":
            zeros = [keras.ops.zeros(x.shape, x.dtype) for x in variables]
            return float(self._exchange_jax(zeros, False)[1]) > 0
        from pleiad.keras.torch_gradients import exchange

        return (
            exchange(settings.session, [None] * len(variables), variables, settings.average, WHERE, True, False)[1] > 0
        )
