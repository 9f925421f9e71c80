"""Local filters, and normalisation over neighbouring positions or channels."""

from typing import Any

import numpy

from neon.layers.base import Array, Layer, OnTiles, WeightLayer, add_windows, pair, windows
from neon.util.distarray.global_array import LayerInput, comm, part_of
from neon.util.registry import REQUIRED
from pleiad import nn
from pleiad.nn.choices import ActivationName


class LocalFilteringLayer(WeightLayer):
    """Unshared convolution: each position and channel has its own filter of L2 norm 1, without bias. In GB, sparsity, tied_weights,
    pretraining and pretrain_learning_rate apply to the layer's own stage if given."""

    fields = {
        "nifm": 0,
        "nofm": REQUIRED,
        "ifmshape": None,
        "fshape": [5, 5],
        "stride": 1,
        "sparsity": None,
        "tied_weights": None,
        "pretraining": None,
        "pretrain_learning_rate": None,
    }

    nofm: int
    fshape: Any
    stride: Any
    sparsity: Any
    tied_weights: Any
    pretraining: Any
    pretrain_learning_rate: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.nofm = self.whole("nofm", self.nofm, 1)
        for field in ("tied_weights", "pretraining"):
            if getattr(self, field) not in (None, True, False):
                self.refuse(field, f"expected true or false; received {getattr(self, field)!r}")
        for field in ("sparsity", "pretrain_learning_rate"):
            if getattr(self, field) is not None:
                setattr(self, field, self.number(field, field, getattr(self, field), 0))

    def norm(self) -> float:
        return 1.0

    def engine_layers(self) -> "list[nn.Layer]":
        size, stride = self.window()

        def make(function: ActivationName) -> nn.Layer:
            weight = nn.Param(self.weight(), norm=1)
            return nn.LocalConvolution(self.nofm, size, stride, 0, function, weight=weight, name=self.name)

        return self.activated(make)

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]]":
        return pair(self.fshape, "fshape"), pair(self.stride, "stride")

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        self.expect_images(in_shape)
        self.in_shape = in_shape
        self.ifmshape = list(in_shape[:2])
        net = nn.Net(dtype=dtype, seed=seed)
        self.engine_layers()[0](net.input(in_shape, name="x"), name=self.name)
        self.weights = net.parameters[f"{self.name}/weight"].copy()
        self.bias = numpy.zeros(0, dtype)
        self.out_shape = (*self.weights.shape[:2], self.nofm)
        return self.out_shape

    def fprop(self, inputs: Array) -> None:
        view = windows(inputs, *self.window())
        if self.weights.size == 0:  # this tile has no outputs
            self.output = numpy.empty((len(inputs), 0, 0, self.nofm), inputs.dtype)
            return
        sums = numpy.einsum("nhwcij,hwoijc->nhwo", view, self.weights, optimize=True)
        self.output = self.activation.apply_function(sums)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        size, stride = self.window()
        self.berror = numpy.zeros_like(inputs)
        if self.weights.size == 0:
            self.update([self.weights, self.bias], momentum)
            return
        error = self.activation.backward(self.output, error.reshape(self.output.shape))
        add_windows(self.berror, numpy.einsum("nhwo,hwoijc->nhwcij", error, self.weights, optimize=True), stride)
        gradient = numpy.einsum("nhwcij,nhwo->hwoijc", windows(inputs, size, stride), error, optimize=True)
        self.update([gradient, self.bias], momentum)


class LocalFilteringLayerDist(OnTiles, LocalFilteringLayer):
    """Each rank holds the filters of its output positions, so they need no exchange."""

    def adjust_for_dist(self) -> None:
        super().adjust_for_dist()
        assert self.input is not None
        if isinstance(self.input, LayerInput):  # the engine passes this rank's filters
            return
        rows, columns, _ = self.input.grid
        places = self.weights.shape
        mine = part_of(places[0], rows, comm.rank // columns), part_of(places[1], columns, comm.rank % columns)
        self.weights = numpy.ascontiguousarray(self.weights[mine])
        self._velocity = []


class _Contrast(Layer):
    """Base class of layers that read neighbouring positions twice, and so need a halo of twice the window's radius."""

    fshape: Any
    activates = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.radius()
        if "stride" in self.given and pair(getattr(self, "stride", 1), "stride") != (1, 1):
            self.refuse("stride", f"expected 1; received {getattr(self, 'stride', 1)}")

    def radius(self) -> int:
        height, width = pair(self.fshape, "fshape")
        if height != width or height % 2 == 0:
            self.refuse("fshape", f"expected an odd, square window; received {self.fshape}")
        return height // 2

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]]":
        side = 4 * self.radius() + 1
        return (side, side), (1, 1)

    def padding(self) -> tuple[int, int]:
        return 2 * self.radius(), 2 * self.radius()

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        self.expect_images(in_shape)
        self.ifmshape = list(in_shape[:2])
        return super().initialize(in_shape, seed, dtype)

    def inner(self, wide: Array) -> Array:
        """Returns a view of this rank's positions, without their halo."""
        if self.input is None:
            return wide
        (top, left), (rows, columns) = self._corner(), self.input.tile
        return wide[:, top : top + rows.stop - rows.start, left : left + columns.stop - columns.start]

    def _corner(self) -> tuple[int, int]:
        assert self.input is not None
        return self.input.tile[0].start - self.input.view[0].start, self.input.tile[1].start - self.input.view[1].start

    def spread(self, error: Array, like: Array) -> Array:
        """Returns the gradients of this rank's positions, with zeros in the halo."""
        wide = numpy.zeros_like(like)
        if error.size:
            self.inner(wide)[...] = error
        return wide


