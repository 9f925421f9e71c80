"""Images that are split into tiles over a grid of ranks (docs/spatial.md)."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, sessions
from pleiad.errors import InvalidArgument
from pleiad.options import dtype_name

Pair = int | Sequence[int]


def part_of(length: int, parts: int, index: int) -> slice:
    """Returns range `index` of a length split into `parts` ranges. The first length % parts ranges are longer by one.

    >>> from pleiad.spatial import part_of
    >>> [part_of(7, 3, i) for i in range(3)]
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    if parts < 1 or not 0 <= index < parts or length < 0:
        raise InvalidArgument(
            f"[part_of] expected 0 <= index < parts and length >= 0; received index {index}, parts {parts}, length {length}"
        )
    return slice(*_core.part_of(length, parts, index))


class GlobalArray:
    """A batch of images of shape (batch, height, width, channels), split over the ranks. Each rank holds one tile.
    Construction and all calls that exchange data are collective.

    Args:
        shape: the shape of the whole array.
        grid: "2x3" (rows x columns), "2x3x2" (rows x columns x groups), or None for one column of tiles.
        window: the window of the layer that reads the array, as its side or (height, width). It determines the halos.
        stride: stride of the window.
        pad: padding of the window.
        dilation: dilation of the window.
        pad_view: whether views contain zeros where windows extend beyond the image.
        dtype: element type.
        name: name of the array in messages.
        session: the session to use; by default the current one.

    >>> import numpy, pleiad
    >>> from pleiad.spatial import GlobalArray
    >>> with pleiad.init() as session:
    ...     array = GlobalArray((1, 4, 4, 1), window=3)
    ...     array.get_fprop_view(numpy.ones((1, 4, 4, 1), "float32")).shape
    (1, 4, 4, 1)
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        grid: "str | None" = None,
        window: Pair = 1,
        stride: Pair = 1,
        pad: Pair = 0,
        dilation: Pair = 1,
        pad_view: bool = False,
        dtype: Any = "float32",
        name: str = "array",
        session: "sessions.Session | None" = None,
    ) -> None:
        if len(shape) != 4:
            raise InvalidArgument(
                f"[GlobalArray] shape: expected (batch, height, width, channels); received {tuple(shape)}"
            )
        owner = sessions.session() if session is None else session
        self.dtype = numpy.dtype(dtype_name(dtype))
        self.shape = (int(shape[0]), int(shape[1]), int(shape[2]), int(shape[3]))
        self.grid = _core.grid(grid or f"{owner.size}x1", owner.size)
        windows = [
            (_side(window, "window", a), _side(stride, "stride", a), _side(pad, "pad", a), _side(pad, "pad", a))
            + (_side(dilation, "dilation", a),)
            for a in (0, 1)
        ]
        self._core = _core.GlobalArray(
            owner._core, name, self.shape, self.dtype.name, self.grid, windows[0], windows[1], pad_view
        )

    @property
    def global_shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.shape

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this rank's tile."""
        return tuple(self._core.local_shape)

    @property
    def view_shape(self) -> tuple[int, ...]:
        """The shape of this rank's tile with its halos."""
        return tuple(self._core.view_shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of this rank's tile of the layer's output, with the channels of the input."""
        return tuple(self._core.output_shape)

    @property
    def tile(self) -> tuple[slice, slice]:
        """The rows and columns of the image that this rank holds."""
        top, bottom, left, right = self._core.tile
        return slice(top, bottom), slice(left, right)

    @property
    def view(self) -> tuple[slice, slice]:
        """The rows and columns of the image that this rank's outputs depend on."""
        top, bottom, left, right = self._core.view
        return slice(top, bottom), slice(left, right)

    @property
    def sent_bytes(self) -> int:
        """The number of bytes that this rank has sent."""
        return self._core.sent_bytes

    def get_fprop_view(self, local: Any) -> NDArray[Any]:
        """Returns this rank's tile with its halos, as a new array. Collective."""
        view = numpy.empty(self.view_shape, self.dtype)
        self._core.fprop(self._local(local, self.local_shape), view)
        return view

    def get_bprop_view(self, error: Any) -> NDArray[Any]:
        """Returns the gradient of this rank's tile: the sum of all ranks' errors there. `error` has the shape of the view.
        Collective."""
        local = numpy.empty(self.local_shape, self.dtype)
        self._core.bprop(self._local(error, self.view_shape), local)
        return local

    def gather(self, local: Any) -> NDArray[Any]:
        """Returns the whole array on every rank. Collective."""
        whole = numpy.empty(self.shape, self.dtype)
        self._core.gather(self._local(local, self.local_shape), whole)
        return whole

    def scatter(self, whole: Any) -> NDArray[Any]:
        """Returns this rank's tile of a whole array. Exchanges nothing."""
        rows, columns = self.tile
        given = numpy.asarray(whole, self.dtype).reshape(self.shape)
        return numpy.ascontiguousarray(given[:, rows, columns])

    def _local(self, array: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        given = numpy.ascontiguousarray(array, self.dtype)
        if given.size != numpy.prod(shape, dtype=numpy.int64):
            raise InvalidArgument(f"[GlobalArray] expected an array of shape {shape}; received {given.shape}")
        return given.reshape(shape)

    def __repr__(self) -> str:
        return f"<pleiad.spatial.GlobalArray {self.shape} on a grid {self.grid}, here {self.local_shape}>"


def _side(given: Pair, name: str, axis: int) -> int:
    if isinstance(given, int):
        return given
    if len(given) != 2:
        raise InvalidArgument(f"[GlobalArray] {name}: expected a number or (height, width); received {given!r}")
    return int(given[axis])
