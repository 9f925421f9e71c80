"""MNIST and all that has its files: Fashion-MNIST."""

import gzip
from pathlib import Path
from typing import Any

import numpy

from neon.datasets.dataset import USUAL, Array, Dataset
from pleiad.errors import FileError

FILES = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}


class MNIST(Dataset):
    """28x28 images of one channel in 0 to 1. Without repo_path, Fashion-MNIST as Debian's package dataset-fashion-mnist
    has it."""

    shape = (28, 28, 1)

    def read_image_file(self, name: str) -> Array:
        header, data = self._open(name, "images", 16)
        count, height, width = (int(number) for number in header[1:])
        rows, columns = self.quad()
        images = data.reshape(count, height, width)[:, rows, columns]
        return images[..., None].astype(numpy.float32) / numpy.float32(255)

    def read_label_file(self, name: str) -> Array:
        return self._open(name, "labels", 8)[1].astype(numpy.int32)

    def _open(self, name: str, what: str, head: int) -> "tuple[Any, Array]":
        folder = Path(self.repo_path).expanduser() if self.repo_path else USUAL
        path = folder / FILES[name, what]
        zipped = path.with_name(path.name + ".gz")
        try:
            content = gzip.decompress(zipped.read_bytes()) if zipped.exists() else path.read_bytes()
        except (OSError, EOFError) as problem:
            raise FileError(f"{path}: cannot be read (nor {zipped.name}): {problem}") from None
        header = numpy.frombuffer(content[:head], ">i4")
        expected = int(numpy.prod(header[1:], dtype=numpy.int64)) if len(header) == head // 4 else -1
        if expected != len(content) - head:
            raise FileError(f"{path}: expected a header and {expected} bytes; there are {len(content) - head}")
        return header, numpy.frombuffer(content, numpy.uint8, offset=head)
