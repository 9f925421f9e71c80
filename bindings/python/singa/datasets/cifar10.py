"""CIFAR-10 as SINGA's examples read it: examples/cifar10/train_data.bin, test_data.bin and image_mean.bin, which are built on
first use."""

from pathlib import Path
from typing import Any

from singa.datasets.files import Found, Loaded, build_once

FOLDER = Path("examples/cifar10")
GENERATED = {"train": 10_000, "test": 2_000}


def _find(folder: str, stand_in: bool) -> "Found | None":
    """Finds CIFAR-10 in `folder` or on this machine. If there is none and no folder was named, generates a set of pictures as a
    stand-in."""
    from pleiad import nn
    from pleiad.errors import Error
    from singa.engine import _job

    for where in [folder] if folder else [str(FOLDER), ""]:
        try:
            return (
                nn.open_dataset("cifar10", "train", folder=where),
                nn.open_dataset("cifar10", "test", folder=where),
                "cifar10",
            )
        except Error as problem:
            if folder:
                raise FileNotFoundError(f"{folder}: contains no CIFAR-10: {problem}") from problem
    if not stand_in:
        return None
    made = str(FOLDER / "generated")
    _job.generate_cifar10(made, GENERATED["train"], GENERATED["test"])
    return (
        nn.open_dataset("cifar10", "train", folder=made),
        nn.open_dataset("cifar10", "test", folder=made),
        "a generated set",
    )


def build(folder: str = "", backend: str = "kvfile") -> tuple[Path, Path, Path]:
    """Builds the two stores and the mean image if they do not exist yet, and returns their paths."""
    from pleiad import nn
    from singa.engine import _job

    paths = FOLDER / "train_data.bin", FOLDER / "test_data.bin", FOLDER / "image_mean.bin"

    def convert(train: Any, test: Any) -> None:
        images = train.read("data")
        nn.write_store(backend, paths[0], data=images, labels=train.read("label"), digits=5)
        nn.write_store(backend, paths[1], data=test.read("data"), labels=test.read("label"), digits=5)
        _job.write_mean(str(paths[2]), [3, 32, 32], images.mean(axis=0).reshape(-1).tolist())

    build_once("cifar10", [*paths], folder, _find, convert)
    return paths


def load_data(workspace: "str | None" = None, backend: str = "kvfile", folder: str = "", **pvalues: Any) -> Loaded:
    """Returns training data, test data and the workspace. `folder` holds the binary files. Other arguments are those of Store:
    batch_size (64), random_skip, mean_file."""
    from singa.layer import Data
    from singa.updater import Store

    train, test, mean = build(folder, backend)
    if "batch_size" in pvalues:
        pvalues["batchsize"] = pvalues.pop("batch_size")
    usual: dict[str, Any] = {"batchsize": 64, "random_skip": 5000, "shape": (3, 32, 32), "mean_file": str(mean)}
    train_store = Store(path=str(train), backend=backend, **{**usual, **pvalues})
    test_store = Store(path=str(test), backend=backend, **{**usual, "batchsize": 100, **pvalues, "random_skip": 0})
    data = Data(load="recordinput", phase="train", conf=train_store)
    return Loaded((data, Data(load="recordinput", phase="test", conf=test_store), workspace or str(FOLDER)))
