"""Fisher's iris measurements."""

from pathlib import Path

import numpy

from neon.datasets.dataset import Array, Dataset
from pleiad.errors import FileError

CLASSES = ("setosa", "versicolor", "virginica")


class Iris(Dataset):
    """150 samples of four lengths in cm, of three classes. Every fifth sample belongs to the test set. They come from iris.data
    or iris.csv in repo_path or its folder Iris, with four numbers and a class per line, or from the file that comes with the
    package."""

    shape = (1, 1, 4)
    classes = 3

    def source_files(self) -> "list[Path]":
        usual = Path(__file__).with_name("iris.csv")
        if not self.repo_path:
            return [usual]
        root = Path(self.repo_path).expanduser()
        places = [folder / name for folder in (root, root / "Iris") for name in ("iris.data", "iris.csv")]
        return [next((path for path in places if path.is_file()), usual)]

    def _rows(self, name: str) -> "list[tuple[list[float], int]]":
        (path,) = self.source_files()
        rows = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            words = line.partition("#")[0].strip().split(",")
            if words == [""]:
                continue
            try:
                lengths = [float(word) for word in words[:4]]
                kind = words[4].strip().removeprefix("Iris-")
                rows.append((lengths, CLASSES.index(kind) if kind in CLASSES else int(kind)))
                if len(words) != 5 or len(lengths) != 4 or not 0 <= rows[-1][1] < 3:
                    raise ValueError
            except (ValueError, IndexError):
                raise FileError(f"{path}:{number}: expected four numbers and a class; received {line!r}") from None
        return [row for place, row in enumerate(rows) if (place % 5 == 4) == (name == "test")]

    def read_image_file(self, name: str) -> Array:
        return numpy.array([row[0] for row in self._rows(name)], numpy.float32).reshape(-1, *self.shape)

    def read_label_file(self, name: str) -> Array:
        return numpy.array([row[1] for row in self._rows(name)], numpy.int32)
