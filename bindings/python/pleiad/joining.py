"""Loops over different numbers of batches on the ranks."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.worlds import all_workers

WHERE = "join"


class Join:
    """Iterates over the batches of this rank until all ranks have run out. Made by `join`."""

    def __init__(self, batches: Iterable[Any], session: Session | None) -> None:
        if not isinstance(batches, Iterable):
            raise InvalidArgument(f"[{WHERE}] batches: expected an iterable; received {type(batches).__name__}")
        self.session = all_workers(session, WHERE)
        self.active = True  # whether the batch is one of this rank's, or its last one again
        self.active_ranks = self.session.size
        self._batches = batches

    @property
    def weight(self) -> float:
        """1, or 0 for a batch that does not count."""
        return float(self.active)

    def __iter__(self) -> Iterator[Any]:
        own = iter(self._batches)
        last: Any = None
        had = False
        self.active, self.active_ranks = True, self.session.size
        try:
            while True:
                if self.active:
                    try:
                        last = next(own)
                        had = True
                    except StopIteration:
                        self.active = False
                states = [int(self.active) if had else -1]
                if self.session.size > 1:
                    states = self.session.all_gather(numpy.array(states, numpy.int64)).reshape(-1).tolist()
                if max(states) < 1:  # also where no rank has a batch at all
                    return
                if -1 in states:
                    raise InvalidArgument(
                        f"[{WHERE}] rank {states.index(-1)} has no batches; expected at least one on every rank"
                    )
                self.active_ranks = states.count(1)
                self._next()
                yield last
        finally:
            self.active, self.active_ranks = True, self.session.size
            self._end()

    def _next(self) -> None:
        """Called before each batch."""

    def _end(self) -> None:
        """Called when the loop has ended or was left."""


def join(batches: Iterable[Any], *, session: Session | None = None) -> Join:
    """The batches of this rank, for a loop that all ranks run equally often: a rank that has run out gets its last batch again
    until all ranks have, and `weight` is 0 for it. So all ranks make the same collective calls. Collective: each batch
    costs a small exchange.

        batches = pleiad.join(mine)
        for x, y in batches:
            grads = pleiad.jax.all_reduce(gradient(params, x, y), weight=batches.weight)

    Count metrics with `pleiad.mean(loss, weight=batches.weight)`, or only if `batches.active`. For PyTorch use
    `pleiad.torch.join`.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     print(list(pleiad.join([1, 2])))
    [1, 2]
    """
    return Join(batches, session)
