"""Layers written in Python. They run as layers of a net, with its update rule, gradient exchange and checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pleiad.nn.graph import Placed, Value
from pleiad.nn.net import Net
from pleiad.options import text_of

Window = tuple[int, int, int]
#: For a layer on a tile: the region that it reads, the region that it computes (both top, bottom, left, right), and the
#: height and width of the whole input and output images.
TilePlace = tuple[tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class OwnParam:
    """A parameter of a layer. `fan_in` is the number of elements of a filter, which `norm` needs."""

    name: str
    shape: tuple[int, ...]
    fan_in: int = 1
    norm: float = 0
    rate_scale: float = 1
    decay_scale: float = 1
    apart: bool = False


class OwnLayer:
    """Base class of layers written in Python. Shapes include the batch. Arrays share the net's memory; do not write to those
    of parameters. The engine may call any method from one of its threads, while it holds the GIL.

    Attributes:
        kind: name of the layer type.
        spatial: whether the layer can compute a tile of an image. Then `windows` holds (size, stride, pad) of height and
            width, and `on_tile` returns the layer for a tile.
        of_places: whether the first two axes of the parameters are output positions.
        metrics: names of the metrics of a layer that ends a net; the first one is the loss.
    """

    kind = "own"
    spatial = False
    of_places = False
    metrics: Sequence[str] = ()
    windows: "tuple[Window, Window]" = ((1, 1, 0), (1, 1, 0))

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        """Returns the output shape for these input shapes."""
        return shapes[0]

    def parameters(self, shapes: "list[tuple[int, ...]]") -> "list[OwnParam]":
        """Returns the layer's parameters for these input shapes."""
        return []

    def on_tile(self, place: TilePlace) -> "OwnLayer":
        """Returns the layer that computes this tile."""
        return self

    def prepare(self, shapes: "list[tuple[int, ...]]", place: "TilePlace | None") -> None:
        """Prepares for batches of these shapes. The engine calls it before the first pass over such a batch."""

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        """Computes the output and writes it to `y`."""
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
        """Writes the gradients of the inputs to `dx` and those of the parameters to `gradients`. Entries that are not needed
        are None."""
        raise NotImplementedError


def add_own(
    net: Net, name: str, layer: OwnLayer, *inputs: "Value | str", options: "Mapping[str, Any] | None" = None
) -> Value:
    """Adds a layer written in Python to a net. `options` are values by name that a checkpoint stores and compares."""
    names = tuple(value.name if isinstance(value, Value) else value for value in inputs)
    fields = [(key, text_of(value)) for key, value in (options or {}).items()]
    net._core.add_own(name, layer, fields, list(names))
    net._layers[name] = Placed(layer.kind, names, bool(layer.metrics))
    net._last = name
    return Value(net, name)
