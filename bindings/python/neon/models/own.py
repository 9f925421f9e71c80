"""User-defined layers inside the engine's net, and a model's own fprop and bprop as the step of the engine's training loop."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from neon.layers.base import Array, Layer, WeightLayer
from neon.layers.dense import FCLayer
from neon.layers.local import LocalFilteringLayer
from neon.transforms import Activation
from neon.util.distarray.global_array import LayerInput, comm, part_of
from pleiad.errors import InvalidArgument
from pleiad.nn.own import OwnLayer, OwnParam, TilePlace


class Clock:
    """Maps steps to epochs and to the momentum that bprop receives."""

    def __init__(self, rule: Any, steps: int) -> None:
        self.rule, self.steps = rule, steps

    def at(self, step: int) -> "tuple[int, tuple[float, float]]":
        epoch = step // self.steps
        return epoch, (self.rule.rate_at(epoch), self.rule.momentum.at(epoch))


@contextmanager
def driven(name: str) -> "Iterator[None]":
    comm.driven = name
    try:
        yield
    finally:
        comm.driven = ""


def weights_of(layer: Layer) -> "dict[str, Array]":
    """Returns the trained arrays of a layer by name."""
    if not isinstance(layer, WeightLayer):
        return {}
    return {name: array for name, array in (("weight", layer.weights), ("bias", layer.bias)) if array.size}


def hand_weights(layer: Layer, names: "list[str]", parameters: "list[Any]") -> None:
    """Makes a layer use the engine's parameters as its weights and bias."""
    for name, array in zip(names, parameters, strict=True):
        view = array.view()
        view.flags.writeable = False
        setattr(layer, "weights" if name == "weight" else "bias", view)


def take_gradients(layer: WeightLayer, got: "list[Array] | None", gradients: "list[Any]") -> None:
    """Copies what bprop passed to update() into the engine's gradients."""
    if all(gradient is None for gradient in gradients):
        return
    if got is None:
        raise InvalidArgument(
            f'layer "{layer.name}": bprop must call self.update([of weights, of bias], momentum), because the layer has weights'
        )
    for part, to in zip([each for each in got if numpy.size(each)], gradients, strict=True):
        if to is None:
            continue
        if numpy.shape(part) != to.shape:
            raise InvalidArgument(
                f'layer "{layer.name}": update: expected a gradient of shape {to.shape}; received {numpy.shape(part)}'
            )
        to[...] = part


