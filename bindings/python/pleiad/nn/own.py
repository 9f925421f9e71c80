"""Layers that are written in Python and run as layers of a net: with its rule, its exchanges and its checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pleiad.nn.net import Net, Placed, Value
from pleiad.options import text_of

Window = tuple[int, int, int]
#: The region that a layer on a tile reads and the one that it computes (top, bottom, left, right), and the lengths of the
#: whole images.
TilePlace = tuple[tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class OwnParam:
    """A parameter of a layer. fan_in: how many values make a filter, for `norm`."""

    name: str
    shape: tuple[int, ...]
    fan_in: int = 1
    norm: float = 0
    rate_scale: float = 1
    decay_scale: float = 1
    apart: bool = False


class OwnLayer:
    """What a net calls. Shapes have the batch in front; arrays share the net's memory, and those of parameters must not be
    written. Every method may be called on a thread of the engine, with the interpreter's lock held.

    spatial: the layer can work on a tile of images; `windows` then has (size, stride, pad) of height and width, and
    `on_tile` returns the layer for a tile. of_places: the first two axes of the parameters are positions of the output.
    metrics: the names of the numbers of a layer that ends a net; the first one is the loss."""

    kind = "own"
    spatial = False
    of_places = False
    metrics: Sequence[str] = ()
    windows: "tuple[Window, Window]" = ((1, 1, 0), (1, 1, 0))

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        return shapes[0]

    def parameters(self, shapes: "list[tuple[int, ...]]") -> "list[OwnParam]":
        return []

    def on_tile(self, place: TilePlace) -> "OwnLayer":
        return self

    def prepare(self, shapes: "list[tuple[int, ...]]", place: "TilePlace | None") -> None:
        """Before the first pass over batches of these shapes."""

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        """Writes the output into y."""
        raise NotImplementedError

    def backward(
        self,
        x: "list[Any]",
        parameters: "list[Any]",
        y: Any,
        dy: Any,
        dx: "list[Any]",
        gradients: "list[Any]",
        step: int,
    ) -> None:
        """Writes the gradients by the inputs into dx and those by the parameters into `gradients`; entries that nobody
        needs are None."""
        raise NotImplementedError


def add_own(
    net: Net, name: str, layer: OwnLayer, *inputs: "Value | str", options: "Mapping[str, Any] | None" = None
) -> Value:
    """Puts a layer of your own into a net. options: what a checkpoint compares, by name."""
    names = tuple(value.name if isinstance(value, Value) else value for value in inputs)
    fields = [(key, text_of(value)) for key, value in (options or {}).items()]
    net._core.add_own(name, layer, fields, list(names))
    net._layers[name] = Placed(layer.kind, names, bool(layer.metrics))
    net._last = name
    return Value(net, name)
