"""Collectives on pytrees, in eager code and in compiled functions."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy
from numpy.typing import NDArray

from pleiad import arrays
from pleiad.errors import InvalidArgument
from pleiad.jax.layout import ALIGNMENT
from pleiad.jax.ordered import ordered_call
from pleiad.jax.weighted import weighted_mean
from pleiad.sessions import Session
from pleiad.worlds import agree, all_workers

SUM_DTYPES = ("float32", "float64", "int64")
_callback = threading.local()  # its attribute `running` is True while the thread runs a collective of compiled code


def all_reduce(
    tree: Any, *, average: bool = True, weight: Any = None, dtype: Any = None, session: Session | None = None
) -> Any:
    """Averages (or sums) the pytrees of all ranks, such as gradients or metrics. Collective.

    Args:
        tree: a pytree with the same layout on all ranks. Leaves may be arrays of real or complex numbers, integers or
            booleans, and Python numbers, in any mixture.
        average: if False, sum instead.
        weight: weight of this rank's leaves in the average, such as their number of samples: a number of at least 0, or an
            array in compiled code. A rank of weight 0 adds nothing, not even a NaN (see `pleiad.join`).
        dtype: type in which float16 and bfloat16 leaves are summed, "float32" (the default) or "float64". They keep their type.
        session: the session to use; by default the current one.

    The average of integers is floating-point, as with `jax.lax.pmean`. Arrays that JAX cannot hold (float64 without
    jax_enable_x64) are returned as NumPy arrays, and Python numbers as Python numbers.

    In compiled code (`jax.jit`, `lax.scan`, `lax.fori_loop`) the exchange is an ordered callback, so all ranks must run the
    same collectives in the same order. It cannot be differentiated or vmapped; reduce the gradients instead.

    >>> import jax.numpy, pleiad, pleiad.jax
    >>> with pleiad.init() as s:
    ...     print(pleiad.jax.all_reduce({"w": jax.numpy.ones(3)}))
    {'w': Array([1., 1., 1.], dtype=float32)}
    """
    where = "all_reduce"
    found = all_workers(session, where)
    half = "float32" if dtype is None else numpy.dtype(dtype).name
    if half not in ("float32", "float64"):
        raise InvalidArgument(f"[{where}] dtype: expected float32 or float64; received {half}")
    if weight is not None:
        if not average:
            raise InvalidArgument(f"[{where}] weight: expected None with average=False; received {weight!r}")
        return weighted_mean(tree, weight, lambda x: all_reduce(x, average=False, dtype=dtype, session=found))
    names, leaves, structure = _flatten(tree)
    plan = [_Sum(leaf, name, average, half) for leaf, name in zip(leaves, names, strict=True)]
    if not _traced(leaves):
        _settle(found)
        made = _reduce(found, [numpy.asarray(leaf) for leaf in leaves], plan, average)
        results = [_like(x, leaf) for x, leaf in zip(made, leaves, strict=True)]
    elif found.size == 1:
        _forget_at_end(found)
        results = [jax.numpy.asarray(leaf, one.traced) for leaf, one in zip(leaves, plan, strict=True)]
    else:

        def host(*values: Any) -> list[NDArray[Any]]:
            made = _reduce(all_workers(session, where), [numpy.asarray(x) for x in values], plan, average)
            return [x.astype(one.traced, copy=False) for x, one in zip(made, plan, strict=True)]

        results = _call(found, host, leaves, [one.traced for one in plan])
    return jax.tree_util.tree_unflatten(structure, results)


def broadcast(tree: Any, root: int = 0, *, session: Session | None = None) -> Any:
    """Returns the pytree of the rank `root` on all ranks. Leaves may be arrays of any type, random keys and Python numbers, which
    stay Python numbers. Works in compiled code as `all_reduce` does. Collective."""
    where = "broadcast"
    found = all_workers(session, where)
    names, leaves, structure = _flatten(tree)
    keys = [jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves]
    data = [leaf if key is None else jax.random.key_data(leaf) for leaf, key in zip(leaves, keys, strict=True)]
    for leaf, name in zip(data, names, strict=True):
        _check_leaf(leaf, name, where)
    results: list[Any]
    if not _traced(leaves):
        _settle(found)
        made = _send(found, [numpy.asarray(leaf) for leaf in data], names, root)
        results = [_like(x, leaf) for x, leaf in zip(made, data, strict=True)]
    elif found.size == 1:
        _forget_at_end(found)
        results = [jax.numpy.asarray(leaf) for leaf in data]
    else:
        data = [jax.numpy.asarray(leaf) for leaf in data]

        def host(*values: Any) -> list[NDArray[Any]]:
            return _send(all_workers(session, where), [numpy.asarray(x) for x in values], names, root)

        results = _call(found, host, data, [x.dtype for x in data])
    results = [
        x if key is None else jax.random.wrap_key_data(x, impl=key) for x, key in zip(results, keys, strict=True)
    ]
    return jax.tree_util.tree_unflatten(structure, results)


# Leaves.


def _flatten(tree: Any) -> tuple[list[str], list[Any], Any]:
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path) or "the array" for path, _ in paths]
    return names, [leaf for _, leaf in paths], structure


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, numpy.generic)


def _check_leaf(leaf: Any, name: str, where: str) -> None:
    if not _is_number(leaf) and not hasattr(leaf, "dtype"):
        raise InvalidArgument(f"[{where}] {name}: expected an array or a number; received {type(leaf).__name__}")
    if isinstance(leaf, int) and not -(2**63) <= leaf < 2**63:
        raise InvalidArgument(f"[{where}] {name}: expected an integer of 64 bits; received {leaf}")
    if isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind not in "biufcV":
        raise InvalidArgument(f"[{where}] {name}: expected an array of numbers; received {leaf.dtype}")


class _Sum:
    """How one leaf is reduced: the type in which it is summed, and the type of the result."""

    def __init__(self, leaf: Any, name: str, average: bool, half: str) -> None:
        where = "all_reduce"
        if _is_key(leaf):
            raise InvalidArgument(f"[{where}] {name} is a random key, which cannot be averaged; use broadcast")
        _check_leaf(leaf, name, where)
        held = numpy.asarray(leaf).dtype if _is_number(leaf) else numpy.dtype(leaf.dtype)
        kind = jax.numpy.dtype(held)
        self.complex = bool(jax.numpy.issubdtype(kind, jax.numpy.complexfloating))
        if self.complex:
            self.dtype = "float32" if kind == numpy.complex64 else "float64"
            self.out = held
        elif jax.numpy.issubdtype(kind, jax.numpy.floating):
            if kind.itemsize < 2:
                raise InvalidArgument(f"[{where}] {name}: expected at least 16 bits per value; received {kind}")
            self.dtype = half if kind.itemsize == 2 else kind.name
            self.out = held
        elif kind.kind in "biu":
            self.dtype = "int64"
            summed = numpy.dtype(numpy.int32) if kind.kind == "b" else held
            x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
            wide = kind.itemsize == 8 and (_is_number(leaf) or x64 or not _is_jax(leaf))
            self.out = numpy.dtype(numpy.float64 if wide else numpy.float32) if average else summed
        else:
            raise InvalidArgument(f"[{where}] {name}: expected numbers; received {kind}")
        self.traced = jax.dtypes.canonicalize_dtype(self.out)


def _is_jax(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


def _like(values: NDArray[Any], leaf: Any) -> Any:
    """Converts a result to the type of the argument: Python numbers stay such, and types that JAX would narrow stay NumPy."""
    if _is_number(leaf):
        return values.item()
    if jax.dtypes.canonicalize_dtype(values.dtype) != values.dtype:
        return values
    if values.dtype.name in ("float32", "float64", "int32", "int64") and values.size and values.flags.writeable:
        return jax.dlpack.from_dlpack(values)
    return jax.numpy.asarray(values)


# The exchange. It uses NumPy only, because code inside a callback must not wait for JAX.


def _reduce(found: Session, leaves: list[NDArray[Any]], plan: Sequence[_Sum], average: bool) -> list[NDArray[Any]]:
    made: list[Any] = [None] * len(leaves)
    for dtype in SUM_DTYPES:
        chosen = [i for i, one in enumerate(plan) if one.dtype == dtype]
        counts = [leaves[i].size * (2 if plan[i].complex else 1) for i in chosen]
        step = ALIGNMENT // numpy.dtype(dtype).itemsize
        begins = [sum(-(-count // step) * step for count in counts[:k]) for k in range(len(chosen))]
        if not sum(counts):
            for i in chosen:
                made[i] = numpy.zeros(leaves[i].shape, plan[i].out)
            continue
        buffer = arrays.empty((begins[-1] + counts[-1],), numpy.dtype(dtype))
        buffer[:] = 0
        for i, begin, count in zip(chosen, begins, counts, strict=True):
            values = numpy.ascontiguousarray(leaves[i]).reshape(-1)
            buffer[begin : begin + count] = values.view(dtype) if plan[i].complex else values
        divides = average and dtype != "int64"
        if found.size > 1:
            try:
                found.all_reduce(buffer, "mean" if divides else "sum")
            except Exception as problem:
                problem.add_note(
                    f"while reducing a pytree with {sum(counts)} {dtype}; all ranks must reduce the same pytrees in the same order"
                )
                raise
        for i, begin, count in zip(chosen, begins, counts, strict=True):
            values = buffer[begin : begin + count]
            if plan[i].complex:
                values = values.view(plan[i].out)
            elif average and dtype == "int64":
                values = values / found.size
            made[i] = values.astype(plan[i].out, copy=False).reshape(leaves[i].shape)
    return made


def _send(found: Session, held: list[NDArray[Any]], names: list[str], root: int) -> list[NDArray[Any]]:
    """Returns the arrays of the rank `root` as new arrays. Collective."""
    if not 0 <= root < found.size:
        raise InvalidArgument(f"[broadcast] root: expected 0 to {found.size - 1}; received {root}")
    agree(found, "broadcast", [f"{name} {x.shape} {x.dtype}" for name, x in zip(names, held, strict=True)])
    text = b"".join(x.tobytes() for x in held)
    words = numpy.zeros(-(-len(text) // 4), numpy.int32)
    octets = words.view(numpy.uint8)
    octets[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    if words.size and found.size > 1:
        found.broadcast(words, root)
    at, made = 0, []
    for x in held:
        made.append(numpy.frombuffer(octets[at : at + x.nbytes].tobytes(), x.dtype).reshape(x.shape))
        at += x.nbytes
    return made


# Compiled code.


def _traced(leaves: list[Any]) -> bool:
    """Returns whether code is being traced. Tracing also traces operations on constants, so creating one detects it."""
    if not leaves:
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in [*leaves, jax.numpy.zeros(())])


def _call(found: Session, host: Callable[..., Any], leaves: list[Any], kinds: Sequence[Any]) -> list[Any]:
    """Calls `host` with the leaves' values each time the compiled code reaches this point, in program order."""
    found.before_collective[_wait] = None

    def run(*values: Any) -> Any:
        _callback.running = True
        try:
            return tuple(host(*values))
        finally:
            _callback.running = False

    return ordered_call(run, [jax.numpy.asarray(leaf) for leaf in leaves], kinds)


def _wait() -> None:
    """Waits for running collectives of compiled functions, so that all ranks have one order."""
    if not getattr(_callback, "running", False):
        jax.effects_barrier()  # type: ignore[no-untyped-call]


def _settle(found: Session) -> None:
    for call in found.before_collective:
        call()


def _forget_at_end(found: Session) -> None:
    """Clears compiled code when the session ends. Code compiled with one rank contains no collectives, so a later session with
    more ranks must not reuse it."""
    found.at_end[jax.clear_caches] = None
