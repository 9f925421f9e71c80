"""Activations and costs. Each has a function and its derivative over NumPy arrays, and the name of its engine counterpart."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray

from neon.util.registry import Component

if TYPE_CHECKING:
    from pleiad.nn.choices import ActivationName

Array = NDArray[Any]


class Activation(Component):
    fields = {"backend": None}
    engine: "ClassVar[ActivationName | Literal['softmax']]" = "linear"  #: its name in pleiad.nn
    #: Further options of the engine's activation layer. If there are any, the activation is a separate layer.
    options: "dict[str, float]" = {}

    def apply_function(self, x: Array) -> Array:
        return x

    def apply_derivative(self, y: Array) -> Array:
        """Returns the derivative, computed from the result of the function."""
        return numpy.ones_like(y)

    def backward(self, y: Array, error: Array) -> Array:
        """Returns the gradient of the function's input, from its result and the gradient of that."""
        return error * self.apply_derivative(y)


class Linear(Activation):
    pass


class Identity(Linear):
    """The class Linear under its name in neon 0.4."""


class Logistic(Activation):
    engine = "sigmoid"

    def apply_function(self, x: Array) -> Array:
        return numpy.asarray(1 / (1 + numpy.exp(-x)))

    def apply_derivative(self, y: Array) -> Array:
        return numpy.asarray(y * (1 - y))


class RectLin(Activation):
    engine = "relu"

    def apply_function(self, x: Array) -> Array:
        return numpy.maximum(x, 0)

    def apply_derivative(self, y: Array) -> Array:
        return (y > 0).astype(y.dtype)


class RectLeaky(Activation):
    engine = "leaky"
    fields = {"slope": 0.01}

    slope: float

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.slope != 0.01:
            self.options = {"slope": self.slope}

    def apply_function(self, x: Array) -> Array:
        return numpy.where(x > 0, x, self.slope * x)

    def apply_derivative(self, y: Array) -> Array:
        return numpy.where(y > 0, 1, self.slope).astype(y.dtype)


class Tanh(Activation):
    engine = "tanh"

    def apply_function(self, x: Array) -> Array:
        return numpy.tanh(x)

    def apply_derivative(self, y: Array) -> Array:
        return 1 - y * y


class Softmax(Activation):
    """The activation of a last layer, together with CrossEntropy."""

    engine = "softmax"

    def apply_function(self, x: Array) -> Array:
        e = numpy.exp(x - x.max(axis=-1, keepdims=True))
        return numpy.asarray(e / e.sum(axis=-1, keepdims=True))

    def backward(self, y: Array, error: Array) -> Array:
        return numpy.asarray(y * (error - (error * y).sum(axis=-1, keepdims=True)))


class Cost(Component):
    """Base class of costs. apply_function(outputs, targets) returns the cost of a sample, averaged over the batch.
    apply_derivative differentiates by the sums of the last layer if cost and activation belong together, otherwise by its
    outputs."""

    fields = {"scale": 1.0, "backend": None}

    scale: float

    def apply_function(self, outputs: Array, targets: Array) -> float:
        raise NotImplementedError

    def apply_derivative(self, outputs: Array, targets: Array) -> Array:
        raise NotImplementedError

    def joins(self, activation: Activation) -> bool:
        return False


class CrossEntropy(Cost):
    """With Softmax: -log of the probability of the right class, times scale. With Logistic: of each output separately."""

    def apply_function(self, outputs: Array, targets: Array) -> float:
        tiny = numpy.finfo(outputs.dtype).tiny
        binary = not numpy.allclose(outputs.sum(axis=-1), 1)
        total = -(targets * numpy.log(outputs + tiny))
        if binary:
            total = total - (1 - targets) * numpy.log(1 - outputs + tiny)
        return float(self.scale * total.sum() / len(outputs))

    def apply_derivative(self, outputs: Array, targets: Array) -> Array:
        return self.scale * (outputs - targets) / len(outputs)

    def joins(self, activation: Activation) -> bool:
        return isinstance(activation, Softmax | Logistic)


class SumSquaredDiffs(Cost):
    def apply_function(self, outputs: Array, targets: Array) -> float:
        return float(self.scale * ((outputs - targets) ** 2).sum() / 2 / len(outputs))

    def apply_derivative(self, outputs: Array, targets: Array) -> Array:
        return self.scale * (outputs - targets) / len(outputs)


__all__ = [
    "Activation",
    "Cost",
    "CrossEntropy",
    "Identity",
    "Linear",
    "Logistic",
    "RectLeaky",
    "RectLin",
    "Softmax",
    "SumSquaredDiffs",
    "Tanh",
]
