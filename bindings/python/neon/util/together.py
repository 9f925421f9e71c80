"""Work that all ranks do: where it fails on one, all have the same error, and none waits for it."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from neon.util.distarray.global_array import comm
from pleiad.errors import Error

T = TypeVar("T")


class SharedError(Error):
    """All ranks raise it, with the same words."""


def words_of(met: Exception) -> str:
    """What neon says for a user is enough by itself; anything else needs its type and the place where it was raised."""
    if isinstance(met, Error | OSError | ImportError):
        return str(met) or type(met).__name__
    last = traceback.extract_tb(met.__traceback__)[-1]
    return f"{type(met).__name__}: {met} ({Path(last.filename).name}:{last.lineno})"


def together(work: "Callable[[], T]") -> T:
    """work() of this rank. Called by all ranks at the same place; what any of them meets, all raise as a SharedError.

    work must not be collective: where it failed on one rank before its own exchange, that rank's word of the failure would
    meet the others' exchange."""
    if comm.size == 1:
        return work()
    problem, result, cause = "", None, None
    try:
        result = work()
    except Exception as met:  # a user's code too
        problem, cause = words_of(met), met
    texts = comm.gather_texts(problem)
    bad = [rank for rank, text in enumerate(texts) if text]
    if bad:
        first = texts[bad[0]]
        alike = len(bad) == comm.size and all(text == first for text in texts)
        raise SharedError(first if alike else f"rank {bad[0]}: {first}") from cause
    return result  # type: ignore[return-value]


def expect_same(what: str, mine: str) -> None:
    """A SharedError on all ranks where `mine` is not the same everywhere."""
    texts = comm.gather_texts(mine)
    for rank, text in enumerate(texts):
        if text != texts[0]:
            raise SharedError(f"{what}: rank {rank} has {text}; rank 0 has {texts[0]}")
