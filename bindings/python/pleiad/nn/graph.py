"""The graph of a net as Python sees it: values, the records of layers, and arrays by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from pleiad.nn.net import Net


@dataclass(frozen=True)
class Value:
    """A value of a net's graph: an input, or an output of a layer. `value[1]` is the layer's second output, and so on."""

    net: "Net"
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.net._core.output_shape(self.name)[1:])

    def __getitem__(self, output: int) -> "Value":
        value = Value(self.net, f"{self.name.partition(':')[0]}:{output}")
        _ = value.shape  # raises if the layer has no such output
        return value

    def __repr__(self) -> str:
        layer = self.net._layers.get(self.name.partition(":")[0])
        words = "input" if layer is None else f"{layer.kind} of {', '.join(layer.inputs)}"
        return f"<{self.name}: {words}, {self.shape}>"


@dataclass(frozen=True)
class Placed:
    """The record of a layer of a net in Python."""

    kind: str
    inputs: tuple[str, ...]
    loss: bool


class Arrays(Mapping[str, NDArray[Any]]):
    """Arrays of a net by name. Each array shares the net's memory: writing to it changes the net."""

    def __init__(self, names: Callable[[], Sequence[str]], find: Callable[[str], Any]) -> None:
        self._names, self._find = names, find

    def __getitem__(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self._find(name)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {self[name].shape}" for name in self) + "}"
