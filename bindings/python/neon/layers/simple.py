"""Layers that hold data or costs, or work element by element."""

from typing import Any

import numpy

from neon.layers.base import Array, Layer
from pleiad import nn


class DataLayer(Layer):
    """Where samples come in: nout numbers, or nofm images of ofmshape."""

    fields = {"nout": 0, "nofm": 0, "ofmshape": None, "is_data": True}

    def engine_layers(self) -> "list[nn.Layer]":
        return []

    def fprop(self, inputs: Array) -> None:
        self.output = inputs

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = error


class ImageDataLayer(DataLayer):
    pass


class CostLayer(Layer):
    """The last layer of neon 0.8's files: the cost of the layer before it."""

    fields = {"cost": None}

    def engine_layers(self) -> "list[nn.Layer]":
        return []


class ActivationLayer(Layer):
    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.Activation(self.activation.engine, name=self.name)]

    def fprop(self, inputs: Array) -> None:
        self.output = self.activation.apply_function(inputs)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = error * self.activation.apply_derivative(self.output)


class DropOutLayer(Layer):
    """keep: the share that stays; what stays is scaled by 1 / keep."""

    fields = {"keep": 0.5}

    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.Dropout(1 - self.keep, name=self.name)]  # type: ignore[attr-defined]

    def fprop(self, inputs: Array) -> None:
        keep = self.keep  # type: ignore[attr-defined]
        self.random = getattr(self, "random", None) or numpy.random.default_rng(
            self.backend.seed if self.backend else 0
        )
        self.mask = (self.random.random(inputs.shape) < keep).astype(inputs.dtype) / keep
        self.output = inputs * self.mask if self.training else inputs

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        self.berror = error * self.mask
