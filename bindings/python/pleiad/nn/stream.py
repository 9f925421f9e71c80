"""Samples one after the other: generators, PyTorch's DataLoader, streams of Hugging Face."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.nn.forms import Weights, parts_of
from pleiad.nn.weights import array_of
from pleiad.representation import constructor_text

if TYPE_CHECKING:
    from pleiad.nn.net import Net

Arrays = dict[str, NDArray[Any]]
Batch = tuple[Arrays, NDArray[Any] | None]


class Stream:
    """The samples of an iterable, whose items are batches of any size: (x, y), (x, y, sample_weight), x, or dicts by input.
    An iterable such as a DataLoader, or a function that returns an iterator, can be read in every epoch; a generator can be
    read once. The trainer divides the samples into batches of its own size. On several ranks every rank reads the whole
    iterable and trains on its rows, so the order must be the same on all ranks. `fit` and `evaluate` make this of an iterable
    themselves.

    >>> import numpy
    >>> from pleiad import nn
    >>> def batches():
    ...     for seed in range(4):
    ...         x = numpy.random.default_rng(seed).normal(size=(25, 3))
    ...         yield x, (x[:, 0] > 0).astype("int32")
    >>> net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> trainer = nn.Trainer(net, batch=40)
    >>> history = trainer.fit(batches, epochs=2, progress=False)
    >>> trainer.step_number
    6
    """

    def __init__(self, net: "Net", source: Any, *, class_weight: "Mapping[int, float] | None" = None) -> None:
        self._given = {"net": net, "source": source, "class_weight": class_weight}
        self.net = net
        self.weights = Weights(net, class_weight)
        self._open: Callable[[], Iterator[Any]] = (lambda: iter(source())) if callable(source) else lambda: iter(source)
        self.once = not callable(source) and iter(source) is source
        self.what = type(source).__name__

    def read(self) -> Iterator[Batch]:
        """Returns the items of one pass over the iterable."""
        for item in self._open():
            parts, factors = parts_of(self.net, item, f"x ({self.what})")
            arrays = {name: self.net.as_input(name, array_of(value)) for name, value in parts.items()}
            rows = {name: len(array) for name, array in arrays.items()}
            if len(set(rows.values())) != 1:
                raise InvalidArgument(
                    f"x ({self.what}): expected the same number of samples in a batch; received {rows}"
                )
            yield arrays, self.weights.of(arrays, factors)

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)


class Batches:
    """Divides the samples of a stream into batches of one size. With `complete`, the samples that are left at the end of a
    pass begin the next one; otherwise they are the last batch of the pass."""

    def __init__(self, stream: Stream, size: int, *, complete: bool) -> None:
        self.stream, self.size, self.complete = stream, size, complete
        self._items: Iterator[Batch] | None = None
        self._read_all = False
        self._held: list[Batch] = []
        self._rows = 0

    def next(self) -> "Batch | None":
        """Returns the next batch, or None at the end of a pass."""
        if self._items is None:
            self._items, self._read_all = self.stream.read(), False
        while self._rows < self.size and not self._read_all:
            item = next(self._items, None)
            if item is None:
                self._read_all = True
                break
            self._held.append(item)
            self._rows += _rows_of(item)
        if self._rows >= self.size or (self._rows > 0 and not self.complete):
            return self._take(min(self._rows, self.size))
        self._items = None
        return None

    def _take(self, rows: int) -> Batch:
        taken: list[Batch] = []
        self._rows -= rows
        while rows:
            item = self._held.pop(0)
            count = _rows_of(item)
            if count > rows:
                self._held.insert(0, _cut(item, rows, count))
                item = _cut(item, 0, rows)
            rows -= _rows_of(item)
            taken.append(item)
        arrays = {name: numpy.concatenate([each[0][name] for each in taken]) for name in taken[0][0]}
        if all(factors is None for _, factors in taken):
            return arrays, None
        ones = [numpy.ones(_rows_of(each), self.stream.net.dtype) if each[1] is None else each[1] for each in taken]
        return arrays, numpy.concatenate(ones)


def _rows_of(item: Batch) -> int:
    return len(next(iter(item[0].values())))


def _cut(item: Batch, first: int, end: int) -> Batch:
    arrays = {name: array[first:end] for name, array in item[0].items()}
    return arrays, None if item[1] is None else item[1][first:end]
