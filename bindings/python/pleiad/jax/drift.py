"""Checks that all ranks still have the same parameters, also inside compiled functions."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy

from pleiad import drift
from pleiad.jax.collectives import _call, _traced
from pleiad.sessions import Session


def check(session: Session, names: Sequence[str], leaves: Sequence[Any], step: Any, every: int, where: str) -> None:
    """Compares the leaves of all ranks if `step` is a multiple of `every`. Collective. Inside a compiled function the call of that
    function raises a JAX error with the same message."""

    def host(step: Any, *values: Any) -> Any:
        prints = [drift.fingerprint(numpy.ascontiguousarray(x).reshape(-1).view(numpy.uint8)) for x in values]
        drift.compare(session, names, prints, int(step), where)
        return (step, *values)

    if not _traced([step, *leaves]):
        if int(step) % every == 0:
            host(step, *leaves)
        return

    def compared(values: list[Any]) -> None:
        _call(session, host, values, [x.dtype for x in values])

    jax.lax.cond(step % every == 0, compared, lambda _: None, [jax.numpy.asarray(x) for x in (step, *leaves)])
