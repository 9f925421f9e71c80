"""Arrays that a dataset caches in a file, together with their origin."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy
from numpy.typing import NDArray

from pleiad.errors import FileError

Array = NDArray[Any]

CHUNK = 1 << 22


class Cache:
    """A safetensors file with the checksum of every array, the options that made them, and the size and checksum of every source
    file. If any of these does not match, read() prints the reason and returns None."""

    def __init__(self, path: Path, options: "dict[str, str]", files: "Iterable[Path]") -> None:
        self.path = path
        self.wanted = {**options, **{f"source.{file.name}": _mark(file) for file in files}}

    def read(self) -> "tuple[dict[str, Array], dict[str, str]] | None":
        """Returns the arrays and the marks that were written with them, or None if they must be created again."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, "numpy") as file:
                notes: dict[str, str] = file.metadata() or {}
                if (changed := self._difference(notes)) is not None:
                    self._again(changed)
                    return None
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dict
        except (SafetensorError, OSError, ValueError) as problem:
            self._again(f"it cannot be read ({problem})")
            return None
        for name, array in arrays.items():
            if notes.get(f"crc32.{name}") != _sum(array):
                self._again(f'the checksum of "{name}" is wrong')
                return None
        return arrays, {name.removeprefix("mark."): text for name, text in notes.items() if name.startswith("mark.")}

    def write(self, arrays: "dict[str, Array]", marks: "dict[str, str]") -> None:
        """Writes the file, completely or not at all. Its mode follows the umask."""
        from safetensors.numpy import save

        notes = {**self.wanted, **{f"mark.{name}": text for name, text in marks.items()}}
        notes |= {f"crc32.{name}": _sum(array) for name, array in arrays.items()}
        fresh = self.path.with_name(f"{self.path.name}.new-{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(save(arrays, notes))
            fresh.replace(self.path)
        except OSError as problem:
            fresh.unlink(missing_ok=True)
            raise FileError(f"{self.path}: cannot write the file: {problem}") from None

    def _difference(self, notes: "dict[str, str]") -> "str | None":
        kept = {name: text for name, text in notes.items() if not name.startswith(("crc32.", "mark."))}
        if kept == self.wanted:
            return None
        names = sorted({*kept, *self.wanted})
        name = next(name for name in names if kept.get(name) != self.wanted.get(name))
        return f"{name} was {kept.get(name, 'not there')}, and is {self.wanted.get(name, 'not there')}"

    def _again(self, why: str) -> None:
        print(f"{self.path}: rewriting the file: {why}", file=sys.stderr, flush=True)


def _mark(path: Path) -> str:
    total, size = 0, 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                total, size = crc32(chunk, total), size + len(chunk)
    except OSError as problem:
        raise FileError(f"{path}: cannot read the file: {problem}") from None
    return f"{size} bytes ({total:08x})"


def _sum(array: Array) -> str:
    return f"{crc32(numpy.ascontiguousarray(array).tobytes()):08x}"
