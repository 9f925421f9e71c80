"""Work that all ranks do: if it fails on one rank, all raise the same error, and none waits for that rank."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from neon.util.distarray.global_array import comm
from neon.util.registry import Component
from pleiad.errors import Error

T = TypeVar("T")


class SharedError(Error):
    """An error that all ranks raise, with the same message."""


def words_of(met: Exception) -> str:
    """Returns the message of an exception. One that neon raised for users needs no more; others get their type and position."""
    if isinstance(met, Error | OSError | ImportError):
        return str(met) or type(met).__name__
    last = traceback.extract_tb(met.__traceback__)[-1]
    return f"{type(met).__name__}: {met} ({Path(last.filename).name}:{last.lineno})"


def together(work: "Callable[[], T]") -> T:
    """Runs work() on this rank. Collective. If work() raises on any rank, all ranks raise a SharedError.

    work must not be collective: if it failed on one rank before its exchange, this rank's report of the failure would meet the
    exchange of the others."""
    if comm.size == 1:
        return work()
    problem, result, cause = "", None, None
    try:
        result = work()
    except Exception as met:  # work may run user code
        problem, cause = words_of(met), met
    texts = comm.gather_texts(problem)
    bad = [rank for rank, text in enumerate(texts) if text]
    if bad:
        first = texts[bad[0]]
        alike = len(bad) == comm.size and all(text == first for text in texts)
        raise SharedError(first if alike else f"rank {bad[0]}: {first}") from cause
    return result  # type: ignore[return-value]


def expect_same(what: str, mine: str) -> None:
    """Raises a SharedError on all ranks unless `mine` is equal everywhere. Collective."""
    texts = comm.gather_texts(mine)
    for rank, text in enumerate(texts):
        if text != texts[0]:
            raise SharedError(f"{what}: rank {rank} has {text}; rank 0 has {texts[0]}")


def expect_same_fields(**components: Component) -> None:
    """Raises a SharedError on all ranks that names the field in which components differ. Paths may differ. Collective."""
    if comm.size == 1:
        return
    mine = {name: value for head, each in components.items() for name, value in _fields_of(head, each).items()}
    first, *others = (json.loads(text) for text in comm.gather_texts(json.dumps(mine)))
    for rank, theirs in enumerate(others, 1):
        for name in {**first, **theirs}:
            a, b = first.get(name, "missing"), theirs.get(name, "missing")
            if a != b:
                raise SharedError(
                    f"the ranks were given different jobs: {name} is {a} on rank 0 and {b} on rank {rank}"
                )


def _fields_of(head: str, value: Any) -> "dict[str, str]":
    """Returns the fields of a component and of the components in it by their paths: {"model.layers[0].nofm": "16"}."""
    if isinstance(value, Component):
        names = [name for name in value.fields if not name.endswith("_path")]
        parts = [(f"{head}.{name}", getattr(value, name, None)) for name in names]
        found = {head: type(value).__name__}
    elif isinstance(value, list | tuple) and any(isinstance(each, Component) for each in value):
        parts = [(f"{head}[{place}]", each) for place, each in enumerate(value)]
        found = {}
    else:
        return {head: repr(value)}
    for name, part in parts:
        found |= _fields_of(name, part)
    return found
