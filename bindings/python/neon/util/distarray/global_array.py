"""GlobalArray: images of which each rank holds a tile; its views have the halos. comm: this process's place in the world."""

from typing import Any

import numpy

import pleiad
from pleiad.spatial import GlobalArray, part_of


class Comm:
    """rank, size and a few collectives of the session; a world of one where none is open."""

    @property
    def rank(self) -> int:
        session = pleiad.sessions._current
        return 0 if session is None else session.rank

    @property
    def size(self) -> int:
        session = pleiad.sessions._current
        return 1 if session is None else session.size

    def all_reduce(self, array: Any) -> Any:
        """Sums an array over the ranks, in place."""
        if self.size > 1:
            pleiad.session().all_reduce(array)
        return array

    def barrier(self) -> None:
        if self.size > 1:
            pleiad.session().barrier()

    def gather_texts(self, mine: str) -> "list[str]":
        """Every rank's text, by rank."""
        if self.size == 1:
            return [mine]
        data = mine.encode()
        lengths = numpy.zeros(self.size, numpy.int64)
        lengths[self.rank] = len(data)
        self.all_reduce(lengths)
        words = numpy.zeros((self.size, int(lengths.max()) // 8 + 1), numpy.int64)
        words[self.rank] = numpy.frombuffer(data.ljust(words.shape[1] * 8, b"\0"), numpy.int64)
        self.all_reduce(words)
        return [row.tobytes()[:length].decode() for row, length in zip(words, lengths.tolist(), strict=True)]

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}>"


comm = Comm()

__all__ = ["Comm", "GlobalArray", "comm", "part_of"]
