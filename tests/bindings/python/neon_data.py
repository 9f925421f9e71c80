"""The cache of quads, sample_pct, batch groups, predictions of whole images, and a data set written as in neon 0.4.
Arguments: a folder and the number of ranks.
"""

import contextlib
import io
import os
import sys
from pathlib import Path

import numpy
from neon_forms_data import Pixels

import neon
import pleiad
from neon.datasets import CIFAR10, MNIST, Dataset, Iris
from neon.util.distarray import comm
from pleiad import nn

folder = Path(sys.argv[1])


def write_mnist(path, change=0):
    path.mkdir(exist_ok=True)
    for kind, count in (("train", 8), ("t10k", 4)):
        images = (numpy.arange(count * 784) + change) % 251
        (path / f"{kind}-images-idx3-ubyte").write_bytes(
            numpy.array([2051, count, 28, 28], ">i4").tobytes() + images.astype(numpy.uint8).tobytes()
        )
        labels = numpy.array([2049, count], ">i4").tobytes() + bytes(range(count))
        (path / f"{kind}-labels-idx1-ubyte").write_bytes(labels)


def load(repo, **more):
    """Returns the images and the messages about the cache."""
    told = io.StringIO()
    data = MNIST(repo_path=str(repo), serialized_path=str(folder / "kept.pkl"), **more)
    with contextlib.redirect_stderr(told):
        data.load_together()
    return data.inputs["train"], told.getvalue()


def cache():
    one, two, kept = folder / "one", folder / "two", folder / "kept.safetensors"
    write_mnist(one)
    write_mnist(two, 100)
    old = os.umask(0o027)
    first, told = load(one)
    os.umask(old)
    assert told == "" and kept.stat().st_mode & 0o777 == 0o640
    again, told = load(one)
    assert told == "" and numpy.array_equal(first, again)
    stamp = kept.stat().st_mtime_ns
    other, told = load(two)
    assert "rewriting the file" in told and "repo_path" in told and not numpy.array_equal(first, other)
    assert kept.stat().st_mtime_ns != stamp
    write_mnist(two, 7)  # the files keep their sizes
    changed, told = load(two)
    assert "rewriting the file: source." in told and not numpy.array_equal(changed, other)
    half, told = load(two, sample_pct=0.5)
    assert "sample_pct" in told and len(half) == 4
    assert numpy.array_equal(load(two)[0], changed)
    data = bytearray(kept.read_bytes())
    data[-10] ^= 1  # in the last array
    kept.write_bytes(data)
    mended, told = load(two)
    assert "checksum" in told and numpy.array_equal(mended, changed)
    kept.write_bytes(b"no tensors")
    mended, told = load(two)
    assert "cannot be read" in told and numpy.array_equal(mended, changed)
    assert sorted(path.name for path in folder.iterdir()) == ["kept.safetensors", "one", "two"]


def places():
    """repo_path is the parent of the folders that the original creates: MNIST, CIFAR10/cifar-10-batches-py, Iris."""
    root = folder / "data"
    root.mkdir()
    write_mnist(root / "MNIST", 3)
    direct, below = MNIST(repo_path=str(root / "MNIST")), MNIST(repo_path=str(root))
    for each in (direct, below):
        each.load()
    assert numpy.array_equal(direct.inputs["train"], below.inputs["train"])
    batches = root / "CIFAR10" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    images = numpy.random.default_rng(1).integers(0, 256, (12, 3, 32, 32), numpy.uint8)
    for place, name in enumerate(("data_batch_1", "data_batch_2", "test_batch")):
        some = slice(4 * place, 4 * place + 4)
        nn.write_store("cifar10_python", batches / name, data=images[some], labels=numpy.arange(12)[some] % 10)
    (batches / "batches.meta").write_bytes(b"not looked at")
    data = CIFAR10(repo_path=str(root))
    data.load()
    assert numpy.array_equal(data.inputs["train"], numpy.moveaxis(images[:8], 1, -1).astype(numpy.float32) / 255)
    assert data.targets["train"].tolist() == list(range(8)) and data.targets["test"].tolist() == [8, 9, 0, 1]
    iris = Iris(repo_path=str(root))
    iris.load()
    assert len(iris.inputs["train"]) == 120


