"""Pleiad for JAX: pytrees of arrays, exchanged as one buffer.

    import pleiad, pleiad.jax

    session = pleiad.init()                              # a rank of `mpirun -np 4 python script.py`, or alone
    params = pleiad.jax.broadcast(params)                # all ranks begin with those of rank 0
    ...
    grads = pleiad.jax.all_reduce(jax.grad(loss)(params, batch))   # the average of all ranks

`ParameterManager` keeps the parameters in a table instead, synchronously or asynchronously. The arrays that come back lie
in one buffer, which JAX takes without a copy.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import jax
import numpy
from numpy.typing import NDArray

from pleiad import arrays
from pleiad.errors import InvalidArgument
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.worlds import agree, all_workers, check_clock, check_count, scaled

__all__ = ["ParameterManager", "all_reduce", "broadcast"]

ALIGNMENT = 64  # bytes: JAX copies what is not aligned so
HALF = ("float16", "bfloat16")
MODES = ("delta", "gradient")


class _Layout:
    """How the leaves of a pytree lie in one buffer."""

    def __init__(self, tree: Any, where: str, dtype: Any = None) -> None:
        paths, structure = jax.tree_util.tree_flatten_with_path(tree)
        self.structure: Any = structure
        if not paths:
            raise InvalidArgument(f"[{where}] expected a pytree with arrays; received one without")
        self.where = where
        self.names = [jax.tree_util.keystr(path) or "the array" for path, _ in paths]
        self.shapes = [tuple(numpy.shape(leaf)) for _, leaf in paths]
        self.kinds = [str(_dtype_of(leaf, name, where)) for name, (_, leaf) in zip(self.names, paths, strict=True)]
        self.dtype = numpy.dtype(_table_dtype(self.names, self.kinds, dtype, where))
        step = ALIGNMENT // self.dtype.itemsize
        self.places: list[slice] = []
        end = 0
        for shape in self.shapes:
            count = int(numpy.prod(shape, dtype=numpy.int64))
            self.places.append(slice(end, end + count))
            end += -(-count // step) * step
        self.size = max(end, 1)

    def lines(self) -> list[str]:
        return [f"{n} {s} {k}" for n, s, k in zip(self.names, self.shapes, self.kinds, strict=True)]

    def gather(self, tree: Any) -> NDArray[Any]:
        """The leaves of a tree of this layout in a new buffer."""
        paths, structure = jax.tree_util.tree_flatten_with_path(tree)
        if structure != self.structure:
            raise InvalidArgument(
                f"[{self.where}] expected a pytree like the first one, {self.structure}; received {structure}"
            )
        buffer: NDArray[Any] = arrays.empty((self.size,), self.dtype)
        end = 0
        for name, shape, kind, place, (_, leaf) in zip(
            self.names, self.shapes, self.kinds, self.places, paths, strict=True
        ):
            values = numpy.asarray(leaf)
            if values.shape != shape or str(values.dtype) != kind:
                raise InvalidArgument(
                    f"[{self.where}] {name}: expected {shape} {kind}; received {values.shape} {values.dtype}"
                )
            buffer[end : place.start] = 0
            buffer[place] = values.reshape(-1)
            end = place.stop
        buffer[end:] = 0
        return buffer

    def scatter(self, buffer: NDArray[Any]) -> Any:
        """A tree whose leaves lie in the buffer, which belongs to them from now on."""
        leaves = []
        for shape, kind, place in zip(self.shapes, self.kinds, self.places, strict=True):
            leaf = jax.dlpack.from_dlpack(buffer[place].reshape(shape)) if place.stop > place.start else None
            if leaf is None:
                leaf = jax.numpy.zeros(shape, kind)
            leaves.append(leaf if kind == self.dtype.name else leaf.astype(kind))
        return jax.tree_util.tree_unflatten(self.structure, leaves)


def _dtype_of(leaf: Any, name: str, where: str) -> Any:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        raise InvalidArgument(f"[{where}] {name}: expected an array; received {type(leaf).__name__}")
    return numpy.dtype(dtype)


def _table_dtype(names: list[str], kinds: list[str], asked: Any, where: str) -> str:
    wanted = None if asked is None else numpy.dtype(asked).name
    if wanted not in (None, "float32", "float64"):
        raise InvalidArgument(f"[{where}] dtype: a table holds float32 or float64; received {wanted}")
    expected = wanted or next((kind for kind in kinds if kind not in HALF), "float32")
    for name, kind in zip(names, kinds, strict=True):
        if kind not in ("float32", "float64", *HALF):
            raise InvalidArgument(f"[{where}] {name}: expected floating-point numbers; received {kind}")
        if kind in HALF and wanted != "float32":
            raise InvalidArgument(
                f"[{where}] {name} is {kind}; to hold it in float32 and convert at every exchange, pass dtype='float32'"
            )
        if kind not in HALF and kind != expected:
            raise InvalidArgument(f"[{where}] expected arrays of one dtype; {name} is {kind}, others are {expected}")
    return expected


def all_reduce(tree: Any, *, average: bool = True, dtype: Any = None, session: Session | None = None) -> Any:
    """The average (or the sum) of all ranks' pytrees of the same layout: gradients, metrics. Collective. dtype="float32"
    sums float16 and bfloat16 leaves in float32.

    >>> import jax.numpy, pleiad, pleiad.jax
    >>> with pleiad.init() as s:
    ...     print(pleiad.jax.all_reduce({"w": jax.numpy.ones(3)}))
    {'w': Array([1., 1., 1.], dtype=float32)}
    """
    where = "all_reduce"
    found = all_workers(session, where)
    if found.size == 1:
        return tree
    layout = _Layout(tree, where, dtype)
    buffer = layout.gather(tree)
    try:
        found.all_reduce(buffer)
    except Exception as problem:
        problem.add_note(f"of a pytree of {layout.size} {layout.dtype}; all ranks reduce the same pytrees in one order")
        raise
    if average:
        buffer *= buffer.dtype.type(1 / found.size)
    return layout.scatter(buffer)


def broadcast(tree: Any, root: int = 0, *, session: Session | None = None) -> Any:
    """The pytree of the rank `root`, on all ranks. Leaves may be of any type. Collective."""
    where = "broadcast"
    found = all_workers(session, where)
    if found.size == 1:
        return tree
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    held = [numpy.asarray(leaf) for _, leaf in paths]
    agree(
        found,
        where,
        [f"{jax.tree_util.keystr(path)} {x.shape} {x.dtype}" for (path, _), x in zip(paths, held, strict=True)],
    )
    text = b"".join(x.tobytes() for x in held)
    words = numpy.zeros(-(-len(text) // 4), numpy.int32)
    words.view(numpy.uint8)[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    if words.size:
        found.broadcast(words, root)
    at, made = 0, []
    for x in held:
        part = words.view(numpy.uint8)[at : at + x.nbytes]
        made.append(jax.numpy.asarray(numpy.frombuffer(part.tobytes(), x.dtype).reshape(x.shape)))
        at += x.nbytes
    return jax.tree_util.tree_unflatten(structure, made)


class ParameterManager:
    """Keeps a pytree of parameters in one table that all workers share.

        manager = pleiad.jax.ParameterManager(params, clock="sync")
        params = manager.params                   # the master's values at the start
        ...
        params = manager.sync(params)             # delta mode: my changes out, the others' in
        params = manager.sync(grads)              # gradient mode: the table's updater makes the step
        params = manager.finish(params)           # at the end: the same on all ranks

    mode, clock, updater, average, freq and dtype are those of `pleiad.torch.ParameterManager`. Collective: all ranks make
    it, with pytrees of the same layout.
    """

    def __init__(
        self,
        params: Any,
        *,
        mode: str = "delta",
        clock: str = "async",
        updater: "str | Mapping[str, Any] | Updater | None" = None,
        average: bool | None = None,
        freq: int = 1,
        dtype: Any = None,
        name: str = "parameters",
        session: Session | None = None,
    ) -> None:
        where = "ParameterManager"
        if mode not in MODES:
            raise InvalidArgument(f'[{where}] unknown mode "{mode}"; known: {", ".join(MODES)}')
        check_clock(clock, where)
        self.freq = check_count(freq, "freq", where)
        self.mode = mode
        self.session = all_workers(session, where)
        workers = self.session.workers
        average = (mode == "gradient" and clock == "sync") if average is None else average
        scale = 1 / workers if average else 1.0
        if mode == "gradient":
            rule = scaled(updater, scale, where)
        elif updater is not None:
            raise InvalidArgument(f"[{where}] an updater makes the step in gradient mode; mode is delta")
        else:
            rule = Updater("sgd", learning_rate=scale, ascend=True) if average and workers > 1 else Updater("sum")
        self._layout = _Layout(params, where, dtype)
        agree(self.session, where, [mode, clock, repr(rule), *self._layout.lines()])
        rounds = mode == "gradient" and clock == "sync" and workers > 1
        self.table: ArrayTable = self.session.array(
            self._layout.size,
            self._layout.gather(params),
            name=name,
            clock=clock,
            apply="round" if rounds else "each",
            updater=rule,
        )
        self._calls = 0
        self._last = self._held(self.table.get())

    @property
    def params(self) -> Any:
        """The values of the last exchange."""
        return self._layout.scatter(self._last.copy())

    def sync(self, tree: Any, *, learning_rate: float | None = None) -> Any:
        """Exchanges at every freq-th call and returns the parameters. Delta mode: `tree` are this worker's parameters,
        and come back as they are between exchanges. Gradient mode: `tree` are gradients; between exchanges it returns
        the parameters of the last one, and the gradients are lost, so accumulate them, or leave freq at 1."""
        self._calls += 1
        if self._calls % self.freq:
            return tree if self.mode == "delta" else self.params
        if self.mode == "gradient":
            buffer = self._layout.gather(tree)
            self.table.add_get(buffer, buffer, learning_rate=learning_rate)
            numpy.copyto(self._last, buffer)
            return self._layout.scatter(buffer)
        if learning_rate is not None:
            raise InvalidArgument("[ParameterManager.sync] the learning rate is the optimizer's: mode is delta")
        return self._exchange(tree)

    def pull(self) -> Any:
        """The table's values. What this worker has changed since its last sync is lost."""
        buffer = self.table.get()
        self._last = self._held(buffer.copy())
        return self._layout.scatter(buffer)

    def finish(self, tree: Any = None) -> Any:
        """Collective, at the end of training: hands in what is left (delta mode: `tree`, this worker's parameters),
        waits for all, and returns the table's values, the same bits on all ranks."""
        if self.mode == "delta" and tree is not None:
            self._exchange(tree)
        self.session.barrier()
        params = self.pull()
        self.session.barrier()
        return params

    def close(self) -> None:
        """Collective: releases the table's memory on all ranks now. Without it the memory is released once every rank has
        dropped its manager."""
        self.table.close()

    def __enter__(self) -> "ParameterManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other ranks may not come to close()
            self.close()

    def _exchange(self, tree: Any) -> Any:
        buffer = self._layout.gather(tree)
        self.table.exchange(buffer, self._last)
        self._last = self._held(self._last)
        return self._layout.scatter(buffer)

    def _held(self, buffer: NDArray[Any]) -> NDArray[Any]:
        """What leaves of half precision can hold of the values: the next change is counted from there."""
        for kind, place in zip(self._layout.kinds, self._layout.places, strict=True):
            if kind in HALF:
                buffer[place] = buffer[place].astype(jax.numpy.dtype(kind))
        return buffer
