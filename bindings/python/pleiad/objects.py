"""Averages of metrics, and exchange of Python objects between ranks."""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.sessions import session as current
from pleiad.worlds import agree


def mean(values: Any, *, weight: float = 1.0, session: Session | None = None) -> Any:
    """Averages values over all ranks: a number, an array, or a dict of them, such as metrics. Returns numbers as floats and
    arrays as float64 NumPy arrays. `weight` is the weight of this rank's values, such as their number of samples. Collective.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     print(pleiad.mean({"loss": 0.5, "accuracy": 1}, weight=32))
    {'loss': 0.5, 'accuracy': 1.0}
    """
    where = "mean"
    found = current() if session is None else session
    if not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
        raise InvalidArgument(f"[{where}] weight: expected a number of at least 0; received {weight!r}")
    named = values if isinstance(values, Mapping) else {"": values}
    held = {str(name): _as_array(value, str(name), where) for name, value in named.items()}
    agree(found, where, [f"{name} {x.shape}" for name, x in held.items()])
    # Zeros, because 0 * NaN would be NaN: a rank of weight 0 must not change the result.
    parts = [numpy.zeros(x.size) if weight == 0 else x.reshape(-1) * weight for x in held.values()]
    line = numpy.concatenate([numpy.array([float(weight)]), *parts])
    if found.size > 1:
        found.all_reduce(line)
    if line[0] == 0:
        raise InvalidArgument(f"[{where}] weight: expected more than 0 on at least one rank; received 0 on all ranks")
    made: dict[str, Any] = {}
    at = 1
    for name, x in held.items():
        part = (line[at : at + x.size] / line[0]).reshape(x.shape)
        made[name] = part if x.shape else float(part)
        at += x.size
    return {name: made[str(name)] for name in named} if isinstance(values, Mapping) else made[""]


def _as_array(value: Any, name: str, where: str) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a PyTorch tensor
        value = value.detach().to("cpu").double().numpy()
    x = numpy.asarray(value)
    if x.dtype.kind not in "biuf" and x.dtype.name != "bfloat16":
        label = f" of {name}" if name else ""
        raise InvalidArgument(
            f"[{where}] expected numbers or arrays of numbers; received {type(value).__name__}{label}"
        )
    return x.astype(numpy.float64)


def broadcast_object(x: Any = None, root: int = 0, *, session: Session | None = None) -> Any:
    """Returns the Python object of the rank `root` on all ranks, such as options or a vocabulary. Uses pickle. Collective."""
    found = current() if session is None else session
    if not 0 <= root < found.size:
        raise InvalidArgument(f"[broadcast_object] root: expected 0 to {found.size - 1}; received {root}")
    return all_gather_object(x if found.rank == root else None, session=found)[root] if found.size > 1 else x


def all_gather_object(x: Any, *, session: Session | None = None) -> list[Any]:
    """Returns the Python objects of all ranks, in rank order. Uses pickle. Collective.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     print(pleiad.all_gather_object({"rank": s.rank}))
    [{'rank': 0}]
    """
    found = current() if session is None else session
    problem, text = None, b""
    try:
        text = pickle.dumps(x)
    except Exception as error:  # raised below on all ranks, so that none waits for this one
        problem = error
    lengths = found.all_gather(numpy.array([-1 if problem else len(text)], numpy.int64)).reshape(-1).tolist()
    if -1 in lengths:
        raise InvalidArgument(
            f"[all_gather_object] the object of rank {lengths.index(-1)} cannot be pickled{f': {problem}' if problem else ''}"
        ) from problem
    line = numpy.zeros(-(-max(lengths) // 4), numpy.int32)
    line.view(numpy.uint8)[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    rows = found.all_gather(line)
    return [pickle.loads(row.view(numpy.uint8)[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]
