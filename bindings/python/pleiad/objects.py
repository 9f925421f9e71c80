"""Metrics and Python objects of all ranks."""

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
    """The average of all ranks' values: a number, an array, or a dict of them, as metrics are. Numbers come back as floats, arrays
    as NumPy arrays of float64. weight: how much this rank's values count, as the number of samples they come from. Collective.

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
    # A rank of weight 0 adds nothing, not even a NaN.
    parts = [numpy.zeros(x.size) if weight == 0 else x.reshape(-1) * weight for x in held.values()]
    line = numpy.concatenate([numpy.array([float(weight)]), *parts])
    if found.size > 1:
        found.all_reduce(line)
    if line[0] == 0:
        raise InvalidArgument(f"[{where}] weight: expected a rank with more than 0; received 0 on all ranks")
    made: dict[str, Any] = {}
    at = 1
    for name, x in held.items():
        part = (line[at : at + x.size] / line[0]).reshape(x.shape)
        made[name] = part if x.shape else float(part)
        at += x.size
    return {name: made[str(name)] for name in named} if isinstance(values, Mapping) else made[""]


def _as_array(value: Any, name: str, where: str) -> NDArray[Any]:
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().to("cpu").double().numpy()
    x = numpy.asarray(value)
    if x.dtype.kind not in "biuf" and x.dtype.name != "bfloat16":
        label = f" of {name}" if name else ""
        raise InvalidArgument(
            f"[{where}] expected numbers or arrays of numbers; received {type(value).__name__}{label}"
        )
    return x.astype(numpy.float64)


def broadcast_object(x: Any = None, root: int = 0, *, session: Session | None = None) -> Any:
    """The Python object of the rank `root`, on all ranks, by pickle: options, vocabularies, names of files. Collective."""
    found = current() if session is None else session
    if not 0 <= root < found.size:
        raise InvalidArgument(f"[broadcast_object] root: expected a rank of {found.size}; received {root}")
    return all_gather_object(x if found.rank == root else None, session=found)[root] if found.size > 1 else x


def all_gather_object(x: Any, *, session: Session | None = None) -> list[Any]:
    """The Python objects of all ranks, by rank, by pickle. Collective.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     print(pleiad.all_gather_object({"rank": s.rank}))
    [{'rank': 0}]
    """
    found = current() if session is None else session
    problem, text = None, b""
    try:
        text = pickle.dumps(x)
    except Exception as error:  # the others must not wait for this rank
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
