"""Arrays of images whose tiles lie on a grid of ranks (docs/spatial.md)."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, sessions
from pleiad.errors import InvalidArgument
from pleiad.options import dtype_name

Pair = int | Sequence[int]


def part_of(length: int, parts: int, index: int) -> slice:
    """Part `index` of a length that is cut into `parts`: the first length % parts are one longer.

    >>> from pleiad.spatial import part_of
    >>> [part_of(7, 3, i) for i in range(3)]
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    if parts < 1 or not 0 <= index < parts or length < 0:
        raise InvalidArgument(f"expected a part of {parts} parts of a length; received part {index} of {length}")
    return slice(*_core.part_of(length, parts, index))


class GlobalArray:
    """Images of all ranks together, (batch, height, width, channels), of which each rank holds a tile.

    grid: "2x3" (rows, columns), "2x3x2" (and groups), or None: the ranks in one row of tiles. window: the window of the
    layer that reads the array (its side, or (height, width)), with stride, pad and dilation: from it the halos follow.
    pad_view: views hold zeros where windows reach past the image. All ranks make it together, and its calls.

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
            raise InvalidArgument(f"expected (batch, height, width, channels); received {tuple(shape)}")
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
        return self.shape

    @property
    def local_shape(self) -> tuple[int, ...]:
        return tuple(self._core.local_shape)

    @property
    def view_shape(self) -> tuple[int, ...]:
        return tuple(self._core.view_shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """This rank's tile of what the window makes of the array, with as many channels."""
        return tuple(self._core.output_shape)

    @property
    def tile(self) -> tuple[slice, slice]:
        """The rows and columns of the image that this rank holds."""
        top, bottom, left, right = self._core.tile
        return slice(top, bottom), slice(left, right)

    @property
    def view(self) -> tuple[slice, slice]:
        """Those that its outputs need."""
        top, bottom, left, right = self._core.view
        return slice(top, bottom), slice(left, right)

    @property
    def sent_bytes(self) -> int:
        return self._core.sent_bytes

    def get_fprop_view(self, local: Any) -> NDArray[Any]:
        """This rank's tile with its halos, in a new array."""
        view = numpy.empty(self.view_shape, self.dtype)
        self._core.fprop(self._local(local, self.local_shape), view)
        return view

    def get_bprop_view(self, error: Any) -> NDArray[Any]:
        """The sum of all ranks' errors at this rank's places; `error` is by the view that get_fprop_view gave."""
        local = numpy.empty(self.local_shape, self.dtype)
        self._core.bprop(self._local(error, self.view_shape), local)
        return local

    def gather(self, local: Any) -> NDArray[Any]:
        """The whole array, on every rank."""
        whole = numpy.empty(self.shape, self.dtype)
        self._core.gather(self._local(local, self.local_shape), whole)
        return whole

    def scatter(self, whole: Any) -> NDArray[Any]:
        """This rank's tile of a whole array; nothing is exchanged."""
        rows, columns = self.tile
        given = numpy.asarray(whole, self.dtype).reshape(self.shape)
        return numpy.ascontiguousarray(given[:, rows, columns])

    def _local(self, array: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        given = numpy.ascontiguousarray(array, self.dtype)
        if given.size != numpy.prod(shape, dtype=numpy.int64):
            raise InvalidArgument(f"expected an array of shape {shape}; received {given.shape}")
        return given.reshape(shape)

    def __repr__(self) -> str:
        return f"<pleiad.spatial.GlobalArray {self.shape} on a grid {self.grid}, here {self.local_shape}>"


def _side(given: Pair, name: str, axis: int) -> int:
    if isinstance(given, int):
        return given
    if len(given) != 2:
        raise InvalidArgument(f"{name}: expected a number, or (height, width); received {given!r}")
    return int(given[axis])