def _sums(maps: Array, side: Array) -> Array:
    """Filters (n, h, w, ...) by `side` along height and width, with zeros outside."""
    radius = len(side) // 2
    for axis in (1, 2):
        around = [(0, 0)] * maps.ndim
        around[axis] = (radius, radius)
        wide = numpy.pad(maps, around)
        maps = sum(w * wide.take(range(i, i + maps.shape[axis]), axis) for i, w in enumerate(side))
    return maps


class LCNLayer(_Contrast):
    """Local contrast normalisation with a Gaussian window over all channels. The image keeps its size."""

    fields = {"nifm": 0, "ifmshape": None, "fshape": [3, 3], "stride": 1}
    spellings = {"nfm": "nifm", "pshape": "fshape"}

    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.Layer("local_contrast", self.name, size=2 * self.radius() + 1)]

    def _side(self, channels: int) -> Array:
        radius = self.radius()
        places = numpy.arange(-radius, radius + 1)
        side = numpy.exp(-(places**2) / (2 * (2 * radius**2) / 9)) if radius else numpy.ones(1)
        return numpy.asarray(side / side.sum() / channels**0.5)

    def fprop(self, inputs: Array) -> None:
        side = self._side(inputs.shape[3])
        self._v = inputs - _sums(inputs.sum(axis=3, keepdims=True), side)
        norm = numpy.sqrt(_sums((self._v**2).sum(axis=3, keepdims=True), side))
        self._norm = numpy.where(norm == 0, 1, norm).astype(inputs.dtype)
        self.output = numpy.ascontiguousarray(self.inner(self._v / self._norm))

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        side, error = self._side(inputs.shape[3]), self.spread(error, inputs)
        by_square = -(error * self._v).sum(axis=3, keepdims=True) / self._norm**3
        dv = error / self._norm + self._v * _sums(by_square, side)
        self.berror = (dv - _sums(dv.sum(axis=3, keepdims=True), side)).astype(inputs.dtype)


class LocalContrastNormLayer(_Contrast):
    """The local contrast normalisation of neon 0.8: over each channel, with a box window."""

    fields = {"fshape": [3, 3], "alpha": 1.0, "beta": 0.5}

    alpha: float
    beta: float

    def engine_layers(self) -> "list[nn.Layer]":
        size = 2 * self.radius() + 1
        return [nn.Layer("local_contrast", self.name, type="box", size=size, alpha=self.alpha, beta=self.beta)]

    def fprop(self, inputs: Array) -> None:
        box = numpy.ones(2 * self.radius() + 1)
        self._places = _sums(numpy.ones((1, *inputs.shape[1:3], 1)), box)
        self._d = inputs - _sums(inputs, box) / self._places
        self._s = 1 + self.alpha / len(box) ** 2 * _sums(self._d**2, box)
        self.output = numpy.ascontiguousarray(self.inner(inputs * self._s**-self.beta).astype(inputs.dtype))

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        box, error = numpy.ones(2 * self.radius() + 1), self.spread(error, inputs)
        direct = error * self._s**-self.beta
        by_s = -self.beta * direct * inputs / self._s
        by_d = 2 * self.alpha / len(box) ** 2 * self._d * _sums(by_s, box)
        self.berror = (direct + by_d - _sums(by_d / self._places, box)).astype(inputs.dtype)


class LCNLayerDist(OnTiles, LCNLayer):
    pass


class LocalContrastNormLayerDist(OnTiles, LocalContrastNormLayer):
    pass


class CrossMapResponseNormLayer(Layer):
    """Computes x * (1 + alpha / k * the sum of x^2 over k channels)^-beta."""

    fields = {"ksize": 5, "alpha": 1.0, "beta": 0.75}
    activates = False

    ksize: int
    alpha: float
    beta: float

    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.LRN(self.ksize, self.alpha, self.beta, name=self.name)]

    def _over_maps(self, x: Array, before: int) -> Array:
        wide = numpy.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, self.ksize - 1 - before)])
        return sum(wide[..., i : i + x.shape[-1]] for i in range(self.ksize))  # type: ignore[return-value]

    def fprop(self, inputs: Array) -> None:
        self._s = 1 + self.alpha / self.ksize * self._over_maps(inputs**2, (self.ksize - 1) // 2)
        self.output = inputs * self._s**-self.beta

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        around = self._over_maps(error * self.output / self._s, self.ksize // 2)
        self.berror = error * self._s**-self.beta - 2 * self.alpha / self.ksize * self.beta * inputs * around
