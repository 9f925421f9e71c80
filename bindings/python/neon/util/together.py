"""Work that all ranks do: where it fails on one, all have the same error, and none waits for it."""

from collections.abc import Callable
from typing import TypeVar

from neon.util.distarray.global_array import comm
from pleiad.errors import Error

T = TypeVar("T")


class SharedError(Error):
    """All ranks raise it, with the same words."""


def together(work: "Callable[[], T]") -> T:
    """work() of this rank. Called by all ranks at the same place; what any of them meets, all raise as a SharedError."""
    if comm.size == 1:
        return work()
    problem, result = "", None
    try:
        result = work()
    except (Error, OSError, ImportError) as met:
        problem = str(met) or type(met).__name__
    texts = comm.gather_texts(problem)
    bad = [rank for rank, text in enumerate(texts) if text]
    if bad:
        first = texts[bad[0]]
        alike = len(bad) == comm.size and all(text == first for text in texts)
        raise SharedError(first if alike else f"rank {bad[0]}: {first}")
    return result  # type: ignore[return-value]


def expect_same(what: str, mine: str) -> None:
    """A SharedError on all ranks where `mine` is not the same everywhere."""
    texts = comm.gather_texts(mine)
    for rank, text in enumerate(texts):
        if text != texts[0]:
            raise SharedError(f"{what}: rank {rank} has {text}; rank 0 has {texts[0]}")
