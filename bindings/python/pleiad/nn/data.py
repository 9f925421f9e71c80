"""Datasets for a trainer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn
from pleiad.nn.forms import Weights, by_name, is_stream, is_table
from pleiad.nn.indexed import Indexed
from pleiad.nn.stores import Store, StoreSamples
from pleiad.nn.stream import Stream
from pleiad.representation import Shown, constructor_text

if TYPE_CHECKING:
    from pleiad.nn.net import Net


class Dataset:
    """Samples in memory: a dict of arrays by the names of a net's inputs, all with the same number of rows. Contiguous arrays
    of the input's element type are not copied. With `shuffle` each epoch has a different order, which depends on `seed`.
    `sample_weight` has a factor for each sample in the loss; `class_weight` maps labels to factors.

    >>> import numpy
    >>> from pleiad import nn
    >>> net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> len(nn.Dataset(net, {"x": numpy.zeros((5, 3)), "label": numpy.zeros(5, int)}))
    5
    """

    def __init__(
        self,
        net: "Net",
        arrays: Mapping[str, Any],
        *,
        shuffle: bool = True,
        seed: int = 1,
        sample_weight: Any = None,
        class_weight: "Mapping[int, float] | None" = None,
    ) -> None:
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
        weights = Weights(net, class_weight).of(self.arrays, sample_weight)
        self._core = _nn.array_samples(self.arrays, shuffle, seed, weights)
        self._given = {"net": net, "shuffle": shuffle, "seed": seed}
        if sample_weight is not None:
            self._given["sample_weight"] = Shown(f"{numpy.shape(sample_weight)}")
        if class_weight is not None:
            self._given["class_weight"] = class_weight

    def __len__(self) -> int:
        return self._core.count()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name!r}: {array.shape}" for name, array in self.arrays.items())
        return constructor_text(type(self), {**self._given, "arrays": Shown("{" + shapes + "}")})


#: The sources from which a trainer reads samples. All but a stream know how many samples they have.
Source = Dataset | StoreSamples | Indexed | Stream


def named(net: "Net", x: Any, y: Any = None) -> dict[str, Any]:
    """Returns arrays by input name. `x` and `y` are mappings by input, or arrays in the order of the inputs; `y` holds the
    inputs of the losses."""
    features = [name for name in net.inputs if name not in net.targets]
    return {**by_name(x, features, "x"), **({} if y is None else by_name(y, net.targets, "y"))}


def dataset(
    net: "Net",
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    shuffle: bool,
    seed: int,
    class_weight: "Mapping[int, float] | None" = None,
) -> Source:
    """Converts the data that a caller passes to a source of samples. Returns datasets unchanged."""
    if isinstance(x, Store):
        raise InvalidArgument("x: expected a dataset; received a Store; pass nn.StoreSamples(store, ...)")
    own_targets = isinstance(x, Dataset | StoreSamples | Indexed | Stream)
    iterates = not own_targets and is_stream(x)
    table = not own_targets and not iterates and is_table(x)
    if own_targets or iterates or table:
        what = type(x).__name__
        if y is not None:
            raise InvalidArgument(f"y: expected None, because the {what} contains the targets")
        if sample_weight is not None:
            raise InvalidArgument(
                f"sample_weight: expected None with a {what}; arrays take it, and items of the form (x, y, sample_weight)"
            )
    if own_targets and class_weight is not None:
        raise InvalidArgument(f"class_weight: expected None with a {type(x).__name__}; arrays and iterables take it")
    if isinstance(x, Dataset | StoreSamples | Indexed | Stream):
        return x
    if iterates:
        return Stream(net, x, class_weight=class_weight)
    if table:
        return Indexed(net, x, shuffle=shuffle, seed=seed, class_weight=class_weight)
    arrays = named(net, x, y)
    return Dataset(net, arrays, shuffle=shuffle, seed=seed, sample_weight=sample_weight, class_weight=class_weight)
