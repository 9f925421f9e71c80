"""Pooling: the maximum, the average or the L2 norm of windows of each channel."""

from typing import Any, ClassVar, Literal

import numpy

from neon.layers.base import Array, Layer, OnTiles, add_windows, pair, windows
from pleiad import nn


class PoolingLayer(Layer):
    """Pools windows. op: "max", "avg" or "l2". The stride is the window's side by default."""

    fields = {"op": "max", "nifm": 0, "nofm": 0, "ifmshape": None, "fshape": [2, 2], "stride": 0}

    op: str
    nofm: int
    fshape: Any
    stride: Any
    activates = False
    spellings = {"nfm": "nifm", "pshape": "fshape"}
    kinds: "ClassVar[dict[str, Literal['max', 'average', 'l2']]]" = {
        "max": "max",
        "avg": "average",
        "average": "average",
        "l2": "l2",
    }

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.op not in self.kinds:
            self.refuse("op", f'unknown pooling "{self.op}"; known: avg, l2, max')

    def engine_layers(self) -> "list[nn.Layer]":
        size, stride = self.window()
        return [nn.Pooling(size, stride, self.kinds[self.op], name=self.name)]

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        if self.nofm not in (0, shape[-1]):
            self.refuse("nofm", f"pooling keeps the number of channels, {shape[-1]}; received {self.nofm}")

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]]":
        size = pair(self.fshape, "fshape")
        return size, pair(self.stride, "stride") if self.stride else size

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        self.expect_images(in_shape)
        self.in_shape = in_shape
        self.ifmshape = list(in_shape[:2])
        (kh, kw), (sh, sw) = self.window()
        self.out_shape = ((in_shape[0] - kh) // sh + 1, (in_shape[1] - kw) // sw + 1, in_shape[2])
        self.expect_outputs()
        return self.out_shape

    def fprop(self, inputs: Array) -> None:
        view = windows(inputs, *self.window())
        if self.kinds[self.op] == "max":
            self.output = view.max(axis=(4, 5))
        elif self.kinds[self.op] == "average":
            self.output = view.mean(axis=(4, 5))
        else:
            self.output = numpy.sqrt((view * view).sum(axis=(4, 5)))

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        size, stride = self.window()
        view, error = windows(inputs, size, stride), error.reshape(self.output.shape)
        self.berror = numpy.zeros_like(inputs)
        if self.kinds[self.op] == "average":
            parts = numpy.broadcast_to((error / (size[0] * size[1]))[..., None, None], view.shape)
        elif self.kinds[self.op] == "l2":
            norm = numpy.where(self.output == 0, 1, self.output)
            parts = (error / norm)[..., None, None] * view
        else:  # of equal maxima the first one receives the gradient
            flat = view.reshape(*view.shape[:4], -1)
            parts = numpy.zeros_like(flat)
            numpy.put_along_axis(parts, flat.argmax(axis=4)[..., None], error[..., None], axis=4)
            parts = parts.reshape(view.shape)
        add_windows(self.berror, parts, stride)


class MaxPoolingLayer(PoolingLayer):
    fields = {"op": "max"}


class AveragePoolingLayer(PoolingLayer):
    fields = {"op": "avg"}


class L2PoolingLayer(PoolingLayer):
    fields = {"op": "l2"}


class PoolingLayerDist(OnTiles, PoolingLayer):
    pass


class MaxPoolingLayerDist(PoolingLayerDist, MaxPoolingLayer):
    pass


class AveragePoolingLayerDist(PoolingLayerDist, AveragePoolingLayer):
    pass


class L2PoolingLayerDist(PoolingLayerDist, L2PoolingLayer):
    pass
