"""Layers that the engine alone computes: local filters, local contrast, response across maps."""

from typing import Any

from neon.layers.base import Layer, WeightLayer, pair
from pleiad import nn
from pleiad.errors import InvalidArgument


class LocalFilteringLayer(WeightLayer):
    """Untied convolution: a filter for each place and map, linear, no bias, each filter kept at L2 norm 1."""

    fields = {"nifm": 0, "nofm": 0, "ifmshape": None, "fshape": [5, 5], "stride": 1, "sparsity": 0.0}
    ignored = frozenset({"tied_weights", "pretraining"})

    nofm: int
    fshape: Any
    stride: Any

    def engine_layers(self) -> "list[nn.Layer]":
        (height, width), (down, right) = pair(self.fshape, "fshape"), pair(self.stride, "stride")
        if height != width or down != right:
            raise InvalidArgument(
                f'layer "{self.name}": filters and strides are square; received {self.fshape}, {self.stride}'
            )
        weight = self.weight()
        more = {f"weight.{name}": value for name, value in weight.numbers.items()}
        return [
            nn.Layer(
                "local_convolution",
                self.name,
                filters=self.nofm,
                kernel=height,
                stride=down,
                bias=False,
                **{"weight.init": weight.type, "weight.norm": 1.0, **more},
            )
        ]


class LCNLayer(Layer):
    """Local contrast normalisation by a Gaussian window over all maps; the image keeps its size."""

    fields = {"nifm": 0, "ifmshape": None, "fshape": [3, 3], "stride": 1}

    fshape: Any

    def engine_layers(self) -> "list[nn.Layer]":
        height, width = pair(self.fshape, "fshape")
        if height != width or height % 2 == 0:
            raise InvalidArgument(f'layer "{self.name}": the window is odd and square; received {self.fshape}')
        return [nn.Layer("local_contrast", self.name, size=height)]


class LocalContrastNormLayer(Layer):
    """neon 0.8's: over each map, by a box."""

    fields = {"fshape": [3, 3], "alpha": 1.0, "beta": 0.5}

    fshape: Any
    alpha: float
    beta: float

    def engine_layers(self) -> "list[nn.Layer]":
        size = pair(self.fshape, "fshape")[0]
        return [nn.Layer("local_contrast", self.name, type="box", size=size, alpha=self.alpha, beta=self.beta)]


class CrossMapResponseNormLayer(Layer):
    """x * (1 + alpha / k * the sum of x^2 over k maps)^-beta."""

    fields = {"ksize": 5, "alpha": 1.0, "beta": 0.75}

    ksize: int
    alpha: float
    beta: float

    def engine_layers(self) -> "list[nn.Layer]":
        return [nn.LRN(self.ksize, self.alpha, self.beta, name=self.name)]


class LocalFilteringLayerDist(LocalFilteringLayer):
    pass


class LCNLayerDist(LCNLayer):
    pass