class RunningLayer(OwnLayer):
    """A user-defined layer as the net runs it. On one rank it receives whole images. On several ranks a layer with the suffix Dist
    works on a tile, and any other one on whole images."""

    def __init__(self, layer: Layer, seed: int, dtype: Any, rate_scale: float, grid: "tuple[int, int, int]") -> None:
        self.layer = layer
        self.kind = f"own:{type(layer).__module__}.{type(layer).__qualname__}"
        self.seed, self.dtype, self.rate_scale, self.grid = seed, dtype, rate_scale, grid
        self.of_places = isinstance(layer, LocalFilteringLayer)
        self.apart = False  #: whether each use of a shared weight is a separate update (GB's tied filters)
        self.clock: Clock | None = None
        self.shown: tuple[int, ...] = ()
        self.taken = False

    def start(self, shape: "tuple[int, ...]") -> None:
        """Prepares the layer for the shape of an input sample, before it is added to the net."""
        self.shown = tuple(self.layer.initialize(shape, self.seed, self.dtype))
        self.names = list(weights_of(self.layer))
        window = self.layer.window() or ((1, 1), (1, 1))
        pad = self.layer.padding()
        self.windows = tuple((window[0][a], window[1][a], pad[a]) for a in (0, 1))  # type: ignore[assignment]

    def may_be_cut(self, shape: "tuple[int, ...]", deterministic: bool) -> None:
        """Decides, after start, whether the layer works on tiles. In deterministic mode all ranks compute the whole image."""
        self.spatial = self.layer.distributed and len(shape) == len(self.shown) == 3 and not deterministic

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        return shapes[0][0], *self.shown

    def parameters(self, shapes: "list[tuple[int, ...]]") -> "list[OwnParam]":
        norm = self.layer.norm() if isinstance(self.layer, WeightLayer) else 0.0
        found = []
        for name, array in weights_of(self.layer).items():
            fan = int(numpy.prod(array.shape[3 if self.of_places else 1 :])) if array.ndim > 1 else 1
            found.append(
                OwnParam(
                    name, array.shape, fan, norm if name == "weight" else 0.0, self.rate_scale, 1.0, apart=self.apart
                )
            )
        return found

    def on_tile(self, place: TilePlace) -> "RunningLayer":
        other = copy.copy(self)
        if self.taken:  # the engine computes several regions of a tile, and each needs its own layer
            other.layer = copy.copy(self.layer)
        self.taken = True
        return other

    def prepare(self, shapes: "list[tuple[int, ...]]", place: "TilePlace | None") -> None:
        shape = shapes[0]
        layer = self.layer
        if len(shape) != 4:
            layer.input = None
            return
        if place is None:
            whole = slice(0, shape[1]), slice(0, shape[2])
            layer.input = LayerInput(layer.name, shape, whole, whole)
        else:
            (top, bottom, left, right), out, lengths, out_lengths = place
            tile = slice(out[0], out[1]), slice(out[2], out[3])
            if lengths != out_lengths:
                at = comm.rank % (self.grid[0] * self.grid[1])
                tile = (
                    part_of(lengths[0], self.grid[0], at // self.grid[1]),
                    part_of(lengths[1], self.grid[1], at % self.grid[1]),
                )
            layer.input = LayerInput(
                layer.name, (shape[0], *lengths, shape[3]), tile, (slice(top, bottom), slice(left, right))
            )
            layer.input.grid = self.grid
        if len(self.shown) == 3:
            layer.batch_size = shape[0]
            layer.adjust_for_dist()

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        inputs = _read_only(x[0])
        self.layer.training = training
        if parameters:
            hand_weights(self.layer, self.names, parameters)
        with driven(self.layer.name):
            self.layer.fprop(inputs)
        y[...] = _of_shape(self.layer, "output", self.layer.output, y.shape)

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
        assert self.clock is not None
        epoch, momentum = self.clock.at(step)
        got: list[Any] = []
        if isinstance(self.layer, WeightLayer):
            self.layer.take_gradients = got.append
        with driven(self.layer.name):
            self.layer.bprop(dy, _read_only(x[0]), epoch, momentum)
        if dx[0] is not None:
            dx[0][...] = _of_shape(self.layer, "berror", self.layer.berror, dx[0].shape)
        if isinstance(self.layer, WeightLayer):
            self.layer.take_gradients = None
            if parameters:
                take_gradients(self.layer, got[-1] if got else None, gradients)


class CostOf(OwnLayer):
    """The model's cost of the last layer's output. activation: set if it belongs to the cost, which then receives the sums before
    the activation."""

    kind = "own:cost"
    metrics = ("loss",)

    def __init__(self, cost: Any, activation: "Activation | None") -> None:
        self.cost, self.activation = cost, activation

    def result(self, x: Array) -> Array:
        return x if self.activation is None else self.activation.apply_function(x)

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        return (1,)

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        y[0] = self.cost.apply_function(self.result(x[0]), x[1].reshape(x[0].shape))

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
        if dx[0] is not None:
            dx[0][...] = dy[0] * self.cost.apply_derivative(self.result(x[0]), x[1].reshape(x[0].shape))


class ModelStep(OwnLayer):
    """A model's own fprop and bprop as the step of the engine's loop, which provides the samples, the rule and the schedules. Every
    rank holds its tiles, and its layers exchange data themselves."""

    kind = "own:model"
    metrics = ("loss",)

    def __init__(self, model: Any, clock: Clock, scales: "dict[str, float]") -> None:
        self.model, self.clock, self.scales = model, clock, scales
        self.learning = [layer for layer in model.computing if weights_of(layer)]
        self.names = {layer.name: list(weights_of(layer)) for layer in self.learning}

    def outputs(self, shapes: "list[tuple[int, ...]]") -> tuple[int, ...]:
        return (1,)

    def parameters(self, shapes: "list[tuple[int, ...]]") -> "list[OwnParam]":
        found = []
        for layer in self.learning:
            assert isinstance(layer, WeightLayer)
            for name, array in weights_of(layer).items():
                local = isinstance(layer, LocalFilteringLayer)
                fan = int(numpy.prod(array.shape[3 if local else 1 :])) if array.ndim > 1 else 1
                norm = layer.norm() if name == "weight" else 0.0
                found.append(OwnParam(f"{layer.name}.{name}", array.shape, fan, norm, self.scales.get(layer.name, 1.0)))
        return found

    def hand(self, parameters: "list[Any]") -> None:
        """Makes the layers use the net's parameters, which have the order of parameters()."""
        left = list(parameters)
        for layer in self.learning:
            names = self.names[layer.name]
            hand_weights(layer, names, left[: len(names)])
            left = left[len(names) :]

    def forward(self, x: "list[Any]", parameters: "list[Any]", y: Any, training: bool, step: int) -> None:
        self.hand(parameters)
        for layer in self.model.computing:
            layer.training = training
        self.model.fprop(_read_only(x[0]))
        output = self.model.computing[-1].output
        y[0] = self.model.cost.apply_function(output, x[1].reshape(output.shape))

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
        epoch, momentum = self.clock.at(step)
        got: dict[str, list[Any]] = {layer.name: [] for layer in self.learning}
        for layer in self.learning:
            assert isinstance(layer, WeightLayer)
            layer.take_gradients = got[layer.name].append
        targets = x[1].reshape(self.model.computing[-1].output.shape)
        self.model.bprop(targets, _read_only(x[0]), epoch, momentum)
        left = list(gradients)
        for layer in self.learning:
            assert isinstance(layer, WeightLayer)
            layer.take_gradients = None
            count = len(self.names[layer.name])
            sums = got[layer.name][-1] if got[layer.name] else None
            take_gradients(layer, sums, left[:count])
            if layer.name in self.model.shared_layers:
                for gradient in left[:count]:
                    comm.all_reduce(gradient)
            left = left[count:]


def _read_only(array: Any) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _of_shape(layer: Layer, what: str, value: Any, shape: "tuple[int, ...]") -> Array:
    array = numpy.asarray(value)
    if array.size != int(numpy.prod(shape)) or (array.ndim == len(shape) and array.shape != shape):
        raise InvalidArgument(
            f'layer "{layer.name}": {type(layer).__name__}.{what}: expected an array of shape {shape}; received {array.shape}'
        )
    return array.reshape(shape)


def joins(model: Any) -> bool:
    """Passes to the last layer whether the cost returns the gradient of its sums."""
    last = model.computing[-1]
    joined = isinstance(last, FCLayer) and bool(model.cost.joins(last.activation))
    if isinstance(last, FCLayer):
        last.joined = joined
    return joined
