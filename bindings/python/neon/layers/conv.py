"""Convolution."""

from typing import Any

import numpy

from neon.layers.base import Array, OnTiles, WeightLayer, add_windows, pair, windows
from pleiad import nn
from pleiad.errors import InvalidArgument


class ConvLayer(WeightLayer):
    """nofm filters of fshape over images of ifmshape with nifm channels, without padding unless `pad` says so."""

    fields = {"nifm": 0, "nofm": 0, "ifmshape": None, "fshape": [5, 5], "stride": 1, "pad": 0, "local_conv": False}

    nofm: int
    stride: Any
    fshape: Any
    pad: int

    def engine_layers(self) -> "list[nn.Layer]":
        if self.local_conv:  # type: ignore[attr-defined]
            raise InvalidArgument(f'layer "{self.name}": local filters are LocalFilteringLayer')
        size, stride = pair(self.fshape, "fshape"), pair(self.stride, "stride")
        return [
            nn.Convolution(
                self.nofm, size, stride, self.pad, self.activation.engine, weight=self.weight(), name=self.name
            )
        ]

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        self.expect_images(in_shape)
        if self.pad:
            raise InvalidArgument(f'layer "{self.name}": pad is for the engine; in NumPy images are not padded')
        self.in_shape = in_shape
        self.ifmshape = list(in_shape[:2])
        net = nn.Net(dtype=dtype, seed=seed)
        self.engine_layers()[0](net.input(in_shape, name="x"), name=self.name)
        self.weights = net.parameters[f"{self.name}/weight"].copy()
        self.bias = net.parameters[f"{self.name}/bias"].copy()
        (kh, kw), (sh, sw) = self.window()
        self.out_shape = ((in_shape[0] - kh) // sh + 1, (in_shape[1] - kw) // sw + 1, self.nofm)
        self.expect_outputs()
        return self.out_shape

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]]":
        return pair(self.fshape, "fshape"), pair(self.stride, "stride")

    def fprop(self, inputs: Array) -> None:
        size, stride = self.window()
        sums = numpy.einsum("nhwcij,oijc->nhwo", windows(inputs, size, stride), self.weights, optimize=True)
        self.output = self.activation.apply_function(sums + self.bias)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        size, stride = self.window()
        error = error.reshape(self.output.shape) * self.activation.apply_derivative(self.output)
        view = windows(inputs, size, stride)
        self.berror = numpy.zeros_like(inputs)
        add_windows(self.berror, numpy.einsum("nhwo,oijc->nhwcij", error, self.weights, optimize=True), stride)
        gradient = numpy.einsum("nhwcij,nhwo->oijc", view, error, optimize=True)
        self.update([gradient, error.sum(axis=(0, 1, 2))], momentum)


class ConvLayerDist(OnTiles, ConvLayer):
    def adjust_for_dist(self) -> None:
        super().adjust_for_dist()
        self.sum_gradients = True
