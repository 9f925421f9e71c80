"""Tables with the interface of Multiverso's handlers."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray

import pleiad
from multiverso import api
from pleiad import convert
from pleiad.options import dtype_name

Array = NDArray[Any]
Self = TypeVar("Self", bound="_Handler")


def _as_array(data: Any, dtype: "numpy.dtype[Any]", where: str, strict: bool) -> Any:
    """Converts `data`, which may be a list of numbers, to a contiguous array of the table's type, as `pleiad.convert` does."""
    if not isinstance(data, numpy.ndarray) and not hasattr(data, "__array__") and not hasattr(data, "__dlpack__"):
        return convert.from_numbers(data, dtype, f"[{where}] the table")
    converted = convert.for_table(data, dtype, f"[{where}] the table", strict)
    return numpy.ascontiguousarray(converted) if isinstance(converted, numpy.ndarray) else converted


class TableHandler:
    """The interface of the handlers, as a base class for user-defined ones."""

    def get(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement get")

    def add(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not implement add")


class _Handler(TableHandler):
    """The common part of both handlers."""

    _table: "pleiad.ArrayTable | pleiad.MatrixTable"

    _strict: bool

    def _wish(self, init_value: Any, dtype: Any, given: dict[str, Any], where: str) -> tuple[Any, dict[str, str]]:
        """Returns the initial values in the table's type, and the options as text."""
        session = api._session()
        name = dtype_name(dtype)
        options = api._table_options(name, {**given, "dtype": name})
        # Only the values of worker 0 are used; a job of servers only has no workers.
        master = session.worker_rank(0) if session.workers else 0
        options.setdefault("init_rank", str(master))
        if init_value is not None:
            init_value = _as_array(init_value, numpy.dtype(name), where, self._strict)
        return init_value, options

    def close(self) -> None:
        """Releases the table's memory on all workers. Collective. Without it the memory is released once every worker has
        dropped its handlers of the table, at the next creation of a table or barrier of all workers."""
        self._table.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other workers may never call close()
            self.close()

    @property
    def dtype(self) -> "numpy.dtype[Any]":
        return self._table.dtype

    @property
    def table(self) -> "pleiad.ArrayTable | pleiad.MatrixTable":
        """The Pleiad table that this handler uses."""
        return self._table


class ArrayTableHandler(_Handler):
    """A table of `size` elements that all workers share. All workers must create the same tables in the same order.

    Args:
        size: number of elements.
        init_value: initial values. Those of worker 0 are used; an error in those of any worker raises on all.
        dtype: element type, float32 by default.
        strict: accept only arrays of exactly this type. By default a floating-point table converts all numbers, and an integer
            table accepts integer types that it can hold without loss.
        more: options of this table, as for a Pleiad table: clock, updater, check_finite and so on.

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
        self,
        size: int,
        init_value: Any = None,
        *,
        dtype: Any = numpy.float32,
        name: str = "",
        strict: bool = False,
        **options: Any,
    ) -> None:
        self._strict = strict
        given = {**options, "name": name}
        self._table = api._session()._create_array(
            size, lambda: self._wish(init_value, dtype, given, "ArrayTableHandler"), strict
        )

    def get(self, sync: bool = True, out: Any = None) -> Any:
        """Returns the values as a new one-dimensional NumPy array, or in `out`. With sync=False, returns a `pleiad.Future`
        whose result is the array."""
        return self._table.get(out) if sync else self._table.get_async(out)

    def add(self, data: Any, sync: bool = False) -> None:
        """Sends `data` to the server. With sync=True it is applied on return, otherwise at the latest after a barrier. `data`
        may be changed on return."""
        delta = _as_array(data, self._table.dtype, "ArrayTableHandler.add", self._strict)
        if sync:
            self._table.add(delta)
        else:
            self._table.add_async(delta)


class MatrixTableHandler(_Handler):
    """A table of `num_row` times `num_col` elements that all workers share. The arguments are those of ArrayTableHandler.

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
        strict: bool = False,
        **options: Any,
    ) -> None:
        self._strict = strict
        given = {**options, "name": name}
        self._table = api._session()._create_matrix(
            num_row, num_col, lambda: self._wish(init_value, dtype, given, "MatrixTableHandler"), strict
        )

    def get(self, row_ids: Iterable[int] | None = None, sync: bool = True, out: Any = None) -> Any:
        """Returns all rows, or those of `row_ids` in that order, as a new two-dimensional array or in `out`. With sync=False,
        returns a `pleiad.Future` whose result is the array."""
        return self._table.get(row_ids, out) if sync else self._table.get_async(row_ids, out)

    def add(self, data: Any = None, row_ids: Iterable[int] | None = None, sync: bool = False) -> None:
        """Sends `data`, one row for each of `row_ids` or all rows, to the server. With sync=True it is applied on return,
        otherwise at the latest after a barrier. `data` may be changed on return."""
        if data is None:
            raise pleiad.InvalidArgument("[MatrixTableHandler.add] data: expected an array; received None")
        delta = _as_array(data, self._table.dtype, "MatrixTableHandler.add", self._strict)
        if sync:
            self._table.add(delta, row_ids)
        else:
            self._table.add_async(delta, row_ids)