def generated():
    """Every run reports that its images are generated and not CIFAR-10."""
    for _ in range(2):
        told = io.StringIO()
        data = CIFAR10(repo_path=str(folder / "made"), generate_train=20, generate_test=10)
        with contextlib.redirect_stderr(told):
            data.load()
        assert len(data.inputs["train"]) == 20 and "generated and are not CIFAR-10" in told.getvalue()


def samples():
    for share, count in ((100, 10), (50, 5), (1, 1), (0.5, 5), (0.1, 1)):
        data = Pixels(sample_pct=share)
        data.load()
        assert len(data.inputs["train"]) == len(data.targets["train"]) == count, share
    iris = Iris()
    iris.load()
    assert len(iris.inputs["train"]) == 120 and len(iris.inputs["test"]) == 30
    everything = numpy.concatenate([iris.inputs["train"], iris.inputs["test"]]).reshape(-1, 4)
    assert numpy.allclose(everything.mean(axis=0), [5.843333, 3.057333, 3.758, 1.199333])
    assert numpy.bincount(iris.targets["train"]).tolist() == [40, 40, 40]


class AsInNeon04(Dataset):
    """Rows of pixels, and one-hot rows of the classes."""

    shape = (8, 8, 1)
    classes = 3

    def __init__(self, **given):
        super().__init__(**given)
        if comm.size not in (1, 2, 4, 16):
            raise AttributeError("the grid is 1, 2, 4 or 16 ranks")

    def read_image_file(self, fname, dtype=None):
        whole = Pixels()
        whole.load()
        rows, columns = self.quad()
        images = whole.inputs[fname][:, rows, columns]
        return images.reshape(len(images), -1).astype(dtype or numpy.float32)

    def load(self):
        if "train" in self.inputs:
            return
        for name in ("train", "test"):
            self.inputs[name] = self.read_image_file(name)
            self.targets[name] = numpy.eye(3)[numpy.arange(10) % 3]


IMAGES = """
!obj:neon.experiments.fit.FitExperiment {{
  dist_flag: {dist}, backend: &be !obj:neon.backends._numpy.Numpy64 {{rng_seed: 1}},
  datasets: [!obj:my.{data} {{dist_flag: {dist}, grid: '{grid}'}}],
  model: !obj:neon.models.convnet_dist.ConvnetDist {{
    num_epochs: 3, batch_size: 4, learning_rate: 0.1, momentum: 0.5,
    cost: !obj:neon.transforms.cross_entropy.CrossEntropy {{}},
    layers: [
      !obj:neon.models.layer.ConvLayerDist {{name: c, nofm: 2, fshape: [3, 3], activation: !obj:neon.transforms.tanh.Tanh {{}}}},
      !obj:neon.models.layer.MaxPoolingLayerDist {{name: p, fshape: [2, 2], stride: 2}},
      !obj:neon.models.layer.FCLayerDist {{name: o, nout: 3, activation: !obj:neon.transforms.softmax.Softmax {{}}}},
    ],
  }},
}}"""


def trained(data="Pixels", grid="", dist=True):
    made = neon.loads(IMAGES.format(data=data, grid=grid, dist=dist))
    made.model.tell = lambda epoch, cost: None
    made.run() if comm.open else (made.initialize(), made.model.fit(made.dataset))
    model = made.model
    outputs = model.predict(made.dataset, "test")
    # The same model without its last layer outputs images.
    tiles = numpy.asarray(model.trainer.predict(made.dataset.inputs["test"], "p"))
    model.out_shape = (3, 3, 2)
    return model.costs, outputs, model._whole(tiles)


if sys.argv[2] == "1":  # one rank
    cache()
    places()
    generated()
    samples()
expected = trained(dist=False)
assert expected[2].shape == (10, 3, 3, 2)
with pleiad.init(timeout=600):
    for data, grid in [
        ("Pixels", ""),
        ("AsInNeon04", ""),
        *([("Pixels", "1x2x2"), ("Pixels", "1x1x4")] if comm.size == 4 else []),
    ]:
        costs, outputs, images = trained(data, grid)
        assert numpy.allclose(costs, expected[0], rtol=1e-9), (data, grid, costs, expected[0])
        assert numpy.allclose(outputs, expected[1], rtol=1e-7), (data, grid)
        assert images.shape == (10, 3, 3, 2), images.shape
        assert numpy.allclose(images, expected[2], rtol=1e-7), (data, grid)
    print("data sets work", flush=True)
