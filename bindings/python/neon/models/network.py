"""Builds a net of the engine from the layers of a model."""

from typing import Any

from neon.layers.base import Layer
from neon.layers.dense import FCLayer
from neon.layers.simple import DataLayer
from neon.models.own import CostOf, RunningLayer, joins, weights_of
from neon.transforms import CrossEntropy, Logistic, Softmax, SumSquaredDiffs
from neon.util.registry import FieldError
from pleiad import nn
from pleiad.errors import InvalidArgument
from pleiad.nn.own import add_own


class Network:
    """A net under construction. After `layer`, `value` is the output of the layers so far."""

    def __init__(self, model: Any, name: str, shape: "tuple[int, ...]", grid: "tuple[int, int, int]") -> None:
        self.model, self.grid = model, grid
        self.net = nn.Net(name, dtype=model.dtype, seed=model.seed)
        self.value = self.net.input(shape, name="x")
        self.running: list[RunningLayer] = []
        self.out_shape: tuple[int, ...] = ()
        _, self.scales = model.rule()
        for layer in model.layers:
            if isinstance(layer, DataLayer):
                layer.expect_input(tuple(shape))

    def layer(self, layer: Layer, linear: bool = False, apart: bool = False) -> None:
        """Adds a layer. linear: leave out its activation. apart: each use of its shared weight is a separate update."""
        try:
            self._add(layer, linear, apart)
        except FieldError:
            raise
        except InvalidArgument as problem:  # adds the line in the file to the engine's message
            layer.refuse("fshape" if "fshape" in layer.given else "name", str(problem))

    def _add(self, layer: Layer, linear: bool, apart: bool) -> None:
        shape = tuple(self.value.shape)
        layer.expect_input(shape)
        if layer.users_own:
            self._own(layer, shape, apart)
            return
        parts = layer.engine_layers()
        if linear:
            parts = parts[:1]
            parts[0].options["activation"] = "linear"
        scale = self.scales.get(layer.name, 1.0)
        if scale != 1:
            for name in ("weight", "bias"):
                if name == "weight" or parts[0].options.get("bias", "true") == "true":
                    parts[0].options[f"{name}.rate_scale"] = repr(float(scale))
        if apart:
            parts[0].options["weight.apart"] = "true"
        for part in parts:
            self.value = self.net.add(part, self.value)

    def _own(self, layer: Layer, shape: "tuple[int, ...]", apart: bool) -> None:
        running = RunningLayer(layer, self.model.seed, self.model.dtype, self.scales.get(layer.name, 1.0), self.grid)
        running.apart = apart
        running.start(shape)
        running.may_be_cut(shape, self.model.deterministic)
        options = {"window": running.windows, "tiles": layer.distributed}
        initial = weights_of(layer)
        self.value = add_own(self.net, layer.name, running, self.value, options=options)
        for name, array in initial.items():
            self.net.parameters[f"{layer.name}/{name}"][...] = array
        self.running.append(running)

    def ending(self, classes: int) -> None:
        """Adds the last layer and the cost, which compares with labels or targets."""
        model, last = self.model, self.model.computing[-1]
        cost, joined = model.cost, bool(model.cost.joins(last.activation))
        own = last.users_own
        self.layer(last, linear=joined and not own)
        self.out_shape = tuple(self.value.shape)
        if isinstance(last, FCLayer) and last.units() != classes:
            what = (
                f"samples of {classes} values are reconstructed"
                if model.reconstructs
                else f"there are {classes} classes"
            )
            last.refuse("nout", f"{what}; received {last.nout}")
        if isinstance(cost, CrossEntropy) and not joined:
            model.refuse("cost", "CrossEntropy needs Softmax or Logistic as the activation of the last layer")
        if own or type(cost) not in (CrossEntropy, SumSquaredDiffs):
            joins(model)
            target = self.net.input(self.value.shape, "target")
            function = last.activation if joined and not own else None
            self.value = add_own(self.net, "loss", CostOf(cost, function), self.value, target)
            return
        soft = isinstance(last.activation, Softmax) and joined
        if soft and not model.reconstructs:
            loss: Any = nn.SoftmaxLoss(scale=cost.scale)
            self.net.add(loss, self.value, self.net.input((), "label", "int32"), name="loss")
            return
        if cost.scale != 1:
            cost.refuse("scale", "only CrossEntropy with Softmax supports it; scale the learning rate instead")
        if joined and not isinstance(last.activation, Logistic):
            model.refuse("cost", "a model that reconstructs its inputs needs Logistic with CrossEntropy")
        assert isinstance(cost, CrossEntropy | SumSquaredDiffs)
        loss = nn.SigmoidLoss() if joined else nn.EuclideanLoss()
        self.net.add(loss, self.value, self.net.input(self.value.shape, "target"), name="loss")
