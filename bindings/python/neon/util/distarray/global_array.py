"""GlobalArray: images of which each rank holds a tile; its views have the halos. comm: this process's place in the world."""

from typing import Any

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

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}>"


comm = Comm()

__all__ = ["Comm", "GlobalArray", "comm", "part_of"]
