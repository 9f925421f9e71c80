"""MNIST, and datasets with the same file format such as Fashion-MNIST."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy

from neon.datasets.dataset import USUAL, Array, Dataset
from pleiad.errors import FileError

FILES = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}


CHUNK = 1000  # number of images to read at a time


class MNIST(Dataset):
    """Images of 28 x 28 pixels and one channel in [0, 1], from the files in repo_path or, as neon stores them, in its folder
    MNIST. Without repo_path, Fashion-MNIST from Debian's package dataset-fashion-mnist."""

    shape = (28, 28, 1)

    def source_files(self) -> "list[Path]":
        return [self._path(*what) for what in FILES]

    def _path(self, name: str, what: str) -> Path:
        """Returns the path of the file, or of its compressed form if only that exists."""
        root = Path(self.repo_path).expanduser() if self.repo_path else USUAL
        file = FILES[name, what]
        places = [folder / found for folder in (root, root / "MNIST") for found in (f"{file}.gz", file)]
        return next((path for path in places if path.exists()), root / file)

    def read_image_file(self, name: str) -> Array:
        """Reads the images in chunks and keeps this rank's tile of each."""
        rows, columns = self.quad()
        quads, mark = [], 0
        with self._open(name, "images") as (header, file, path):
            count, height, width = header
            if (height, width) != self.shape[:2]:
                raise FileError(f"{path}: expected images of {self.shape[:2]}; found {height}x{width}")
            for first in range(0, count, CHUNK):
                chunk = self._bytes(file, min(CHUNK, count - first) * height * width, path)
                mark = zlib.crc32(chunk.data, mark)
                quads.append(chunk.reshape(-1, height, width)[:, rows, columns].copy())
        self.file_marks[name] = f"{count}x{height}x{width} images ({mark:08x})"
        return numpy.concatenate(quads)[..., None].astype(numpy.float32) / numpy.float32(255)

    def read_label_file(self, name: str) -> Array:
        with self._open(name, "labels") as (header, file, path):
            return self._bytes(file, header[0], path).astype(numpy.int32)

    @contextlib.contextmanager
    def _open(self, name: str, what: str) -> "Iterator[tuple[list[int], IO[bytes], Path]]":
        path = self._path(name, what)
        zipped = path.suffix == ".gz"
        try:
            with gzip.open(path) if zipped else path.open("rb") as file:
                lengths = 3 if what == "images" else 1
                start = file.read(4 + 4 * lengths)
                if len(start) != 4 + 4 * lengths:
                    raise FileError(
                        f"{path}: expected the header of an IDX file, {4 + 4 * lengths} bytes; found {len(start)}"
                    )
                header = [int(n) for n in numpy.frombuffer(start, ">i4")]
                if header[0] != 2048 + lengths or min(header) < 1:
                    raise FileError(f"{path}: expected the header of an IDX file of {what}; received {header}")
                yield header[1:], file, path  # type: ignore[misc]
                if file.read(1):
                    raise FileError(f"{path}: is longer than its header says: {header[1:]}")
        except (OSError, EOFError, zlib.error) as problem:
            if isinstance(problem, FileError):
                raise
            also = "" if zipped else f" (nor {path.name}.gz)"
            raise FileError(f"{path}: cannot read the file{also}: {problem}") from None

    @staticmethod
    def _bytes(file: "IO[bytes]", count: int, path: Path) -> Array:
        data = file.read(count)
        if len(data) != count:
            raise FileError(f"{path}: expected {count} more bytes; found {len(data)}")
        return numpy.frombuffer(data, numpy.uint8)
