"""CIFAR-10 in its binary form; a generated set of the same form where none is there."""

import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import numpy

from neon.datasets.dataset import Array, Dataset
from neon.util.distarray.global_array import comm
from pleiad.errors import FileError

RECORD = 3073


class CIFAR10(Dataset):
    """32x32 images of three channels in 0 to 1, from repo_path (data_batch_1.bin to _5 and test_batch.bin). Where the
    folder has none, `pleiad generate cifar10` makes pictures of ten kinds of shapes there."""

    shape = (32, 32, 3)
    fields = {"generate_train": 5000, "generate_test": 1000}

    def _files(self, name: str) -> "list[Path]":
        folder = Path(self.repo_path or "~/data/cifar10").expanduser()
        files = sorted(folder.glob("data_batch_*.bin" if name == "train" else "test_batch.bin"))
        if not files:
            raise FileError(f"{folder}: has no CIFAR-10 files")
        return files

    def source_files(self) -> "list[Path]":
        return [*self._files("train"), *self._files("test")]

    def prepare(self) -> None:
        folder = Path(self.repo_path or "~/data/cifar10").expanduser()
        if comm.rank == 0 and not sorted(folder.glob("*_batch*.bin")):
            self._generate(folder)

    def load(self) -> None:
        if comm.size == 1:  # of several ranks, load_together has done it
            self.prepare()
        super().load()

    def _generate(self, folder: Path) -> None:
        program = shutil.which("pleiad") or str(Path(sys.prefix) / "bin" / "pleiad")
        words = [program, "generate", "cifar10", str(folder), "--train", str(self.generate_train)]  # type: ignore[attr-defined]
        words += ["--test", str(self.generate_test)]  # type: ignore[attr-defined]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise FileError(f"{folder}: has no CIFAR-10 files, and none could be made: {problem}") from None
        if done.returncode:
            raise FileError(f"{folder}: has no CIFAR-10 files, and none could be made: {done.stderr.strip()}")

    def _records(self, name: str) -> "list[Array]":
        parts: list[Array] = []
        for path in self._files(name):
            size = path.stat().st_size
            if size == 0 or size % RECORD:
                raise FileError(f"{path}: expected records of {RECORD} bytes; it has {size} bytes")
            parts.append(numpy.memmap(path, numpy.uint8, "r").reshape(-1, RECORD))
        return parts

    def read_image_file(self, name: str) -> Array:
        rows, columns = self.quad()  # the files are mapped: of an image, these places alone are read
        quads = [part[:, 1:].reshape(-1, 3, 32, 32)[:, :, rows, columns] for part in self._records(name)]
        self.file_marks[name] = ", ".join(self._mark(path) for path in self._files(name))
        return numpy.moveaxis(numpy.concatenate(quads), 1, -1).astype(numpy.float32) / numpy.float32(255)

    @staticmethod
    def _mark(path: Path) -> str:
        """Its size, and the sum of its first and last record: the rest is not read by all ranks."""
        with path.open("rb") as file:
            ends = file.read(RECORD)
            file.seek(-RECORD, 2)
            ends += file.read(RECORD)
        return f"{path.name} of {path.stat().st_size} bytes ({crc32(ends):08x})"

    def read_label_file(self, name: str) -> Array:
        return numpy.concatenate([part[:, 0] for part in self._records(name)]).astype(numpy.int32)
