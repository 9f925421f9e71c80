"""Weighted averages of pytrees over the ranks."""

from collections.abc import Callable
from typing import Any

import jax
import numpy

from pleiad.errors import InvalidArgument


def weighted_mean(tree: Any, weight: Any, total: Callable[[Any], Any]) -> Any:
    """Returns the sum of weight * leaf over the ranks, divided by the sum of the weights. `total` sums a pytree over the ranks."""
    if isinstance(weight, int | float | numpy.number) and not 0 <= weight < float("inf"):
        raise InvalidArgument(f"[all_reduce] weight: expected a number of at least 0; received {weight!r}")
    if numpy.ndim(weight) != 0:
        raise InvalidArgument(f"[all_reduce] weight: expected one number; received shape {numpy.shape(weight)}")
    sums, weights = total((jax.tree.map(lambda leaf: _times(leaf, weight), tree), 1.0 * weight))
    if not isinstance(weights, jax.core.Tracer) and float(weights) == 0:
        raise InvalidArgument("[all_reduce] weight: expected more than 0 on at least one rank; received 0 on all ranks")
    return jax.tree.map(lambda leaf, x: _divided(leaf, x, weights), tree, sums)


def _times(leaf: Any, weight: Any) -> Any:
    """Multiplies leaf by weight, in at least float32. Returns zero if the weight is zero, even if the leaf is not finite."""
    if _is_jax(leaf) or _is_jax(weight):
        leaf = jax.numpy.asarray(leaf)
        kind = jax.numpy.promote_types(leaf.dtype, jax.numpy.float32)
        return jax.numpy.where(jax.numpy.asarray(weight) == 0, 0, leaf.astype(kind) * weight).astype(kind)
    x = numpy.asarray(leaf)
    kind = numpy.promote_types(x.dtype, numpy.float64 if x.dtype.kind in "biu" else numpy.float32)
    product = numpy.zeros(x.shape, kind) if weight == 0 else x.astype(kind) * weight
    return product if isinstance(leaf, numpy.ndarray) else product.item()


def _divided(leaf: Any, total: Any, weights: Any) -> Any:
    """Divides in the type of the leaf; the result for integers is floating-point."""
    mean = total / weights
    kind = getattr(leaf, "dtype", None)
    return mean if kind is None or not jax.numpy.issubdtype(kind, jax.numpy.inexact) else mean.astype(kind)


def _is_jax(x: Any) -> bool:
    return isinstance(x, jax.Array | jax.core.Tracer)
