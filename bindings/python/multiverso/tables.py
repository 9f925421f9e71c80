"""Tables with the arguments that Multiverso's have."""

from collections.abc import Iterable
from typing import Any

import numpy
from numpy.typing import NDArray

import pleiad
from multiverso import api
from pleiad.options import dtype_name

Array = NDArray[Any]


def _as_array(data: Any, dtype: "numpy.dtype[Any]", where: str) -> Any:
    """What the table can take as it lies, or a copy in the table's type in which no value has changed.

    Python's own floats have no type of their own to keep and are rounded to the table's; anything else that the table's
    type cannot hold exactly is refused."""
    if isinstance(data, numpy.ndarray):
        if data.dtype == dtype and data.flags.c_contiguous:
            return data
        given = data
    elif hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        if dtype_name_or_none(data) == dtype.name:
            return data
        given = numpy.asarray(data)
    else:
        given = _from_numbers(data, where)
        if given.dtype == numpy.float64 and dtype == numpy.float32:
            with numpy.errstate(over="ignore"):
                rounded = given.astype(dtype)
            _refuse_first(given, numpy.isinf(rounded) & ~numpy.isinf(given), dtype, where)
            return rounded
    if given.dtype == dtype:
        return numpy.ascontiguousarray(given)
    if given.dtype.kind not in "fiub":
        raise pleiad.InvalidArgument(f"[{where}] expected numbers; received {given.dtype}")
    with numpy.errstate(over="ignore", invalid="ignore"):
        converted = given.astype(dtype, order="C")
        back = converted.astype(given.dtype)
    _refuse_first(given, (back != given) & ~((back != back) & (given != given)), dtype, where)
    return converted


def _from_numbers(data: Any, where: str) -> Array:
    """A list, a range, a generator, lists of them."""
    try:
        given = numpy.asarray(data if hasattr(data, "__len__") else list(data))
    except (TypeError, ValueError) as problem:
        raise pleiad.InvalidArgument(
            f"[{where}] expected an array or lists of numbers of equal length; received {type(data).__name__}: {problem}"
        ) from None
    if given.dtype == object or given.dtype.kind not in "fiub":
        raise pleiad.InvalidArgument(
            f"[{where}] expected an array or lists of numbers of equal length; received {type(data).__name__} of "
            f"{given.dtype}"
        )
    return given


def dtype_name_or_none(data: Any) -> str | None:
    try:
        return dtype_name(None, data)
    except pleiad.InvalidArgument:
        return None


def _refuse_first(given: Array, lost: NDArray[numpy.bool_], dtype: "numpy.dtype[Any]", where: str) -> None:
    if lost.any():
        value = given.reshape(-1)[int(lost.reshape(-1).argmax())]
        raise pleiad.InvalidArgument(
            f"[{where}] the table holds {dtype.name}, which cannot hold {value!r} of the {given.dtype} data exactly; "
            f"convert it (data.astype(numpy.{dtype.name})), or make the table with dtype=numpy.{given.dtype.name}"
        )


class TableHandler:
    """The interface of the handlers, for classes of one's own."""

    def get(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement get")

    def add(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not implement add")


class _Handler(TableHandler):
    """What both handlers have in common."""

    _table: "pleiad.ArrayTable | pleiad.MatrixTable"

    def __init__(self, init_value: Any, dtype: Any, name: str, given: dict[str, Any], where: str) -> None:
        session = api._session()
        self._where = where
        self._options = api._table_options(dtype_name(dtype), {**given, "name": name, "dtype": dtype_name(dtype)})
        # Only the master's values count; a world of servers alone has none.
        master = session.worker_rank(0) if session.workers else 0
        self._options.setdefault("init_rank", str(master))
        self._initial = None
        if init_value is not None and session.rank == int(self._options["init_rank"]):
            self._initial = _as_array(init_value, numpy.dtype(dtype_name(dtype)), where)

    @property
    def dtype(self) -> "numpy.dtype[Any]":
        return self._table.dtype

    @property
    def table(self) -> "pleiad.ArrayTable | pleiad.MatrixTable":
        """Pleiad's table under this handler."""
        return self._table


class ArrayTableHandler(_Handler):
    """A table of `size` numbers that all workers share. All workers create the same tables in the same order.

    init_value: the first values; only the master's count. dtype: float32 unless given. More options are those of a
    table of Pleiad's: clock, updater, check_finite and so on, for this table alone.

    >>> import multiverso as mv
    >>> mv.init()
    >>> table = mv.ArrayTableHandler(3, [1, 2, 3])
    >>> table.add([10, 10, 10], sync=True)
    >>> table.get()
    array([11., 12., 13.], dtype=float32)
    >>> mv.shutdown()
    """

    _table: pleiad.ArrayTable

    def __init__(
        self, size: int, init_value: Any = None, *, dtype: Any = numpy.float32, name: str = "", **options: Any
    ) -> None:
        super().__init__(init_value, dtype, name, options, "ArrayTableHandler")
        self._table = api._session()._create_array(size, self._initial, self._options)
        del self._initial

    def get(self, sync: bool = True, out: Any = None) -> Any:
        """The values, in a new one-dimensional NumPy array or in `out`. With sync=False it returns a `pleiad.Future`
        whose result is the array."""
        return self._table.get(out) if sync else self._table.get_async(out)

    def add(self, data: Any, sync: bool = False) -> None:
        """Hands `data` to the server. With sync=True it is applied on return; else at the latest after a barrier.
        `data` may be changed again on return."""
        delta = _as_array(data, self._table.dtype, "ArrayTableHandler.add")
        if sync:
            self._table.add(delta)
        else:
            self._table.add_async(delta)


class MatrixTableHandler(_Handler):
    """A table of `num_row` times `num_col` numbers that all workers share; the arguments are as for an array.

    >>> import multiverso as mv
    >>> mv.init()
    >>> table = mv.MatrixTableHandler(11, 2)
    >>> table.add([[1, 2], [3, 4]], row_ids=[0, 10], sync=True)
    >>> table.get([10, 0])
    array([[3., 4.],
           [1., 2.]], dtype=float32)
    >>> mv.shutdown()
    """

    _table: pleiad.MatrixTable

    def __init__(
        self,
        num_row: int,
        num_col: int,
        init_value: Any = None,
        *,
        dtype: Any = numpy.float32,
        name: str = "",
        **options: Any,
    ) -> None:
        super().__init__(init_value, dtype, name, options, "MatrixTableHandler")
        self._table = api._session()._create_matrix(num_row, num_col, self._initial, self._options)
        del self._initial

    def get(self, row_ids: Iterable[int] | None = None, sync: bool = True, out: Any = None) -> Any:
        """All rows, or those of `row_ids` in their order, in a new two-dimensional array or in `out`. With sync=False it
        returns a `pleiad.Future` whose result is the array."""
        return self._table.get(row_ids, out) if sync else self._table.get_async(row_ids, out)

    def add(self, data: Any = None, row_ids: Iterable[int] | None = None, sync: bool = False) -> None:
        """Hands `data`, a row for each of `row_ids` or all rows, to the server. With sync=True it is applied on return;
        else at the latest after a barrier. `data` may be changed again on return."""
        if data is None:
            raise pleiad.InvalidArgument("[MatrixTableHandler.add] data: expected an array; received None")
        delta = _as_array(data, self._table.dtype, "MatrixTableHandler.add")
        if sync:
            self._table.add(delta, row_ids)
        else:
            self._table.add_async(delta, row_ids)
