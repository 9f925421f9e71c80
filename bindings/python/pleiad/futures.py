"""The handle of a pending get or add."""

import asyncio
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from pleiad import _core
from pleiad.errors import TimeoutError

T = TypeVar("T")


class Future(Generic[T]):
    """A pending get or add. Call `wait` or `result`, poll `done`, or await it in asyncio.

    It may be dropped: an add is still applied, and a get no longer writes to its array.

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     table = s.array(3)
    ...     added = table.add_async(numpy.ones(3, numpy.float32))
    ...     added.wait()
    ...     print(table.get_async().result())
    [1. 1. 1.]
    """

    __slots__ = ("_pending", "_table", "_value", "_verb")

    def __init__(self, pending: _core.Pending, value: T, verb: str, table: object) -> None:
        self._pending = pending
        self._value = value
        self._verb = verb
        self._table = table

    def done(self) -> bool:
        """Returns whether the operation is complete, so that `wait` returns immediately."""
        return self._pending.done()

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until the operation is complete. Raises its error, or a TimeoutError after `timeout` seconds."""
        if timeout is None:
            self._pending.wait()
        elif not self._pending.wait_for(timeout):
            raise TimeoutError(f"{self!r} did not complete within {timeout} s")

    def result(self, timeout: float | None = None) -> T:
        """Waits, then returns the array that a get filled, or None for an add."""
        self.wait(timeout)
        return self._value

    def __await__(self) -> Generator[Any, None, T]:
        pause = 0.0
        while not self._pending.done():
            yield from asyncio.sleep(pause).__await__()
            pause = min(2 * pause + 2e-5, 2e-3)
        return self.result()

    def __repr__(self) -> str:
        return f"<pleiad.Future: {self._verb} {self._table!r}, {'done' if self.done() else 'pending'}>"
