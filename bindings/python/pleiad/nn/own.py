"""Layers, losses and metrics written in Python. They run as layers of a net, with its update rule, gradient exchange and
checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.nn.graph import Placed, Value
from pleiad.nn.params import ALIASES, Init, ParamLike, param_options
from pleiad.options import text_of

if TYPE_CHECKING:
    from pleiad.nn.net import Net

Window = tuple[int, int, int]
#: For a layer on a tile: the region that it reads, the region that it computes (both top, bottom, left, right), and the
#: height and width of the whole input and output images.
TilePlace = tuple[tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class OwnParam:
    """A parameter of a layer written in Python.

    Args:
        name: its name in the layer, such as "weight".
        shape: its shape.
        fan_in: number of inputs of an output: the number of elements of a filter, which `norm` and some initialisers need.
        norm: norm to which each filter is rescaled after an update; 0 disables it.
        rate_scale: factor of the learning rate.
        decay_scale: factor of the weight decay.
        apart: if layers share the parameter, apply each layer's gradient as a separate update.
        init: an initialiser of `nn.init`, its name, or a number.
        fan_out: number of outputs that an input reaches, which some initialisers need.
    """

    name: str
    shape: tuple[int, ...]
    fan_in: int = 1
    norm: float = 0
    rate_scale: float = 1
    decay_scale: float = 1
    apart: bool = False
    init: "Init | str | float" = 0.0
    fan_out: int = 1

    @property
    def initial(self) -> tuple[str, dict[str, float]]:
        """The type of the initialiser and its numbers."""
        if isinstance(self.init, int | float):
            return "constant", {"value": float(self.init)}
        init = Init(self.init) if isinstance(self.init, str) else self.init
        param_options(self.name, init)  # raises if the initialiser is unknown
        plain = {"value": 0.0 if init.type == "zeros" else 1.0}
        return ALIASES.get(init.type, init.type), {**plain, **init.numbers}


class OwnLayer:
    """Base class of layers written in Python. Override `outputs`, `parameters` (if it has any), `forward` and `backward`, and
    use an object of the class as any other layer. Shapes include the batch. Arrays share the net's memory; do not write to
    those of parameters. The engine may call any method from one of its threads, while it holds the GIL.

    Attributes:
        kind: name of the layer type.
        name: name of the layer in its net, by default the kind and a number.
        spatial: whether the layer can compute a tile of an image. Then `windows` holds (size, stride, pad) of height and
            width, and `on_tile` returns the layer for a tile.
        of_places: whether the first two axes of the parameters are output positions.
        metrics: names of the metrics of a layer that ends a net; the first one is the loss.
        has_loss: whether the first metric is a loss.
        takes_integers: whether inputs may be integers, such as labels.
        takes_weights: whether a loss multiplies what each sample adds by `sample_weight`, an array (batch,) or None.

    >>> import numpy
    >>> from pleiad import nn
    >>> class Scale(nn.OwnLayer):
    ...     kind = "scale"
    ...     def parameters(self, shapes):
    ...         return [nn.OwnParam("factor", shapes[0][1:], init=2.0)]
    ...     def forward(self, x, parameters, y, training, step):
    ...         y[...] = x[0] * parameters[0]
    ...     def backward(self, x, parameters, y, dy, dx, gradients, step):
    ...         if dx[0] is not None:
    ...             dx[0][...] = dy * parameters[0]
    ...         if gradients[0] is not None:
    ...             gradients[0][...] = (dy * x[0]).sum(axis=0)
    >>> net = nn.Sequential([Scale(), nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
    >>> net.parameters["scale1/factor"].tolist()
    [2.0, 2.0, 2.0]
    """

    kind: str = "own"
    name: "str | None" = None
    spatial: bool = False
    of_places: bool = False
    metrics: Sequence[str] = ()
    has_loss: bool = True
    takes_integers: bool = False
    takes_weights: bool = False
    windows: "tuple[Window, Window]" = ((1, 1, 0), (1, 1, 0))
    sample_weight: "NDArray[Any] | None" = None

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        """Returns the output shape for these input shapes."""
        return shapes[0]

    def parameters(self, shapes: "list[tuple[int, ...]]") -> "list[OwnParam]":
        """Returns the layer's parameters for these input shapes."""
        return []

    def options(self) -> "Mapping[str, Any]":
        """Returns the values that a checkpoint stores and compares when it is loaded."""
        return {}

    def on_tile(self, place: TilePlace) -> "OwnLayer":
        """Returns the layer that computes this tile."""
        return self

    def prepare(self, shapes: "list[tuple[int, ...]]", place: "TilePlace | None") -> None:
        """Prepares for batches of these shapes. The engine calls it before the first pass over such a batch."""

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        """Computes the output and writes it to `y`."""
        raise NotImplementedError

    def backward(
        self,
        x: "list[Any]",
        parameters: "list[Any]",
        y: Any,
        dy: Any,
        dx: "list[Any]",
        gradients: "list[Any]",
        step: int,
    ) -> None:
        """Writes the gradients of the inputs to `dx` and those of the parameters to `gradients`. Entries that are not needed
        are None."""
        raise NotImplementedError

    def __call__(self, *inputs: Value, name: "str | None" = None) -> Value:
        """Adds the layer to the net of its inputs and returns its output."""
        if not inputs or not all(isinstance(value, Value) for value in inputs):
            raise InvalidArgument(
                f"{self.kind}: expected values of a net, as net.input and layers return; received "
                f"{', '.join(type(value).__name__ for value in inputs) or 'none'}"
            )
        return inputs[0].net.add(self, *inputs, name=name)


class _OwnScore(OwnLayer):
    """A loss or metric of scores and targets, with one value for each sample."""

    takes_integers = True
    #: The kind of target that `nn.Sequential` makes: "label" is an integer, "same" an array of the shape of the scores.
    target: ClassVar[Literal["label", "same"]] = "same"

    def __init__(self, name: "str | None" = None) -> None:
        self.name = name

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" not in cls.__dict__:
            cls.kind = cls.__name__.lower()

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        if len(shapes) != 2:
            raise InvalidArgument(f"expected scores and targets; received {len(shapes)} inputs")
        return (1,)

    def _mean(self, values: Any, what: str, count: int) -> float:
        found = numpy.asarray(values)
        if found.shape != (count,):
            raise InvalidArgument(
                f"{type(self).__name__}.{what}: expected a value for each of {count} samples, shape ({count},); returned "
                f"shape {found.shape}"
            )
        factors = 1.0 if self.sample_weight is None else self.sample_weight
        return float((found * factors).sum(dtype="float64") / count)


class OwnLoss(_OwnScore):
    """Base class of losses written in Python. Override `losses` and `gradient`; the engine averages over the batch of all
    ranks, and multiplies by sample weights.

    >>> import numpy
    >>> from pleiad import nn
    >>> class Absolute(nn.OwnLoss):
    ...     def losses(self, scores, target):
    ...         return numpy.abs(scores - target).sum(axis=1)
    ...     def gradient(self, scores, target):
    ...         return numpy.sign(scores - target)
    >>> net = nn.Sequential([nn.Dense(1)], input=(2,), loss=Absolute())
    >>> net.inputs
    {'x': 'float32', 'target': 'float32'}
    """

    metrics = ("loss",)
    takes_weights = True

    def losses(self, scores: Any, target: Any) -> Any:
        """Returns the loss of each sample, an array (batch,)."""
        raise NotImplementedError

    def gradient(self, scores: Any, target: Any) -> Any:
        """Returns the gradient of each sample's loss by its scores, an array of the shape of the scores."""
        raise NotImplementedError

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        y[...] = self._mean(self.losses(x[0], x[1]), "losses", len(x[0]))

    def backward(
        self,
        x: "list[Any]",
        parameters: "list[Any]",
        y: Any,
        dy: Any,
        dx: "list[Any]",
        gradients: "list[Any]",
        step: int,
    ) -> None:
        if dx[0] is None:
            return
        found = numpy.asarray(self.gradient(x[0], x[1]))
        if found.shape != x[0].shape:
            raise InvalidArgument(
                f"{type(self).__name__}.gradient: expected the shape of the scores, {x[0].shape}; returned shape {found.shape}"
            )
        numpy.multiply(found, dy[0] / len(x[0]), out=dx[0], casting="unsafe")
        if self.sample_weight is not None:
            dx[0] *= self.sample_weight.reshape(-1, *[1] * (dx[0].ndim - 1))


class OwnMetric(_OwnScore):
    """Base class of metrics written in Python. Override `values`; the engine averages over all samples of all ranks. Add it
    to a net with scores and labels as inputs; the metric has the name of the layer.

    >>> from pleiad import nn
    >>> class Positive(nn.OwnMetric):
    ...     def values(self, scores, target):
    ...         return scores[:, 0] > 0
    >>> net = nn.Sequential([nn.Dense(2, name="scores")], input=(3,), loss=nn.SoftmaxLoss())
    >>> net.add(Positive(name="positive"), "scores", "label")
    <positive: positive of scores, label, ()>
    """

    metrics = ("value",)
    has_loss = False

    def values(self, scores: Any, target: Any) -> Any:
        """Returns the metric of each sample, an array (batch,)."""
        raise NotImplementedError

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        y[...] = self._mean(self.values(x[0], x[1]), "values", len(x[0]))

    def backward(
        self,
        x: "list[Any]",
        parameters: "list[Any]",
        y: Any,
        dy: Any,
        dx: "list[Any]",
        gradients: "list[Any]",
        step: int,
    ) -> None:
        """A metric has no gradient."""


def add_own(
    net: "Net",
    name: str,
    layer: OwnLayer,
    *inputs: "Value | str",
    options: "Mapping[str, Any] | None" = None,
    phases: Sequence[str] = (),
) -> Value:
    """Adds a layer written in Python to a net. `options` are values by name that a checkpoint stores and compares."""
    names = tuple(value.name if isinstance(value, Value) else value for value in inputs)
    fields = [(key, text_of(value)) for key, value in (options or {}).items()]
    net._core.add_own(name, layer, fields, list(names), list(phases))
    net._layers[name] = Placed(layer.kind, names, bool(layer.metrics))
    net._last = name
    return Value(net, name)


__all__ = ["OwnLayer", "OwnLoss", "OwnMetric", "OwnParam", "ParamLike", "TilePlace", "Window", "add_own"]
