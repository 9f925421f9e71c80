"""Fully connected layers."""

from typing import Any

import numpy

from neon.layers.base import Array, WeightLayer
from neon.params import generator_of, weight_of
from neon.util.distarray.global_array import GlobalArray, comm
from neon.util.registry import REQUIRED, register_as
from pleiad import nn
from pleiad.nn.choices import ActivationName


class FCLayer(WeightLayer):
    """A fully connected layer with nout outputs and nin inputs, by default those of the previous layer. use_biases: whether outputs
    have a bias, which starts as bias_init."""

    fields = {"nin": 0, "nout": REQUIRED, "use_biases": True, "bias_init": 0.0}

    nin: int
    nout: int
    use_biases: bool
    #: Number of elements of `nin` that are the constant 1 of a bias.
    bias_inputs: "tuple[int, ...]" = (0,)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.nout = self.whole("nout", self.nout, 1)
        if not self.use_biases and "bias_init" in self.given:
            self.refuse("bias_init", "use_biases is False")
        self.joined = False  # whether the cost returns the gradient of the sums before the activation

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        count = int(numpy.prod(shape))
        if self.nin and self.nin not in [count + extra for extra in self.bias_inputs]:
            also = {(0,): "", (1,): ", and the bias is one more", (0, 1): ", or one more with a bias"}[self.bias_inputs]
            self.refuse("nin", f"the previous layer outputs {count} values{also}; received {self.nin}")

    def units(self) -> int:
        """Returns the number of outputs of the engine's layer."""
        return self.nout

    def bias_wish(self) -> Any:
        return self.bias_value() if self.use_biases else False

    def engine_layers(self) -> "list[nn.Layer]":
        def make(function: ActivationName) -> nn.Layer:
            return nn.Dense(self.units(), function, bias=self.bias_wish(), weight=self.weight(), name=self.name)

        return self.activated(make)

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        net = nn.Net(dtype=dtype, seed=seed)
        self.engine_layers()[0](net.input(in_shape, name="x"), name=self.name)
        self.weights = net.parameters[f"{self.name}/weight"].copy()
        self.bias = net.parameters[f"{self.name}/bias"].copy() if self.use_biases else numpy.empty(0, dtype)
        self.in_shape, self.out_shape = in_shape, (self.units(),)
        return self.out_shape

    def adjust_for_dist(self) -> None:
        if not self.users_own:
            self.refuse_tiles()

    def fprop(self, inputs: Array) -> None:
        sums = inputs.reshape(len(inputs), -1) @ self.weights.T
        self.output = self.activation.apply_function(sums + self.bias if self.use_biases else sums)

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        if not self.joined:
            error = self.activation.backward(self.output, error)
        flat = inputs.reshape(len(inputs), -1)
        self.berror = (error @ self.weights).reshape(inputs.shape)
        self.update([error.T @ flat, error.sum(axis=0) if self.use_biases else self.bias], momentum)


class FCLayerDist(FCLayer):
    """A fully connected layer over images in tiles. Each rank multiplies its positions by their weights, and the partial sums are
    summed over the ranks."""

    def adjust_for_dist(self) -> None:
        assert self.input is not None
        self.ifmshape = list(self.input.view_shape[1:3])
        height, width, channels = self.in_shape
        rows, columns = self.input.tile
        whole = self.weights.reshape(self.units(), height, width, channels)
        self.weights = numpy.ascontiguousarray(whole[:, rows, columns]).reshape(self.units(), -1)

    def fprop(self, inputs_: Array) -> None:
        sums = numpy.ascontiguousarray(inputs_.reshape(len(inputs_), -1) @ self.weights.T)
        if isinstance(self.input, GlobalArray):  # only then does this rank hold a tile; the engine passes whole images
            comm.all_reduce(sums)
        self.output = self.activation.apply_function(sums + self.bias if self.use_biases else sums)


class BiasedLayer(FCLayer):
    """The Layer of neon 0.4: the bias is an additional input of value 1, which nin includes. Its weights start like the others."""

    bias_inputs: "tuple[int, ...]" = (1,)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for field in ("use_biases", "bias_init"):
            if field in self.given:
                self.refuse(field, "the bias is an input of this layer; use LayerWithNoBias for none")

    def weight(self) -> Any:
        return weight_of(self, self.weight_init, (self.nin, self.nout) if self.nin else None)

    def bias_wish(self) -> Any:
        if not self.nin:
            self.refuse("nin", "expected the number of inputs including the bias")
        if not self.use_biases:
            return False
        made = generator_of(self, self.weight_init)
        return float(made.bias_init) if made is not None and "bias_init" in made.given else nn.Param(self.weight())


class LayerWithNoBias(FCLayer):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for field in ("use_biases", "bias_init"):
            if field in self.given:
                self.refuse(field, "this layer has no bias")
        self.use_biases = False


class LayerWithNoBiasDist(FCLayerDist, LayerWithNoBias):
    pass


class LayerDist(FCLayerDist, BiasedLayer):
    pass


class AELayer(BiasedLayer):
    """A layer of an Autoencoder. If nin equals the number of values of the previous layer, it has no bias."""

    bias_inputs = (0, 1)

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        self.use_biases = self.nin != int(numpy.prod(shape))


class RBMLayer(BiasedLayer):
    """A layer of an RBM or a DBN. Visible and hidden units have biases, which nin and nout include."""

    def units(self) -> int:
        return self.nout - 1


register_as("Layer", BiasedLayer)  # its name in files of neon 0.4; in Python, Layer is the base class of all layers
