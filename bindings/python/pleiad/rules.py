"""Update rules of your own."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pleiad import _core
from pleiad.errors import InvalidArgument


class Rates(NamedTuple):
    """The numbers of one add: the table's, or those that the add brought."""

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
    """Makes an update rule known in this process, for tables created from now on: `updater=name`.

    `apply(value, delta, state, numbers, rates)` changes `value` in place, a NumPy view of a run of the table's values. `delta` (read
    only) is what an add brought, in rounds the sum of all workers' adds; `state` is a tuple of `arrays` views as long as `value`, and
    then of `worker_arrays` views that belong to the worker who adds; `numbers` are that many floats for a row of a matrix or a block
    of an array, else None. State starts as zero and is saved in snapshots. `additive`: two deltas one after another change the
    values as their sum does, so they may be summed on the way.

    Every process of the job registers the rule: it runs where the values lie, with their lock held. It must be quick, must not call
    Pleiad and must not keep the arrays. What it raises is a RuleError of the add. Without `apply` this is a decorator.

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
