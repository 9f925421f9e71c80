"""GlobalArray: images of which each rank holds a tile, and whose views have halos. comm: this process's rank and collectives."""

from typing import Any

import numpy

import pleiad
from pleiad.errors import InvalidArgument, StateError
from pleiad.spatial import GlobalArray as _GlobalArray
from pleiad.spatial import part_of


class GlobalArray(_GlobalArray):
    """A pleiad.spatial.GlobalArray that records whether a halo was fetched whose gradient has not been returned yet."""

    _out = False

    def get_fprop_view(self, local: Any) -> Any:
        self._out = True
        return super().get_fprop_view(local)

    def get_bprop_view(self, error: Any) -> Any:
        self._out = False
        return super().get_bprop_view(error)

    def halo_is_out(self) -> bool:
        """True after get_fprop_view until get_bprop_view. Equal on all ranks, which make the same calls."""
        return self._out


class Comm:
    """rank, size and a few collectives of the session. Without a session, those of a single rank."""

    #: The layer whose fprop or bprop the engine is running. During that time only the engine may exchange data.
    driven = ""

    @property
    def open(self) -> bool:
        """Whether a session is open, of any size."""
        return pleiad.sessions._current is not None

    @property
    def rank(self) -> int:
        session = pleiad.sessions._current
        return 0 if session is None else session.rank

    @property
    def size(self) -> int:
        session = pleiad.sessions._current
        return 1 if session is None else session.size

    def all_reduce(self, array: Any) -> Any:
        """Sums an array over the ranks, in place. Collective."""
        self._expect_free("all_reduce")
        if self.size > 1:
            pleiad.session().all_reduce(array)
        return array

    def _expect_free(self, what: str) -> None:
        if self.driven and self.size > 1:
            raise StateError(
                f'layer "{self.driven}": comm.{what} was called in fprop or bprop of a layer, where the engine sums gradients and'
                " exchanges halos itself; to exchange data by hand, give the model its own fprop and bprop"
            )

    def barrier(self) -> None:
        self._expect_free("barrier")
        if self.size > 1:
            pleiad.session().barrier()

    def gather_texts(self, mine: str) -> "list[str]":
        """Returns every rank's text, in rank order. Collective."""
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


class LayerInput:
    """The `input` of a layer that runs inside the engine's net, with the interface of a GlobalArray. The engine exchanges the halos
    itself: get_fprop_view returns the view as it is, and the gradient that bprop leaves is returned to its owners afterwards."""

    def __init__(
        self, layer: str, shape: "tuple[int, ...]", tile: "tuple[slice, slice]", view: "tuple[slice, slice]"
    ) -> None:
        self.layer, self.shape, self.tile, self.view = layer, shape, tile, view
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.sent_bytes = 0

    @property
    def global_shape(self) -> "tuple[int, ...]":
        return self.shape

    def _part(self, places: "tuple[slice, slice]") -> "tuple[int, ...]":
        return (self.shape[0], *(each.stop - each.start for each in places), *self.shape[3:])

    @property
    def local_shape(self) -> "tuple[int, ...]":
        return self._part(self.tile)

    @property
    def view_shape(self) -> "tuple[int, ...]":
        return self._part(self.view)

    def _expect(self, array: Any, what: str) -> Any:
        given = numpy.asarray(array)
        if given.shape[1:] != self.view_shape[1:]:
            raise InvalidArgument(
                f'layer "{self.layer}": {what}: expected the layer\'s inputs or their gradient, of shape {self.view_shape};'
                f" received {given.shape}"
            )
        return array

    def get_fprop_view(self, inputs: Any) -> Any:
        """Returns this rank's part of the inputs with its halo."""
        return self._expect(inputs, "get_fprop_view")

    def get_bprop_view(self, error: Any) -> Any:
        """Takes the gradient of the view. After bprop the engine returns the halo's part to its owners and adds it there."""
        return self._expect(error, "get_bprop_view")


__all__ = ["Comm", "GlobalArray", "LayerInput", "comm", "part_of"]
