"""Layers that hold data or costs, and elementwise layers."""

from typing import Any

import numpy

from neon.layers.base import Array, Layer, pair
from pleiad import nn


class DataLayer(Layer):
    """The input of a model: nout values, or nofm channels of images of ofmshape."""

    fields = {"nout": 0, "nofm": 0, "ofmshape": None}
    activates = False

    nout: int
    nofm: int
    ofmshape: Any

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        shown, count = "x".join(map(str, shape)), int(numpy.prod(shape))
        if self.nout not in (0, count):
            self.refuse("nout", f"a sample of the dataset has {count} values ({shown}); received {self.nout}")
        if self.nofm not in (0, shape[-1]):
            self.refuse("nofm", f"images of the dataset are {shown}; received {self.nofm} channels")
        if self.ofmshape is not None and pair(self.ofmshape, "ofmshape") != shape[:2]:
            self.refuse("ofmshape", f"images of the dataset are {shown}; received {self.ofmshape}")

    def engine_layers(self) -> "list[nn.Layer]":
        return []

    def fprop(self, inputs: Array) -> None:
        self.output = inputs

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = error


class ImageDataLayer(DataLayer):
    pass


class CostLayer(Layer):
    """The last layer in files of neon 0.8: the cost of the previous layer. ref_layer: the data layer with the targets."""

    fields = {"cost": None, "ref_layer": ""}
    activates = False

    cost: Any
    ref_layer: str

    def engine_layers(self) -> "list[nn.Layer]":
        return []


class ActivationLayer(Layer):
    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.Activation(self.activation.engine, name=self.name, **self.activation.options)]

    def fprop(self, inputs: Array) -> None:
        self.output = self.activation.apply_function(inputs)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = self.activation.backward(self.output, error)


class DropOutLayer(Layer):
    """Dropout. keep: the fraction of values that is kept and scaled by 1 / keep."""

    fields = {"keep": 0.5}
    activates = False

    keep: float

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.keep = self.number("keep", "share", self.keep, 1e-6, 1)

    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.Dropout(1 - self.keep, name=self.name)]

    def fprop(self, inputs: Array) -> None:
        keep = self.keep
        self.random = getattr(self, "random", None) or numpy.random.default_rng(
            self.backend.seed if self.backend else 0
        )
        self.mask = (self.random.random(inputs.shape) < keep).astype(inputs.dtype) / keep
        self.output = inputs * self.mask if self.training else inputs

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = error * self.mask
