"""CIFAR-10 in its binary or Python form, or a generated set of pictures if there is none."""

import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import numpy

from neon.datasets.dataset import Array, Dataset
from neon.util.distarray.global_array import comm
from pleiad import nn
from pleiad.errors import FileError

RECORD = 3073

#: The file that marks the pictures beside it as generated.
MARK = "GENERATED"


class CIFAR10(Dataset):
    """Images of 32 x 32 pixels and three channels in [0, 1], from repo_path: data_batch_1.bin to _5 and test_batch.bin, or the
    pickled batches of the Python version. They may also be in the folders that neon and the archives create (CIFAR10,
    cifar-10-batches-bin, cifar-10-batches-py). If there are none, `pleiad generate cifar10` generates pictures of ten kinds of
    shapes in repo_path, and every run prints a notice."""

    shape = (32, 32, 3)
    fields = {"generate_train": 5000, "generate_test": 1000}

    def _root(self) -> Path:
        return Path(self.repo_path or "~/data/cifar10").expanduser()

    def _files(self, name: str) -> "list[Path]":
        """Returns the files of a part. Binary files end in .bin; pickled batches have no suffix."""
        root = self._root()
        start = "data_batch_" if name == "train" else "test_batch"
        for folder in (root, root / "CIFAR10"):
            for inner, suffix in (
                (".", ".bin"),
                ("cifar-10-batches-bin", ".bin"),
                (".", ""),
                ("cifar-10-batches-py", ""),
            ):
                files = sorted(path for path in (folder / inner).glob(f"{start}*") if path.suffix == suffix)
                if files:
                    return files
        raise FileError(
            f"{root}: has no CIFAR-10 files (also not in CIFAR10, cifar-10-batches-bin, cifar-10-batches-py)"
        )

    def source_files(self) -> "list[Path]":
        return [*self._files("train"), *self._files("test")]

    def prepare(self) -> None:
        if comm.rank != 0:
            return
        root = self._root()
        try:
            self._files("train")
        except FileError:
            self._generate(root)
        if (root / MARK).exists():
            print(f"neon: {root}: these pictures are generated and are not CIFAR-10", file=sys.stderr, flush=True)

    def load(self) -> None:
        if comm.size == 1:  # with several ranks load_together has done it
            self.prepare()
        super().load()

    def _generate(self, folder: Path) -> None:
        program = shutil.which("pleiad") or str(Path(sys.prefix) / "bin" / "pleiad")
        words = [program, "generate", "cifar10", str(folder), "--train", str(self.generate_train)]  # type: ignore[attr-defined]
        words += ["--test", str(self.generate_test)]  # type: ignore[attr-defined]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=600)
            if done.returncode == 0:
                (folder / MARK).write_text("pleiad generate cifar10 has made these pictures; they are not CIFAR-10.\n")
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise FileError(f"{folder}: has no CIFAR-10 files, and generating them failed: {problem}") from None
        if done.returncode:
            raise FileError(f"{folder}: has no CIFAR-10 files, and generating them failed: {done.stderr.strip()}")

    def read_image_file(self, name: str) -> Array:
        files = self._files(name)
        rows, columns = self.quad()
        quads = [_images(path)[:, :, rows, columns] for path in files]
        self.file_marks[name] = ", ".join(_mark(path) for path in files)
        return numpy.moveaxis(numpy.concatenate(quads), 1, -1).astype(numpy.float32) / numpy.float32(255)

    def read_label_file(self, name: str) -> Array:
        return numpy.concatenate([_labels(path) for path in self._files(name)]).astype(numpy.int32)


def _images(path: Path) -> Array:
    """Returns images (samples, 3, 32, 32). A binary file is memory-mapped, so only the parts that are used are read."""
    if path.suffix != ".bin":
        return nn.open_store("cifar10_python", path).read("data")
    return _records(path)[:, 1:].reshape(-1, 3, 32, 32)


def _labels(path: Path) -> Array:
    if path.suffix != ".bin":
        return nn.open_store("cifar10_python", path).read("label")
    return _records(path)[:, 0]


def _records(path: Path) -> Array:
    size = path.stat().st_size
    if size == 0 or size % RECORD:
        raise FileError(f"{path}: expected records of {RECORD} bytes; found {size} bytes in all")
    return numpy.memmap(path, numpy.uint8, "r").reshape(-1, RECORD)


def _mark(path: Path) -> str:
    """Returns the file's size and a checksum of its first and last bytes, so that not all ranks read the whole file."""
    with path.open("rb") as file:
        ends = file.read(RECORD)
        file.seek(-min(RECORD, path.stat().st_size), 2)
        ends += file.read(RECORD)
    return f"{path.name} of {path.stat().st_size} bytes ({crc32(ends):08x})"
