"""Conversion of arrays to the element type of a table.

A floating-point table accepts any array of integers or floating-point numbers and converts it. An integer table accepts
integer types whose whole range it can hold (int32 into int64), and refuses floating-point and wider integer types, whatever
the values are. With strict=True a table accepts only its own type.
"""

import array
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.half import to_float32


def for_table(data: Any, dtype: "numpy.dtype[Any]", table: str, strict: bool = False) -> Any:
    """Returns `data` itself if it has the table's type, or a converted copy. Returns objects that are not arrays unchanged.
    Raises InvalidArgument for types that the table does not accept. `table` is the prefix of the message, such as
    '[ArrayTable.add] table "w"'."""
    if isinstance(data, numpy.ma.MaskedArray):
        raise InvalidArgument(
            f"{table}: expected an array without a mask; received a MaskedArray; fill the masked values by data.filled(0)"
        )
    if isinstance(data, numpy.ndarray):
        if data.dtype == dtype:
            return data
        given, name = data, data.dtype.name
    elif isinstance(data, array.array | memoryview):
        given = numpy.asarray(data)
        name = given.dtype.name
        if given.dtype == dtype:
            return data
    else:
        own = getattr(data, "dtype", None)
        if own is None or not (hasattr(data, "__array__") or hasattr(data, "__dlpack__")):
            return data
        name = str(getattr(own, "name", own)).rpartition(".")[2]  # PyTorch's name is "torch.float32"
        if name == dtype.name:
            return data
        given = None
    _check(name, dtype, table, strict)
    try:
        if name == "bfloat16":
            given = to_float32(data)
        elif given is None:
            given = numpy.asarray(data) if hasattr(data, "__array__") else numpy.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as problem:
        raise InvalidArgument(f"{table}: cannot read the {type(data).__name__} of {name}: {problem}") from None
    return given.astype(dtype, order="C")


def from_numbers(data: Any, dtype: "numpy.dtype[Any]", table: str) -> NDArray[Any]:
    """Converts Python numbers (a list, nested lists, a range) to an array of the table's type. A floating-point table rounds
    them; an integer table accepts only integers. Raises InvalidArgument for numbers beyond the table's range."""
    try:
        given = numpy.asarray(data if hasattr(data, "__len__") else list(data))
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidArgument(
            f"{table}: expected an array or lists of numbers of equal length; received {type(data).__name__}: {problem}"
        ) from None
    if given.dtype.kind not in "fiub":
        raise InvalidArgument(
            f"{table}: expected an array or lists of numbers of equal length; received {type(data).__name__} of "
            f"{given.dtype}"
        )
    if dtype.kind == "f" or given.size == 0:
        with numpy.errstate(over="ignore"):
            rounded = given.astype(dtype)
        beyond = numpy.isinf(rounded) & ~numpy.isinf(given)
        if beyond.any():
            value = given.reshape(-1)[int(beyond.reshape(-1).argmax())]
            raise InvalidArgument(f"{table} holds {dtype.name}, whose range does not include {value}")
        return rounded
    if given.dtype.kind == "f":
        _check(given.dtype.name, dtype, table, False)
    limits = numpy.iinfo(dtype)
    for value in (int(given.min()), int(given.max())):
        if not limits.min <= value <= limits.max:
            raise InvalidArgument(f"{table} holds {dtype.name}, whose range does not include {value}")
    return given.astype(dtype)


def _check(name: str, dtype: "numpy.dtype[Any]", table: str, strict: bool) -> None:
    """Raises InvalidArgument unless a table of `dtype` accepts arrays of the type `name`."""
    if strict:
        raise InvalidArgument(f"{table} holds {dtype.name}, and strict=True accepts only that type; received {name}")
    try:
        kind: str = numpy.dtype(numpy.float32 if name == "bfloat16" else name).kind
    except TypeError:
        kind = "unknown"
    if kind not in ("f", "i", "u", "b"):
        raise InvalidArgument(
            f"{table} holds {dtype.name}: expected integers or floating-point numbers; received {name}"
        )
    if dtype.kind == "f" or (kind != "f" and numpy.can_cast(numpy.dtype(name), dtype, "safe")):
        return
    advice = f", or create the table with dtype={name}" if name in ("float32", "float64", "int64") else ""
    raise InvalidArgument(
        f"{table} holds {dtype.name}, which cannot hold every {name}; received {name}: convert the array "
        f"(x.astype(numpy.{dtype.name})){advice}"
    )
