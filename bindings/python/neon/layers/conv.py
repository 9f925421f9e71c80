"""Convolution."""

from typing import Any

import numpy

from neon.layers.base import Array, OnTiles, WeightLayer, add_windows, pair, windows
from neon.util.registry import REQUIRED
from pleiad import nn
from pleiad.nn.choices import ActivationName


class ConvLayer(WeightLayer):
    """A convolution with nofm filters of fshape over images of ifmshape with nifm channels. `pad` is 0 by default. use_biases:
    whether channels have a bias, which starts as bias_init."""

    fields = {
        "nifm": 0,
        "nofm": REQUIRED,
        "ifmshape": None,
        "fshape": [5, 5],
        "stride": 1,
        "pad": 0,
        "local_conv": False,
        "is_local": False,
        "use_biases": True,
        "shared_bias": True,
        "bias_init": 0.0,
    }

    nofm: int
    stride: Any
    fshape: Any
    pad: int
    use_biases: bool
    shared_bias: bool

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.nofm = self.whole("nofm", self.nofm, 1)
        for field in ("local_conv", "is_local"):
            if getattr(self, field):
                self.refuse(field, "filters that differ by position need a LocalFilteringLayer")
        if not self.shared_bias and self.use_biases:
            self.refuse(
                "shared_bias", "a bias per position is not supported; set it to True, or set use_biases to False"
            )
        if not self.use_biases and "bias_init" in self.given:
            self.refuse("bias_init", "use_biases is False")

    def engine_layers(self) -> "list[nn.Layer]":
        size, stride = pair(self.fshape, "fshape"), pair(self.stride, "stride")
        bias: Any = self.bias_value() if self.use_biases else False

        def make(function: ActivationName) -> nn.Layer:
            return nn.Convolution(
                self.nofm, size, stride, self.pad, function, bias=bias, weight=self.weight(), name=self.name
            )

        return self.activated(make)

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        self.expect_images(in_shape)
        if self.pad:
            self.refuse("pad", "padding is not supported for user-defined layers and models; set it to 0")
        self.in_shape = in_shape
        self.ifmshape = list(in_shape[:2])
        net = nn.Net(dtype=dtype, seed=seed)
        self.engine_layers()[0](net.input(in_shape, name="x"), name=self.name)
        self.weights = net.parameters[f"{self.name}/weight"].copy()
        self.bias = net.parameters[f"{self.name}/bias"].copy() if self.use_biases else numpy.empty(0, dtype)
        (kh, kw), (sh, sw) = self.window()
        self.out_shape = ((in_shape[0] - kh) // sh + 1, (in_shape[1] - kw) // sw + 1, self.nofm)
        self.expect_outputs()
        return self.out_shape

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]]":
        return pair(self.fshape, "fshape"), pair(self.stride, "stride")

    def fprop(self, inputs: Array) -> None:
        size, stride = self.window()
        sums = numpy.einsum("nhwcij,oijc->nhwo", windows(inputs, size, stride), self.weights, optimize=True)
        self.output = self.activation.apply_function(sums + self.bias if self.use_biases else sums)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        size, stride = self.window()
        error = self.activation.backward(self.output, error.reshape(self.output.shape))
        view = windows(inputs, size, stride)
        self.berror = numpy.zeros_like(inputs)
        add_windows(self.berror, numpy.einsum("nhwo,oijc->nhwcij", error, self.weights, optimize=True), stride)
        gradient = numpy.einsum("nhwcij,nhwo->oijc", view, error, optimize=True)
        self.update([gradient, error.sum(axis=(0, 1, 2)) if self.use_biases else self.bias], momentum)


class ConvLayerDist(OnTiles, ConvLayer):
    pass
