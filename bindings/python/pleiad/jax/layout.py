"""The layout of a pytree's leaves in the buffer of a table."""

from typing import Any

import jax
import numpy
from numpy.typing import NDArray

from pleiad import arrays
from pleiad.errors import InvalidArgument

ALIGNMENT = 64  # bytes; JAX copies arrays with a smaller alignment
HALF = ("float16", "bfloat16")


class Layout:
    """The positions of a pytree's leaves in one buffer."""

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
        """Returns one line per leaf; the lines of two ranks are equal if their pytrees can be exchanged."""
        return [f"{n} {s} {k}" for n, s, k in zip(self.names, self.shapes, self.kinds, strict=True)]

    def gather(self, tree: Any) -> NDArray[Any]:
        """Copies the leaves of a tree with this layout into a new buffer."""
        paths, structure = jax.tree_util.tree_flatten_with_path(tree)
        if structure != self.structure:
            raise InvalidArgument(
                f"[{self.where}] expected a pytree with the structure of the first one, {self.structure}; received {structure}"
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
        """Returns a tree whose leaves share the buffer's memory. The caller must not write to the buffer afterwards."""
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
        raise InvalidArgument(f"[{where}] dtype: expected float32 or float64; received {wanted}")
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
