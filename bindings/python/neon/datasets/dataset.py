"""What data sets have in common: the quad of this rank, the share of samples, the serialised quads."""

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy
from numpy.typing import NDArray

from neon.util.distarray.global_array import comm, part_of
from neon.util.registry import Component
from neon.util.together import expect_same, together
from pleiad import _core
from pleiad.errors import FileError, InvalidArgument

Array = NDArray[Any]

USUAL = Path("/usr/share/datasets/fashion-mnist")


class Dataset(Component):
    """repo_path: the folder with the files. sample_pct: how many per cent of the samples are taken (100: all).
    serialized_path: where the arrays are kept after the first reading, with {rank} and {size}; always safetensors, whatever
    the name's ending. grid: "2x2", or "" for the squarest one.

    A data set of your own has `shape` (height, width, channels) and `read_image_file`; or a `load` of its own."""

    fields = {
        "backend": None,
        "dist_flag": False,
        "repo_path": "",
        "sample_pct": 100.0,
        "serialized_path": "",
        "grid": "",
        "url": "",
        "name": "",
    }
    ignored = frozenset({"unpack_directory", "macro_batched", "data_dist", "num_test_sets"})

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
            raise InvalidArgument(f"sample_pct: expected a per cent in 0 to 100; received {self.sample_pct}")

    def grid_shape(self) -> tuple[int, int]:
        """Rows and columns of ranks: what `grid` says, or the squarest."""
        if self.grid:
            rows, columns, _ = _core.grid(self.grid, comm.size)
            return rows, columns
        rows = max(n for n in range(1, int(comm.size**0.5) + 1) if comm.size % n == 0)
        return rows, comm.size // rows

    def quad(self) -> tuple[slice, slice]:
        """The rows and columns of an image that this rank holds: all of them unless dist_flag is set."""
        height, width, _ = self.shape
        if not self.dist_flag or comm.size == 1:
            return slice(0, height), slice(0, width)
        rows, columns = self.grid_shape()
        return part_of(height, rows, comm.rank // columns), part_of(width, columns, comm.rank % columns)

    def read_image_file(self, name: str) -> Array:
        """Images of "train" or "test" as (samples, height, width, channels): this rank's quad of each."""
        raise NotImplementedError(f"{type(self).__name__}.read_image_file")

    def read_label_file(self, name: str) -> Array:
        raise NotImplementedError(f"{type(self).__name__}.read_label_file")

    def prepare(self) -> None:
        """On all ranks, before any of them loads: what one rank does for all."""

    def load(self) -> None:
        """Leaves `inputs` and `targets`; quick where the serialised files are there already."""
        if self.inputs:
            return
        path = self._serialized()
        if path is not None and path.exists():
            self._read(path)
            return
        for name in ("train", "test"):
            images, labels = self.read_image_file(name), self.read_label_file(name)
            count = max(1, round(len(labels) * self.sample_pct / 100))
            self.inputs[name] = numpy.ascontiguousarray(images[:count], numpy.float32)
            self.targets[name] = numpy.ascontiguousarray(labels[:count], numpy.int32)
        if path is not None:
            self._write(path)

    def load_together(self) -> None:
        """prepare() and load() on all ranks. One that cannot, or that has other labels or image files than the rest, is
        everybody's error."""
        together(self.prepare)
        together(self.load)
        marks = [
            f"{len(labels)} {name} samples ({crc32(labels.tobytes()):08x})" for name, labels in self.targets.items()
        ]
        marks += [f"{name} from {mark}" for name, mark in sorted(self.file_marks.items())]
        expect_same(f"data set {type(self).__name__}: ranks have different files", ", ".join(marks))

    def _serialized(self) -> "Path | None":
        if not self.serialized_path:
            return None
        text = self.serialized_path.replace("{rank}", str(comm.rank)).replace("{size}", str(comm.size))
        path = Path(text).expanduser()
        if self.dist_flag and comm.size > 1 and "{rank}" not in self.serialized_path:
            raise InvalidArgument(
                f'serialized_path: "{self.serialized_path}" has no {{rank}}: each rank keeps its own quads'
            )
        return path.with_suffix(".safetensors") if path.suffix in ("", ".pkl", ".pickle") else path

    def _write(self, path: Path) -> None:
        from safetensors.numpy import save_file

        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"inputs.{name}": array for name, array in self.inputs.items()}
        arrays |= {f"targets.{name}": array for name, array in self.targets.items()}
        rows, columns = self.quad()
        notes = {"quad": f"{rows.start}:{rows.stop},{columns.start}:{columns.stop}", "sample_pct": str(self.sample_pct)}
        notes |= {f"files.{name}": mark for name, mark in self.file_marks.items()}
        fresh = path.with_name(f"{path.name}.new-{comm.rank}")
        save_file(arrays, fresh, notes)
        fresh.rename(path)

    def _read(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        rows, columns = self.quad()
        wanted = {
            "quad": f"{rows.start}:{rows.stop},{columns.start}:{columns.stop}",
            "sample_pct": str(self.sample_pct),
        }
        try:
            with safe_open(path, "numpy") as file:
                notes = file.metadata() or {}
                for name in ("train", "test"):
                    self.inputs[name] = file.get_tensor(f"inputs.{name}")
                    self.targets[name] = file.get_tensor(f"targets.{name}")
        except (SafetensorError, OSError) as problem:
            raise FileError(f"{path}: cannot be read: {problem}") from None
        marks = {name: notes.pop(name) for name in list(notes) if name.startswith("files.")}
        self.file_marks = {name.removeprefix("files."): mark for name, mark in marks.items()}
        if notes != wanted:
            raise FileError(f"{path}: holds {notes}; expected {wanted}; remove it to have it written anew")
