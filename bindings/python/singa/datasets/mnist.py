"""MNIST as SINGA's examples read it: examples/mnist/train_data.bin and test_data.bin, built from IDX files on first use."""

import re
from pathlib import Path
from typing import Any

from singa.datasets.files import Found, Loaded, build_once

FOLDER = Path("examples/mnist")
RBM_FOLDER = Path("examples/rbm")
RBM_STEPS = 6000


def _find(folder: str, stand_in: bool) -> "Found | None":
    """Finds MNIST in `folder` or on this machine, or Fashion-MNIST unless a folder was named."""
    from pleiad import nn
    from pleiad.errors import Error

    problems = []
    for name, where in (
        [("mnist", folder)] if folder else [("mnist", str(FOLDER)), ("mnist", ""), ("fashion-mnist", "")]
    ):
        if name != "mnist" and not stand_in:
            return None
        try:
            return nn.open_dataset(name, "train", folder=where), nn.open_dataset(name, "test", folder=where), name
        except Error as problem:
            problems.append(str(problem))
    if folder:
        raise FileNotFoundError(f"{folder}: contains no MNIST: {problems[0]}")
    raise FileNotFoundError("neither MNIST nor Fashion-MNIST is on this machine: " + "; ".join(problems))


def build(folder: str = "", backend: str = "kvfile") -> tuple[Path, Path]:
    """Builds the two stores if they do not exist yet, and returns their paths."""
    from pleiad import nn

    paths = FOLDER / "train_data.bin", FOLDER / "test_data.bin"

    def convert(train: Any, test: Any) -> None:
        for path, store in zip(paths, (train, test), strict=True):
            data = store.read("data")
            nn.write_store(backend, path, data=data.reshape(len(store), 28, 28), labels=store.read("label"))

    build_once("mnist", [*paths], folder, _find, convert)
    return paths


def load_data(
    workspace: "str | None" = None,
    backend: str = "kvfile",
    nb_rbm: int = 0,
    checkpoint_steps: int = 0,
    folder: str = "",
    **pvalues: Any,
) -> Loaded:
    """Returns training data, test data and the workspace.

    nb_rbm: number of the machine in a stack of RBMs that the data are for; one more than their number for the auto-encoder. The
    machines below it are loaded from their checkpoints after checkpoint_steps steps, or from the latest ones. folder: folder of
    the IDX files. Other arguments are those of Store: batch_size (64; 100 for RBMs), shape, random_skip, mean_value, std_value.
    """
    from singa.layer import Data
    from singa.updater import Store

    train, test = build(folder, backend)
    if nb_rbm > 0:
        usual: dict[str, Any] = {"batchsize": 100, "shape": 784, "std_value": 255}
        usual_test = usual
    else:
        usual = {"batchsize": 64, "shape": 784, "random_skip": 5000, "mean_value": 127.5, "std_value": 127.5}
        usual_test = {**usual, "batchsize": 100, "random_skip": 0}
    if "batch_size" in pvalues:
        pvalues["batchsize"] = pvalues.pop("batch_size")
    checkpoints, makers = _machines(nb_rbm, checkpoint_steps)
    train_store = Store(path=str(train), backend=backend, **{**usual, **pvalues})
    test_store = Store(path=str(test), backend=backend, **{**usual_test, **{**pvalues, "random_skip": 0}})
    if workspace is None:
        name = f"rbm{nb_rbm}" if 0 < nb_rbm <= 4 else "autoencoder"
        workspace = str(RBM_FOLDER / name if nb_rbm > 0 else FOLDER)
    data = Data(load="recordinput", phase="train", conf=train_store, checkpoint=checkpoints or None)
    data.made_by = makers
    return Loaded((data, Data(load="recordinput", phase="test", conf=test_store), workspace))


def _machines(nb_rbm: int, steps: int) -> tuple[list[str], dict[str, str]]:
    """Returns the checkpoints of the machines below, and the script that makes each."""
    paths, makers = [], {}
    for i in range(nb_rbm - 1, 0, -1):
        folder = RBM_FOLDER / f"rbm{i}" / "checkpoint"
        made = [
            int(match.group(1))
            for file in (folder.iterdir() if folder.is_dir() else ())
            if (match := re.fullmatch(r"step(\d+)-worker0", file.name)) and match.group(1) != "0"
        ]
        step = steps or max(made, default=RBM_STEPS)
        path = str(folder / f"step{step}-worker0")
        paths.append(path)
        makers[path] = f"tool/python/examples/mnist_rbm{i}.py"
    return paths, makers
