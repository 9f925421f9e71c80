"""Runs the recipes of docs/neon.md as printed: a user-defined layer, model and data set, on a grid of ranks,
compared with one process. Arguments: the page.
"""

import re
import sys
import tempfile
from pathlib import Path

import numpy

import neon.everything
import pleiad
import pleiad.errors
from neon.backends import CPU
from neon.layers import (
    ConvLayer,
    ConvLayerDist,
    FCLayer,
    FCLayerDist,
    L2PoolingLayer,
    LCNLayerDist,
    LocalContrastNormLayer,
    LocalContrastNormLayerDist,
    LocalFilteringLayerDist,
)
from neon.models import Convnet
from neon.transforms import CrossEntropy, RectLin, Softmax
from neon.util.distarray import comm

page = Path(sys.argv[1]).read_text()
user: dict = {"__name__": "users_module"}
for block in re.findall(r"```python\n(.*?)```", page[page.index("## Your own classes") :], re.S):
    exec(block, user)


class Counting(user["MyConvnetDist"]):
    """A model's own fprop and bprop."""

    passes = 0

    def fprop(self, inputs):
        self.passes += 1
        super().fprop(inputs)

    def bprop(self, targets, inputs, epoch, momentum):
        self.passes += 100
        super().bprop(targets, inputs, epoch, momentum)
        assert self.layers[0].berror.shape == inputs.shape


assert neon.everything.layers.L2PoolingLayerDist().op == "l2"


def refused(change, words, of_places=False):
    """Checks that every rank raises this error before it computes anything."""
    model, data = experiment(True, of_places)
    change(model)
    try:
        model.fit(data)
    except pleiad.errors.Error as problem:
        assert all(word in str(problem) for word in words), problem
        assert model.passes == 0
        return
    raise AssertionError(words)


def experiment(distributed, of_places, kind=None, pool=None):
    backend = CPU(rng_seed=3, default_dtype="float64")
    relu, weights = RectLin(), {"type": "node_normalized", "scale": 1.0}
    deep = [
        LocalFilteringLayerDist(name="filters", nofm=3, fshape=[2, 2], weight_init=weights),
        LocalContrastNormLayerDist(name="box", fshape=[3, 3], alpha=0.7, beta=0.6),
        LCNLayerDist(name="contrast", fshape=[3, 3]),
    ]
    layers = [
        ConvLayerDist(name="conv", nofm=4, fshape=[3, 4], weight_init=weights, activation=relu),
        (pool or user["MyL2PoolingLayerDist"])(name="pool", fshape=[3, 3], stride=2),
        *(deep if of_places else []),
        FCLayerDist(name="hidden", nout=7, weight_init=weights, activation=relu),
        FCLayer(name="out", nout=2, weight_init=weights, activation=Softmax()),
    ]
    model = (kind or Counting)(
        layers=layers,
        cost=CrossEntropy(),
        num_epochs=3,
        batch_size=10,
        learning_rate=0.05,
        momentum=0.5,
        backend=backend,
    )
    model.tell = lambda epoch, cost: None
    data = user["Stripes"](dist_flag=distributed, backend=backend)
    return model, data


def saved_and_continued():
    """A model with its own step that was saved after an epoch continues with the following epochs. Invalid files are an
    error on every rank.
    """
    folder = Path(comm.gather_texts(tempfile.mkdtemp())[0])
    whole, data = experiment(True, True)
    whole.fit(data)
    first, data = experiment(True, True)
    first.num_epochs, first.serialized_path = 1, str(folder / "saved")
    first.fit(data)
    more, data = experiment(True, True)
    more.deserialized_path = more.serialized_path = str(folder / "saved")
    more.fit(data)
    # Sums over ranks are computed in the order of arrival, so the last bit may differ.
    assert numpy.allclose(more.costs, whole.costs[1:], rtol=1e-10, atol=0), (more.costs, whole.costs)
    outputs = more.predict(data, "test")
    assert numpy.allclose(whole.predict(data, "test"), outputs, rtol=1e-8)
    # All epochs are done, so nothing is trained, and the loaded parameters predict.
    last, data = experiment(True, True)
    last.deserialized_path = str(folder / "saved")
    last.fit(data)
    assert last.costs == [] and (last.predict(data, "test") == outputs).all()

    def continued(model):
        model.deserialized_path = str(folder / "saved")

    # The model without the layers whose parameters differ by position.
    refused(continued, ["filters.weight", "missing in this model"])
    refused(lambda model: setattr(model, "deserialized_path", str(folder / "none")), ["none/rank", "no such file"])
    refused(lambda model: (continued(model), setattr(model, "momentum", 0.0)), ["rule", "momentum", "sgd"])
    files = sorted((folder / "saved").iterdir())
    assert [file.name for file in files] == sorted(f"rank{rank}.npz" for rank in range(comm.size)), files
    comm.barrier()
    if comm.rank == comm.size - 1:
        files[-1].write_bytes(files[-1].read_bytes()[:-100])
    comm.barrier()
    refused(continued, [files[-1].name, "damaged"], of_places=True)


# Values of one process, computed on every rank separately: no session is open yet.
expected = []
for of_places in (False, True):
    alone, data = experiment(False, of_places)
    alone.fit(data)
    assert alone.costs[-1] < alone.costs[0], alone.costs
    assert alone.passes == 12 * 101  # three epochs of four batches
    expected.append((alone.costs, alone.predict(data, "test")))
    # The document's step 5: without Dist and without user-defined classes, the engine has the same losses.
    twin, data = experiment(False, of_places, Convnet, L2PoolingLayer)
    twin.fit(data)
    assert numpy.allclose(twin.costs, alone.costs, rtol=1e-10), (twin.costs, alone.costs)
    assert numpy.allclose(twin.predict(data, "test"), expected[-1][1], rtol=1e-8)

with pleiad.init(timeout=600):
    for of_places, (costs, outputs) in zip((False, True), expected, strict=True):
        model, data = experiment(True, of_places)
        model.fit(data)
        assert numpy.allclose(model.costs, costs, rtol=1e-10), (model.costs, costs)
        assert numpy.allclose(model.predict(data, "test"), outputs, rtol=1e-8)
        if comm.size > 1:
            rows, columns = data.quad()
            assert data.inputs["train"].shape[1:3] == (rows.stop - rows.start, columns.stop - columns.start)
            assert model.layers[1].input is not None and model.layers[1].ifmshape == list(
                model.layers[1].input.view_shape[1:3]
            )
            assert model.layers[1].input.sent_bytes > 0 or comm.size > 4
    saved_and_continued()
    if comm.size > 1:
        refused(lambda model: setattr(model.backend, "deterministic", True), ["deterministic", "has its own step"])
    if comm.size > 1:  # on one process the images are whole
        for plain in (
            ConvLayer(name="plain", nofm=2, fshape=[2, 2]),
            LocalContrastNormLayer(name="plain"),
            FCLayer(name="plain", nout=3),
        ):
            at = 0 if not isinstance(plain, FCLayer) else 2
            refused(lambda model, at=at, plain=plain: model.layers.insert(at, plain), ['"plain"', "suffix Dist"])
    print("the recipe works", flush=True)
