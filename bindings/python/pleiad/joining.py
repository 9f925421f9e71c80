"""Training loops in which the ranks have different numbers of batches."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.worlds import all_workers

WHERE = "join"


class Join:
    """The iterator that `join` returns. Yields batches until all ranks have run out."""

    def __init__(self, batches: Iterable[Any], session: Session | None) -> None:
        if not isinstance(batches, Iterable):
            raise InvalidArgument(f"[{WHERE}] batches: expected an iterable; received {type(batches).__name__}")
        self.session = all_workers(session, WHERE)
        self.active = True  # False when the batch is a repetition because this rank has run out
        self.active_ranks = self.session.size
        self._batches = batches

    @property
    def weight(self) -> float:
        """1.0 for a batch of this rank, 0.0 for a repeated batch that does not count."""
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
                if max(states) < 1:  # true also if no rank has any batch
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
        """Hook that runs before each batch."""

    def _end(self) -> None:
        """Hook that runs when the loop ends, also by break or an exception."""


def join(batches: Iterable[Any], *, session: Session | None = None) -> Join:
    """Iterates over the batches of this rank, with the same number of iterations on all ranks. A rank that has run out receives
    its last batch again until all ranks have run out, with `weight` 0. All ranks therefore make the same collective calls.
    Collective: each batch costs one small exchange.

        batches = pleiad.join(mine)
        for x, y in batches:
            grads = pleiad.jax.all_reduce(gradient(params, x, y), weight=batches.weight)

    Average metrics with `pleiad.mean(loss, weight=batches.weight)`, or count them only if `batches.active`. For PyTorch use
    `pleiad.torch.join`.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     print(list(pleiad.join([1, 2])))
    [1, 2]
    """
    return Join(batches, session)
