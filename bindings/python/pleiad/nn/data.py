"""Datasets for a trainer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn
from pleiad.nn.stores import Store, StoreSamples
from pleiad.representation import Shown, constructor_text

if TYPE_CHECKING:
    from pleiad.nn.net import Net


class Dataset:
    """Samples in memory: a dict of arrays by the names of a net's inputs, all with the same number of rows. Contiguous arrays
    of the input's element type are not copied. With `shuffle` each epoch has a different order, which depends on `seed`.

    >>> import numpy
    >>> from pleiad import nn
    >>> net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> len(nn.Dataset(net, {"x": numpy.zeros((5, 3)), "label": numpy.zeros(5, int)}))
    5
    """

    def __init__(self, net: "Net", arrays: Mapping[str, Any], *, shuffle: bool = True, seed: int = 1) -> None:
        missing = [name for name in net.inputs if name not in arrays]
        if missing:
            raise InvalidArgument(
                f'expected an array for each input of net "{net.name}"; missing: {", ".join(missing)}'
                f"; received: {', '.join(arrays) or 'none'}"
            )
        self.arrays = {name: net.as_input(name, array) for name, array in arrays.items()}
        rows = {name: len(array) for name, array in self.arrays.items()}
        if len(set(rows.values())) != 1:
            raise InvalidArgument(f"expected the same number of samples for every input; received {rows}")
        self._core = _nn.array_samples(self.arrays, shuffle, seed)
        self._given = {"net": net, "shuffle": shuffle, "seed": seed}

    def __len__(self) -> int:
        return self._core.count()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name!r}: {array.shape}" for name, array in self.arrays.items())
        return constructor_text(type(self), {**self._given, "arrays": Shown("{" + shapes + "}")})


def named(net: "Net", x: Any, y: Any = None) -> dict[str, Any]:
    """Returns arrays by input name. `x` and `y` are mappings by input, or arrays in the order of the inputs; `y` holds the
    inputs of the losses."""
    features = [name for name in net.inputs if name not in net.targets]
    return {**_by_name(x, features, "x"), **({} if y is None else _by_name(y, net.targets, "y"))}


def _by_name(given: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    arrays = list(given) if isinstance(given, tuple) else [given]
    if len(arrays) != len(names):
        raise InvalidArgument(
            f"{what}: expected {_count(len(names), 'array')} ({', '.join(names) or 'none'}), or a dict by input; "
            f"received {_count(len(arrays), 'array')}"
        )
    return dict(zip(names, arrays, strict=True))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def dataset(net: "Net", x: Any, y: Any = None, *, shuffle: bool, seed: int) -> "Dataset | StoreSamples":
    """Converts the data that a caller passes to a dataset. Returns datasets unchanged."""
    if isinstance(x, Store):
        raise InvalidArgument("x: expected a dataset; received a Store; pass nn.StoreSamples(store, ...)")
    if isinstance(x, Dataset | StoreSamples):
        if y is not None:
            raise InvalidArgument(f"y: expected None, because the {type(x).__name__} contains the targets")
        return x
    return Dataset(net, named(net, x, y), shuffle=shuffle, seed=seed)
