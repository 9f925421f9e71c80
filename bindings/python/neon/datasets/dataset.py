"""What data sets have in common: the quad of this rank, the share of samples, the serialised quads."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy
from numpy.typing import NDArray

from neon.datasets.cache import Cache
from neon.util.distarray.global_array import comm, part_of
from neon.util.registry import Component
from neon.util.together import expect_same, together
from pleiad import _core
from pleiad.errors import InvalidArgument

Array = NDArray[Any]

USUAL = Path("/usr/share/datasets/fashion-mnist")


class Dataset(Component):
    """repo_path: the folder with the files. sample_pct: how many samples are taken, from the first on: a percentage from 1
    on, a fraction below 1. serialized_path: where the arrays are kept after the first reading, with {rank} and {size};
    always safetensors, whatever the name's ending. grid: "2x2", "2x2x2" with batch groups, or "" for the squarest one.

    A data set of your own has `shape` (height, width, channels) and `read_image_file`; or a `load` of its own."""

    fields = {
        "name": "",
        "backend": None,
        "dist_flag": False,
        "repo_path": "",
        "sample_pct": 100.0,
        "serialized_path": "",
        "grid": "",
    }

    shape: tuple[int, int, int] = (0, 0, 0)
    classes = 10
    repo_path: str
    sample_pct: float
    serialized_path: str
    grid: str

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.inputs: dict[str, Array] = {}
        self.targets: dict[str, Array] = {}
        #: What read_image_file says of the whole files, by name: the same on all ranks, though each keeps its quads alone.
        self.file_marks: dict[str, str] = {}
        if not 0 < self.sample_pct <= 100:
            self.refuse(
                "sample_pct", f"expected a percentage up to 100, or a fraction below 1; received {self.sample_pct}"
            )

    def sample_share(self) -> float:
        """The share of the samples that is taken."""
        return self.sample_pct / 100 if self.sample_pct >= 1 else self.sample_pct

    def grid_of(self) -> tuple[int, int, int]:
        """Rows and columns of ranks over an image, and batch groups: what `grid` says, or the squarest."""
        if self.grid:
            rows, columns, groups = _core.grid(self.grid, comm.size)
            return rows, columns, groups
        rows = max(n for n in range(1, int(comm.size**0.5) + 1) if comm.size % n == 0)
        return rows, comm.size // rows, 1

    def grid_shape(self) -> tuple[int, int]:
        """Rows and columns of ranks over an image."""
        return self.grid_of()[:2]

    def quad(self) -> tuple[slice, slice]:
        """The rows and columns of an image that this rank holds: all of them unless dist_flag is set."""
        height, width, _ = self.shape
        if not self.dist_flag or comm.size == 1:
            return slice(0, height), slice(0, width)
        rows, columns, _ = self.grid_of()
        tile = comm.rank % (rows * columns)  # each batch group has all tiles
        return part_of(height, rows, tile // columns), part_of(width, columns, tile % columns)

    def read_image_file(self, name: str) -> Array:
        """Images of "train" or "test" as (samples, height, width, channels): this rank's quad of each."""
        raise NotImplementedError(f"{type(self).__name__}.read_image_file")

    def read_label_file(self, name: str) -> Array:
        raise NotImplementedError(f"{type(self).__name__}.read_label_file")

    def prepare(self) -> None:
        """On all ranks, before any of them loads: what one rank does for all."""

    def source_files(self) -> "Iterable[Path]":
        """The files that the samples come from. The serialised quads are written anew when any of them changes. A data set
        of your own that reads other files than those of repo_path names them here."""
        folder = Path(self.repo_path).expanduser() if self.repo_path else None
        if folder is None or not folder.is_dir():
            return [] if folder is None else [folder]
        return sorted(path for path in folder.iterdir() if path.is_file())

    def load(self) -> None:
        """Leaves `inputs` and `targets`; quick where the serialised quads are there already."""
        if self.inputs:
            return
        cache = self._cache()
        kept = cache.read() if cache is not None else None
        if kept is not None:
            arrays, self.file_marks = kept
            for name in ("train", "test"):
                self.inputs[name], self.targets[name] = arrays[f"inputs.{name}"], arrays[f"targets.{name}"]
            return
        for name in ("train", "test"):
            images, labels = self.read_image_file(name), self.read_label_file(name)
            count = max(1, round(len(labels) * self.sample_share()))
            self.inputs[name] = numpy.ascontiguousarray(images[:count], numpy.float32)
            self.targets[name] = numpy.ascontiguousarray(labels[:count], numpy.int32)
        if cache is not None:
            arrays = {f"inputs.{name}": array for name, array in self.inputs.items()}
            arrays |= {f"targets.{name}": array for name, array in self.targets.items()}
            cache.write(arrays, self.file_marks)

    def load_together(self) -> None:
        """prepare() and load() on all ranks. A rank that fails, or that has other labels or image files than the rest, is
        everybody's error."""
        together(self.prepare)
        together(self._load)
        marks = [
            f"{len(labels)} {name} samples ({crc32(labels.tobytes()):08x})" for name, labels in self.targets.items()
        ]
        marks += [f"{name} from {mark}" for name, mark in sorted(self.file_marks.items())]
        expect_same(f"data set {type(self).__name__}: ranks have different files", ", ".join(marks))

    def _load(self) -> None:
        self.load()
        rows, columns = self.quad()
        quad = (rows.stop - rows.start, columns.stop - columns.start, self.shape[2])
        for name in list(self.inputs):
            self.inputs[name] = self._as_images(name, numpy.asarray(self.inputs[name]), quad)
            self.targets[name] = self._as_labels(name, numpy.asarray(self.targets[name]))
            if len(self.inputs[name]) != len(self.targets[name]):
                raise InvalidArgument(
                    f"{type(self).__name__}: {len(self.inputs[name])} {name} images and {len(self.targets[name])} targets"
                )

    def _as_images(self, name: str, images: Array, quad: "tuple[int, ...]") -> Array:
        """A load() of a user's own may leave rows of pixels, as neon 0.4 does."""
        if images.shape[1:] in (quad, self.shape):
            return images
        flat = images.reshape(len(images), -1)
        if images.ndim in (2, 3) and flat.shape[1] == int(numpy.prod(quad)) and quad[2] == 1:
            return flat.reshape(-1, *quad)
        raise InvalidArgument(
            f"{type(self).__name__}: expected {name} images of shape {quad}, this rank's part; received {images.shape[1:]}"
        )

    def _as_labels(self, name: str, targets: Array) -> Array:
        """A load() of a user's own may leave a row for each sample with a 1 for its class."""
        if targets.ndim == 2 and targets.shape[1] == self.classes:
            labels = targets.argmax(axis=1)
            if not numpy.array_equal(targets, numpy.eye(self.classes, dtype=targets.dtype)[labels]):
                raise InvalidArgument(f"{type(self).__name__}: {name} targets: expected one 1 a row, else 0")
            return numpy.asarray(labels, numpy.int32)
        if targets.ndim != 1 or (targets.size and not 0 <= targets.min() <= targets.max() < self.classes):
            raise InvalidArgument(
                f"{type(self).__name__}: {name} targets: expected labels 0 to {self.classes - 1}; received an array of"
                f" {targets.shape}"
            )
        return numpy.asarray(targets, numpy.int32)

    def _cache(self) -> "Cache | None":
        if not self.serialized_path:
            return None
        if self.dist_flag and comm.size > 1 and "{rank}" not in self.serialized_path:
            self.refuse("serialized_path", f'"{self.serialized_path}" has no {{rank}}: each rank keeps its own quads')
        text = self.serialized_path.replace("{rank}", str(comm.rank)).replace("{size}", str(comm.size))
        path = Path(text).expanduser()
        if path.suffix in ("", ".pkl", ".pickle"):
            path = path.with_suffix(".safetensors")
        rows, columns = self.quad()
        # Where the samples come from, and the options that choose and change them.
        options = {
            name: repr(getattr(self, name))
            for name in sorted(self.fields)
            if name not in ("backend", "serialized_path", "name", "dist_flag", "grid")
        }
        module = sys.modules.get(type(self).__module__)
        code = getattr(module, "__file__", None)
        own = not type(self).__module__.startswith("neon.")
        files = [*self.source_files(), *([Path(code)] if own and code else [])]
        return Cache(
            path,
            {
                "class": f"{type(self).__module__}.{type(self).__qualname__}",
                "quad": f"{rows.start}:{rows.stop},{columns.start}:{columns.stop}",
                "repo_path": os.path.realpath(Path(self.repo_path).expanduser()) if self.repo_path else "",
                **{f"option.{name}": value for name, value in options.items()},
            },
            files,
        )
