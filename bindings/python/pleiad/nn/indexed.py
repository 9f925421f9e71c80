"""Samples by index: datasets of PyTorch and Hugging Face, and any object with `len` and `[]`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn
from pleiad.nn.forms import Weights, host_array, parts_of
from pleiad.representation import constructor_text

if TYPE_CHECKING:
    from pleiad.nn.net import Net


class Indexed:
    """The samples of an object with `len(table)` and `table[index]`, which each rank reads when it needs them: a dataset of
    Hugging Face with a column for each input of the net, or a dataset of PyTorch with items x, (x, y), (x, y, sample_weight)
    or dicts by input. `fit` and `evaluate` make this of such an object themselves.

    >>> import numpy
    >>> from pleiad import nn
    >>> class Squares:
    ...     def __len__(self):
    ...         return 100
    ...     def __getitem__(self, index):
    ...         return numpy.full(3, index / 100, "float32"), index % 2
    >>> net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> len(nn.Indexed(net, Squares()))
    100
    """

    def __init__(
        self,
        net: "Net",
        table: Any,
        *,
        shuffle: bool = True,
        seed: int = 1,
        class_weight: "Mapping[int, float] | None" = None,
    ) -> None:
        self._given = {"net": net, "table": table, "shuffle": shuffle, "seed": seed, "class_weight": class_weight}
        self._count = len(table)
        if self._count == 0:
            raise InvalidArgument(f"x: expected samples; received a {type(table).__name__} of length 0")
        self._core = _nn.python_samples(_Filler(net, table, shuffle, seed, Weights(net, class_weight)))

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)


class _Filler:
    """Writes samples into the net (PythonSamples in C++)."""

    def __init__(self, net: "Net", table: Any, shuffle: bool, seed: int, weights: Weights) -> None:
        self.net, self.table, self.weights = net, table, weights
        self.count = len(table)
        self.order = (shuffle, seed)
        self.shuffled: tuple[int, NDArray[Any]] | None = None  # the order of an epoch
        columns = getattr(table, "column_names", None)
        self.columns = columns is not None
        where = f"x ({type(table).__name__})"
        self.where = where
        if columns is not None:
            missing = [name for name in net.inputs if name not in columns]
            if missing:
                raise InvalidArgument(
                    f'{where}: expected a column for each input of net "{net.name}"; missing: {", ".join(missing)}; its '
                    f"columns: {', '.join(columns)}; rename_column gives a column another name"
                )
            own_weights = "sample_weight" in columns
        else:
            own_weights = parts_of(net, table[0], where)[1] is not None
        self.weighted = own_weights or weights.by_class is not None
        how = f"shuffled by seed {seed}" if shuffle else "in order"
        self.identity = f"{self.count} samples of a {type(table).__name__}, {how}"

    def fill(self, first: int, count: int) -> None:
        """Writes samples `first` to `first + count - 1` of the sequence of all epochs into the net's inputs."""
        places = [self._place(index) for index in range(first, first + count)]
        if self.columns:
            rows = self.table[places]
            parts = {name: host_array(rows[name]) for name in self.net.inputs}
            factors = rows.get("sample_weight")
        else:
            items = [parts_of(self.net, self.table[place], self.where) for place in places]
            parts = {name: numpy.stack([host_array(item[0][name]) for item in items]) for name in self.net.inputs}
            factors = None if items[0][1] is None else [float(item[1]) for item in items]
        arrays = {name: self.net.as_input(name, array) for name, array in parts.items()}
        for name, array in arrays.items():
            self.net.write_input(name, array)
        if self.weighted:
            self.net._core.sample_weights()[...] = self.weights.of(arrays, factors)

    def _place(self, index: int) -> int:
        epoch, within = divmod(index, self.count)
        shuffle, seed = self.order
        if not shuffle:
            return within
        if self.shuffled is None or self.shuffled[0] != epoch:
            self.shuffled = epoch, numpy.random.Generator(numpy.random.Philox([seed, epoch])).permutation(self.count)
        return int(self.shuffled[1][within])
