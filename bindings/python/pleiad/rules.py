"""User-defined update rules."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pleiad import _core
from pleiad.errors import InvalidArgument


class Rates(NamedTuple):
    """The settings of one add: those passed with the add, or else those of the table."""

    learning_rate: float
    momentum: float
    rho: float
    lambda_: float


def register_rule(
    name: str,
    apply: Callable[..., None] | None = None,
    *,
    arrays: int = 0,
    worker_arrays: int = 0,
    numbers: int = 0,
    additive: bool = False,
) -> Any:
    """Registers an update rule in this process, for tables created afterwards with `updater=name`. Every process of the job
    must register it. Without `apply` this is a decorator.

    Args:
        name: the name of the rule.
        apply: `apply(value, delta, state, numbers, rates)` changes `value` in place. `value` is a NumPy view of a contiguous
            range of the table's values. `delta` is read-only: the values of one add, or with apply="round" the sum of all
            workers' adds. `state` is a tuple of `arrays` views as long as `value`, followed by `worker_arrays` views that
            belong to the worker that adds. `numbers` is an array of that many floats for each row of a matrix or block of
            an array, or None. `rates` are the settings of the add.
        arrays: number of state arrays that all workers share. State starts as zero, and snapshots save it.
        worker_arrays: number of state arrays per worker.
        numbers: number of state floats per row or block.
        additive: whether two deltas in sequence have the effect of their sum, so that they may be summed in transit.

    The function runs in the process that stores the values, while it holds their lock. It must be fast, must not call Pleiad
    and must not keep references to the arrays. The add raises its exceptions as a RuleError.

    >>> import numpy, pleiad
    >>> @pleiad.register_rule("sign")
    ... def sign(value, delta, state, numbers, rates):
    ...     value -= rates.learning_rate * numpy.sign(delta)
    """
    if apply is None:
        return lambda function: register_rule(
            name, function, arrays=arrays, worker_arrays=worker_arrays, numbers=numbers, additive=additive
        )
    if not callable(apply):
        raise InvalidArgument(f'[register_rule] "{name}": expected a function; received {type(apply).__name__}')
    _core.register_rule(name, apply, Rates, arrays, worker_arrays, numbers, additive)
    return apply
