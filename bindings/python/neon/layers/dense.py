"""Fully connected layers."""

from typing import Any

import numpy

from neon.layers.base import Array, WeightLayer
from neon.util.distarray.global_array import comm
from pleiad import nn


class FCLayer(WeightLayer):
    """nout outputs, each of all inputs."""

    fields = {"nout": 0}

    nout: int

    def engine_layers(self) -> "list[nn.Layer]":
        function = self.activation.engine
        fused = function not in ("softmax",)
        dense = nn.Dense(self.nout, function if fused else "linear", weight=self.weight(), name=self.name)
        return [dense] if fused else [dense, nn.Activation(function, name=f"{self.name}.{function}")]

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        net = nn.Net(dtype=dtype, seed=seed)
        self.engine_layers()[0](net.input(in_shape, name="x"), name=self.name)
        self.weights = net.parameters[f"{self.name}/weight"].copy()
        self.bias = net.parameters[f"{self.name}/bias"].copy()
        self.in_shape, self.out_shape = in_shape, (self.nout,)
        self.joined = False  # the cost gives the error by the sums
        return self.out_shape

    def adjust_for_dist(self) -> None:
        if not self.users_own:
            self.refuse_tiles()

    def fprop(self, inputs: Array) -> None:
        self.output = self.activation.apply_function(inputs.reshape(len(inputs), -1) @ self.weights.T + self.bias)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        if not self.joined:
            error = error * self.activation.apply_derivative(self.output)
        flat = inputs.reshape(len(inputs), -1)
        self.berror = (error @ self.weights).reshape(inputs.shape)
        self.update([error.T @ flat, error.sum(axis=0)], momentum)


class FCLayerDist(FCLayer):
    """Over images in tiles: each rank multiplies its places by their weights, and the partial sums are summed."""

    def adjust_for_dist(self) -> None:
        assert self.input is not None
        height, width, channels = self.in_shape
        rows, columns = self.input.tile
        whole = self.weights.reshape(self.nout, height, width, channels)
        self.weights = numpy.ascontiguousarray(whole[:, rows, columns]).reshape(self.nout, -1)

    def fprop(self, inputs_: Array) -> None:
        sums = numpy.ascontiguousarray(inputs_.reshape(len(inputs_), -1) @ self.weights.T)
        if self.input is not None:
            comm.all_reduce(sums)
        self.output = self.activation.apply_function(sums + self.bias)


class LayerDist(FCLayerDist):
    """neon 0.4's name."""
