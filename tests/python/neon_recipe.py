"""The recipes of docs/neon.md: a layer, a model and a data set of one's own, on a grid of ranks, against one process."""

import numpy

import neon.everything  # noqa: F401
import pleiad
from neon.backends import CPU
from neon.datasets import Dataset
from neon.layers import ConvLayerDist, FCLayer, FCLayerDist, L2PoolingLayer
from neon.models import ConvnetDist
from neon.transforms import CrossEntropy, RectLin, Softmax
from neon.util.distarray import GlobalArray, comm


class MyL2PoolingLayerDist(L2PoolingLayer):
    """As the document has it: the halo comes in fprop, and goes back in bprop."""

    def adjust_for_dist(self):
        self.ifmshape = list(self.input.view_shape[1:3])

    def fprop(self, inputs_):
        inputs = self.input.get_fprop_view(inputs_) if self.input else inputs_
        super().fprop(inputs)

    def bprop(self, error, inputs_, epoch, momentum):
        inputs = self.input.get_fprop_view(inputs_) if self.input else inputs_
        super().bprop(error, inputs, epoch, momentum)
        if self.input:
            self.berror = self.input.get_bprop_view(self.berror)


class MyConvnetDist(ConvnetDist):
    """A model that gives its layers their `input` by itself."""

    def adjust_for_dist(self):
        rows, columns = self.dataset.grid_shape()
        self.made = []
        for layer in self.computing:
            if len(layer.in_shape) != 3:
                continue
            window, stride = layer.window() or (1, 1)
            shape = (self.batch_size, *layer.in_shape)
            layer.input = GlobalArray(
                shape, grid=f"{rows}x{columns}", window=window, stride=stride, dtype=self.dtype, name=layer.name
            )
            layer.adjust_for_dist()
            self.made.append(layer.name)


class Stripes(Dataset):
    """Pictures of 13x11 whose class is the direction of their stripes; each rank makes its quad alone."""

    shape = (13, 11, 1)
    classes = 2

    def __init__(self, **given):
        super().__init__(**given)
        if self.dist_flag and comm.size > 12:
            raise ValueError("at most twelve ranks")

    def read_image_file(self, name):
        rows, columns = self.quad()
        h, w = numpy.mgrid[rows, columns]
        count = {"train": 40, "test": 10}[name]
        images = [numpy.sin((h if n % 2 else w) * 1.5 + n) for n in range(count)]
        return numpy.stack(images)[..., None].astype(numpy.float32)

    def read_label_file(self, name):
        return numpy.arange({"train": 40, "test": 10}[name], dtype=numpy.int32) % 2

    def load(self):
        super().load()
        rows, columns = self.quad()
        assert self.inputs["train"].shape[1:3] == (rows.stop - rows.start, columns.stop - columns.start)


assert neon.everything.layers.L2PoolingLayerDist().op == "l2"


def experiment(distributed):
    backend = CPU(rng_seed=3, default_dtype="float64")
    relu, weights = RectLin(), {"type": "node_normalized", "scale": 1.0}
    layers = [
        ConvLayerDist(name="conv", nofm=4, fshape=[3, 4], weight_init=weights, activation=relu),
        MyL2PoolingLayerDist(name="pool", fshape=[3, 3], stride=2),
        FCLayerDist(name="hidden", nout=7, weight_init=weights, activation=relu),
        FCLayer(name="out", nout=2, weight_init=weights, activation=Softmax()),
    ]
    model = MyConvnetDist(
        layers=layers,
        cost=CrossEntropy(),
        num_epochs=3,
        batch_size=10,
        learning_rate=0.05,
        momentum=0.5,
        backend=backend,
    )
    model.tell = lambda epoch, cost: None
    data = Stripes(dist_flag=distributed, backend=backend)
    return model, data


# One process's numbers, by every rank for itself: no session is open yet.
alone, data = experiment(False)
alone.fit(data)
expected = alone.predict(data, "test")
assert alone.costs[-1] < alone.costs[0], alone.costs

with pleiad.init(timeout=60):
    model, data = experiment(True)
    model.fit(data)
    assert numpy.allclose(model.costs, alone.costs, rtol=1e-10), (model.costs, alone.costs)
    assert numpy.allclose(model.predict(data, "test"), expected, rtol=1e-8)
    if comm.size > 1:
        assert model.made == ["conv", "pool", "hidden"]
        assert model.layers[1].input.sent_bytes > 0 or comm.size > 4
    print("the recipe works", flush=True)
