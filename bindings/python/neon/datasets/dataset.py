"""The common part of datasets: the tile of this rank, the fraction of samples, and the serialized tiles."""

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
    """Base class of datasets.

    repo_path: folder of the files. sample_pct: how many samples are used, counted from the first: a percentage if at least 1, a
    fraction if below 1. serialized_path: file in which the arrays are cached after they are first read, with {rank} and {size};
    its format is always safetensors, whatever the suffix. grid: "2x2", "2x2x2" with batch groups, or "" for the squarest grid.

    A user-defined dataset has `shape` (height, width, channels) and `read_image_file`, or overrides `load`."""

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
        #: The reports of read_image_file about the whole files, by name. Equal on all ranks, although each keeps only its tiles.
        self.file_marks: dict[str, str] = {}
        if not 0 < self.sample_pct <= 100:
            self.refuse(
                "sample_pct", f"expected a percentage up to 100, or a fraction below 1; received {self.sample_pct}"
            )

    def sample_share(self) -> float:
        """Returns the fraction of the samples that is used."""
        return self.sample_pct / 100 if self.sample_pct >= 1 else self.sample_pct

    def grid_of(self) -> tuple[int, int, int]:
        """Returns the rows and columns of ranks over an image and the batch groups: those of `grid`, or the squarest."""
        if self.grid:
            rows, columns, groups = _core.grid(self.grid, comm.size)
            return rows, columns, groups
        rows = max(n for n in range(1, int(comm.size**0.5) + 1) if comm.size % n == 0)
        return rows, comm.size // rows, 1

    def grid_shape(self) -> tuple[int, int]:
        """Returns the rows and columns of ranks over an image."""
        return self.grid_of()[:2]

    def quad(self) -> tuple[slice, slice]:
        """Returns the rows and columns of an image that this rank holds: all of them unless dist_flag is set."""
        height, width, _ = self.shape
        if not self.dist_flag or comm.size == 1:
            return slice(0, height), slice(0, width)
        rows, columns, _ = self.grid_of()
        tile = comm.rank % (rows * columns)  # each batch group covers all tiles
        return part_of(height, rows, tile // columns), part_of(width, columns, tile % columns)

    def read_image_file(self, name: str) -> Array:
        """Returns the images of "train" or "test" as (samples, height, width, channels): of each image, this rank's tile."""
        raise NotImplementedError(f"{type(self).__name__}.read_image_file")

    def read_label_file(self, name: str) -> Array:
        raise NotImplementedError(f"{type(self).__name__}.read_label_file")

    def prepare(self) -> None:
        """Hook for work that one rank does for all. Runs on all ranks before any of them loads."""

    def source_files(self) -> "Iterable[Path]":
        """Returns the files that the samples come from. If any of them changes, the serialized tiles are rewritten. A
        user-defined dataset that reads files outside repo_path must name them here."""
        folder = Path(self.repo_path).expanduser() if self.repo_path else None
        if folder is None or not folder.is_dir():
            return [] if folder is None else [folder]
        return sorted(path for path in folder.iterdir() if path.is_file())

    def load(self) -> None:
        """Sets `inputs` and `targets`. Fast if the serialized tiles exist."""
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
        """Calls prepare() and load() on all ranks. If a rank fails, or has other labels or image files than the rest, all ranks
        raise. Collective."""
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
        """Converts rows of pixels to images, because a user's load() may set rows as in neon 0.4."""
        if images.shape[1:] in (quad, self.shape):
            return images
        flat = images.reshape(len(images), -1)
        if images.ndim in (2, 3) and flat.shape[1] == int(numpy.prod(quad)) and quad[2] == 1:
            return flat.reshape(-1, *quad)
        raise InvalidArgument(
            f"{type(self).__name__}: expected {name} images of shape {quad}, this rank's part; received {images.shape[1:]}"
        )

    def _as_labels(self, name: str, targets: Array) -> Array:
        """Converts one-hot rows to labels, because a user's load() may set such rows."""
        if targets.ndim == 2 and targets.shape[1] == self.classes:
            labels = targets.argmax(axis=1)
            if not numpy.array_equal(targets, numpy.eye(self.classes, dtype=targets.dtype)[labels]):
                raise InvalidArgument(
                    f"{type(self).__name__}: {name} targets: expected rows with one 1 and otherwise 0"
                )
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
            self.refuse(
                "serialized_path", f'"{self.serialized_path}" needs {{rank}}, because each rank keeps its own tiles'
            )
        text = self.serialized_path.replace("{rank}", str(comm.rank)).replace("{size}", str(comm.size))
        path = Path(text).expanduser()
        if path.suffix in ("", ".pkl", ".pickle"):
            path = path.with_suffix(".safetensors")
        rows, columns = self.quad()
        # The source of the samples, and the options that select and change them.
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
