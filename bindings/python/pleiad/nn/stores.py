"""Records in files, which the loader's threads read and transform."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn

Path = str | PathLike[str]


class Store:
    """Records with the same fields, in files that are read on demand. `open_store` and `open_dataset` return one. len(store) is
    the number of records.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pleiad import nn
    >>> path = Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("1,0.5,2\\n0,3,4\\n")
    >>> store = nn.open_store("csv", path)
    >>> len(store), store.fields
    (2, {'data': ('float32', (2,)), 'label': ('int32', ())})
    >>> store.read("data", [1]).tolist(), store.read("label").tolist()
    ([[3.0, 4.0]], [1, 0])
    """

    def __init__(self, core: "_nn.Store") -> None:
        self._core = core

    def __len__(self) -> int:
        return self._core.size

    @property
    def name(self) -> str:
        """The file or files of the store."""
        return self._core.name

    @property
    def fields(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of a record by field. Images have the shape (channels, height, width)."""
        return {name: (dtype, tuple(shape)) for name, dtype, shape in self._core.fields}

    def read(self, field: str = "data", records: "Iterable[int] | None" = None) -> NDArray[Any]:
        """Returns a copy of a field of the given records, or of all records."""
        return self._core.read(field, list(range(len(self)) if records is None else records))

    def statistics(self, field: str = "data", *, per_pixel: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the mean and standard deviation over all records, per channel, or per pixel with `per_pixel`."""
        mean, deviation = self._core.statistics(field, per_pixel)
        return numpy.array(mean, "float32"), numpy.array(deviation, "float32")

    def __repr__(self) -> str:
        return f"<pleiad.nn.Store {self.name}: {len(self):,} records, {self.fields}>"


def open_store(
    kind: str,
    *paths: Path,
    classes: int = 0,
    shape: Sequence[int] = (),
    label: bool = True,
    header: bool = False,
    separator: str = ",",
    sparse: bool = False,
    datasets: Sequence[str] = (),
    window: "tuple[int, int, int, int] | None" = None,
) -> Store:
    """Opens files by the name of their kind. docs/data.md lists the kinds and the arguments that each uses. `window` is the
    part of every image that is kept: (top, left, height, width)."""
    names = [fspath(path) for path in paths]
    return Store(
        _nn.open_store(kind, names, classes, list(shape), label, header, separator, sparse, list(datasets), window)
    )


def open_dataset(
    name: str, part: str = "train", *, folder: Path = "", window: "tuple[int, int, int, int] | None" = None
) -> Store:
    """Opens a dataset by its name (mnist, fashion-mnist, cifar10) from its place on this machine. Downloads nothing."""
    return Store(_nn.open_dataset(name, part, fspath(folder), window))


def write_store(
    kind: str,
    *paths: Path,
    data: Any,
    labels: Any = None,
    separator: str = ",",
    digits: int = 8,
    class_names: Sequence[str] = (),
) -> None:
    """Writes arrays as a store, completely or not at all. Images have the shape (samples, channels, height, width).

    >>> import numpy, tempfile
    >>> from pleiad import nn
    >>> path = tempfile.mkdtemp() + "/train.bin"
    >>> nn.write_store("kvfile", path, data=numpy.zeros((3, 1, 4, 4), "uint8"), labels=[0, 1, 0])
    >>> nn.open_store("kvfile", path).fields["data"]
    ('uint8', (1, 4, 4))
    """
    array = numpy.ascontiguousarray(data)
    numbers = None if labels is None else [int(label) for label in labels]
    names = [fspath(path) for path in paths]
    _nn.write_store(kind, names, array, str(array.dtype), numbers, separator, digits, list(class_names))


def read_mean(path: Path) -> NDArray[Any]:
    """Reads a mean file of SINGA, as `pleiad convert --mean` writes it."""
    shape, mean = _nn.read_mean(fspath(path))
    return numpy.array(mean, "float32").reshape(shape)


class StoreSamples:
    """Samples from a store, for `Trainer.fit` and `evaluate`. Images become (x - mean) * (scale / deviation), are cropped and
    mirrored, and have their channels last.

    Args:
        store: the store.
        inputs: the field for each input of the net. By default "label" is used for the input "label" and "data" for the other.
        shuffle: use a different order in each epoch.
        seed: seed of the order and of random crops and mirroring.
        mean, deviation: empty, one number, one per channel, or one per stored pixel.
        scale: see above.
        pad: pixels of zeros around the image before it is cropped.
        crop: (height, width).
        random_crop: crop at a random position instead of the centre.
        mirror: flip half of the images horizontally.
        threads: number of threads of the loader.
        depth: number of batches that the loader prepares in advance.
    """

    def __init__(
        self,
        store: Store,
        *,
        inputs: "Mapping[str, str] | None" = None,
        shuffle: bool = True,
        seed: int = 1,
        mean: Any = (),
        deviation: Any = (),
        scale: float = 1.0,
        pad: int = 0,
        crop: "tuple[int, int] | None" = None,
        random_crop: bool = False,
        mirror: bool = False,
        threads: int = 1,
        depth: int = 4,
    ) -> None:
        if not isinstance(store, Store):
            raise InvalidArgument(
                f"[StoreSamples] expected a store from nn.open_store; received {type(store).__name__}"
            )
        self.store = store
        height, width = crop or (0, 0)
        self._core = _nn.store_samples(
            store._core,
            list((inputs or {}).items()),
            shuffle,
            seed,
            threads,
            depth,
            numpy.ravel(mean).tolist(),
            numpy.ravel(deviation).tolist(),
            scale,
            pad,
            height,
            width,
            random_crop,
            mirror,
        )

    def __len__(self) -> int:
        return len(self.store)
