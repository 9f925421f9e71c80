"""What a started get or add returns."""

import asyncio
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from pleiad import _core
from pleiad.errors import TimeoutError

T = TypeVar("T")


class Future(Generic[T]):
    """A get or add that was started. It can be waited for, asked, or awaited in asyncio.

    Dropping it is allowed: an add is carried out all the same, a get leaves its array alone from then on.

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
        """True once `wait` would return at once."""
        return self._pending.done()

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the operation is complete, or raises what went wrong in it. A `timeout` is in seconds."""
        if timeout is None:
            self._pending.wait()
        elif not self._pending.wait_for(timeout):
            raise TimeoutError(f"{self!r} is not complete after {timeout} s")

    def result(self, timeout: float | None = None) -> T:
        """Waits; then, of a get, the array that it filled, and of an add, None."""
        self.wait(timeout)
        return self._value

    def __await__(self) -> Generator[Any, None, T]:
        pause = 0.0
        while not self._pending.done():
            yield from asyncio.sleep(pause).__await__()
            pause = min(2 * pause + 2e-5, 2e-3)
        return self.result()

    def __repr__(self) -> str:
        return f"<pleiad.Future: {self._verb} {self._table!r}, {'done' if self.done() else 'under way'}>"
