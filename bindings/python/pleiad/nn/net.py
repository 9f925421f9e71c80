"""A net: a graph of named layers, its memory, and forward and backward passes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument, StateError
from pleiad.nn import copying
from pleiad.nn.choices import Layout, Phase
from pleiad.nn.drawing import draw
from pleiad.nn.engine import _nn
from pleiad.nn.forms import host_array
from pleiad.nn.graph import Arrays, Placed, Value
from pleiad.nn.layers import Layer, Loss
from pleiad.nn.own import OwnLayer, add_own
from pleiad.nn.weights import array_of, checked_layout
from pleiad.options import dtype_name

PHASES: tuple[Phase, ...] = ("train", "validate", "test")


class Net:
    """A graph of named layers. Create inputs first, then call layers on them:

    >>> from pleiad import nn
    >>> net = nn.Net("mlp", seed=7)
    >>> x, label = net.input((784,), name="x"), net.input((), name="label", dtype="int32")
    >>> scores = nn.Dense(10, name="scores")(nn.Dense(128, activation="relu", name="hidden")(x))
    >>> loss = nn.SoftmaxLoss(name="loss")(scores, label)
    >>> net.parameters
    {'hidden/weight': (128, 784), 'hidden/bias': (128,), 'scores/weight': (10, 128), 'scores/bias': (10,)}

    The arrays of parameters and activations are NumPy arrays that share the net's memory; `torch.from_dlpack` and
    `jax.numpy.from_dlpack` take them without a copy too. Only one thread at a time may use a net.
    """

    def __init__(self, name: str = "net", *, dtype: Any = "float32", seed: int = 1) -> None:
        self._core = _nn.Net(name, dtype_name(dtype), seed)
        self._inputs: dict[str, str] = {}
        self._layers: dict[str, Placed] = {}
        self._own: dict[str, OwnLayer] = {}  # the layers written in Python
        self._last: str | None = None

    # Building.

    def input(self, shape: Sequence[int], name: "str | None" = None, dtype: Any = None) -> Value:
        """Adds an input. `shape` is the shape of one sample, () for labels."""
        name = self._free_name("input") if name is None else name
        element = self._core.dtype if dtype is None else dtype_name(dtype)
        self._core.input(name, [int(side) for side in shape], element)
        self._inputs[name] = element
        self._last = name if self._last is None or not self._layers else self._last
        return Value(self, name)

    def add(
        self,
        layer: "Layer | OwnLayer",
        *inputs: "Value | str",
        name: "str | None" = None,
        phases: Sequence[Phase] = PHASES,
    ) -> Value:
        """Adds a layer on top of `inputs`, by default on top of the layer that was added last. `phases` are those in which
        the layer runs. An error names the layer, what was expected and what was received."""
        if not isinstance(layer, Layer | OwnLayer):
            raise InvalidArgument(f"[Net.add] expected a layer of pleiad.nn; received {type(layer).__name__}")
        name = name or layer.name or self._free_name(layer.kind)
        if not inputs:
            if self._last is None:
                raise InvalidArgument(f'layer "{name}": the net has no input yet; call net.input() first')
            inputs = (self._last,)
        for value in inputs:
            if isinstance(value, Value) and value.net is not self:
                raise InvalidArgument(f'layer "{name}": {value.name} belongs to another net, "{value.net.name}"')
        names = tuple(value.name if isinstance(value, Value) else value for value in inputs)
        if not phases:
            raise InvalidArgument(f'layer "{name}": phases: expected one or more of {", ".join(PHASES)}; received none')
        if isinstance(layer, OwnLayer):
            value = add_own(self, name, layer, *names, options=layer.options(), phases=phases)
            self._own[name] = layer
            return value
        self._core.add(name, layer.kind, list(layer.options.items()), list(names), list(phases))
        self._layers[name] = Placed(layer.kind, names, isinstance(layer, Loss) or _is_loss(layer.kind))
        self._last = name
        return Value(self, name)

    def _free_name(self, kind: str) -> str:
        number = 1
        while f"{kind}{number}" in self._layers or f"{kind}{number}" in self._inputs:
            number += 1
        return f"{kind}{number}"

    def fix(self, *parameters: str, fixed: bool = True) -> None:
        """Excludes parameters from training, by name ("layer/weight") or by layer ("layer"). fixed=False trains them again.
        The backward pass skips layers below which nothing is trained.

        >>> from pleiad import nn
        >>> net = nn.Sequential([nn.Dense(8, name="a"), nn.Dense(2, name="b")], input=(4,), loss=nn.SoftmaxLoss())
        >>> net.fix("a")
        >>> net.fixed
        ['a/weight', 'a/bias']
        """
        for name in parameters:
            whole = [each for each in self.parameters if each.startswith(f"{name}/")]
            for each in whole or [name]:
                self._core.fix(each, fixed)

    @property
    def fixed(self) -> list[str]:
        """The names of the parameters that are not trained."""
        return [name for name in self.parameters if self._core.fixed(name)]

    def forget(self, phase: Phase = "train") -> None:
        """Resets the state that recurrent layers carry from batch to batch to zero."""
        self._core.forget(phase)

    # Properties.

    @property
    def name(self) -> str:
        """The name of the net."""
        return self._core.name

    @property
    def dtype(self) -> str:
        """The element type of the parameters."""
        return self._core.dtype

    @property
    def batch(self) -> int:
        """The batch size for which memory is allocated; 0 before the first pass."""
        return self._core.batch

    @property
    def inputs(self) -> dict[str, str]:
        """The element type of each input, by name."""
        return dict(self._inputs)

    @property
    def layers(self) -> list[str]:
        """The names of the layers."""
        return self._core.layer_names()

    @property
    def targets(self) -> list[str]:
        """The inputs that only losses use: labels and reconstruction targets."""
        used = {source for layer in self._layers.values() if not layer.loss for source in layer.inputs}
        used |= {layer.inputs[0] for layer in self._layers.values() if layer.loss}
        wanted = {source for layer in self._layers.values() if layer.loss for source in layer.inputs[1:]}
        return [name for name in self._inputs if name in wanted and name not in used]

    @property
    def predictions(self) -> list[str]:
        """The layers whose output the losses compare; without a loss, the layers whose output no layer uses."""
        losses = [layer.inputs[0] for layer in self._layers.values() if layer.loss]
        if losses:
            return list(dict.fromkeys(losses))
        used = {source.partition(":")[0] for layer in self._layers.values() for source in layer.inputs}
        return [name for name in self._layers if name not in used]

    @property
    def parameters(self) -> Arrays:
        """The parameters by name, such as "layer/weight"."""
        return Arrays(self._core.parameter_names, self._core.parameter)

    @property
    def gradients(self) -> Arrays:
        """The gradients of the parameters after `backward`. A trainer that fuses the update with the gradient keeps none;
        create it with fuse=False to read them."""

        def find(name: str) -> Any:
            array = self._core.gradient(name)
            if array is None:
                raise StateError(
                    f'the gradient of "{name}" is not in memory: no pass was made yet, or the trainer fuses the update with '
                    "the gradient (use Trainer(..., fuse=False))"
                )
            return array

        return Arrays(self._core.parameter_names, find)

    @property
    def states(self) -> dict[str, NDArray[Any]]:
        """Values that belong to the model but are not trained, such as running means."""
        return self._core.states()

    def output(self, name: "str | Value") -> NDArray[Any]:
        """Returns the output of a layer in the last pass, by "layer" or "layer:1". It shares the net's memory and is valid
        until the next pass."""
        array = self._core.output(name.name if isinstance(name, Value) else name)
        if array is None:
            raise StateError(f'net "{self.name}": no pass was made yet; call forward() first')
        return array

    __getitem__ = output

    def count_parameters(self) -> int:
        """Returns the number of elements of all parameters."""
        return sum(array.size for array in self.parameters.values())

    # Passes.

    def forward(
        self, inputs: "Mapping[str, Any] | None" = None, *, phase: Phase = "test", step: int = 0, **more: Any
    ) -> dict[str, float]:
        """Makes one forward pass over arrays by input name, and returns the loss and metrics. Labels may be omitted; the losses
        then use zeros. `step` selects the random numbers of layers such as dropout.

        >>> import numpy
        >>> from pleiad import nn
        >>> net = nn.Net()
        >>> y = nn.Dense(2, weight=nn.init.constant(1), name="y")(net.input((3,), name="x"))
        >>> net.forward(x=numpy.array([[1, 2, 3]], "float32"))
        {}
        >>> net["y"].tolist()
        [[6.0, 6.0]]
        """
        self.set_inputs({**(inputs or {}), **more})
        self._core.weigh_samples(False)
        self._core.forward(phase, step, 0)
        return self.metrics()

    def backward(self) -> None:
        """Computes `gradients`. Call it after forward with phase="train"."""
        self._core.backward()

    def metrics(self) -> dict[str, float]:
        """Returns the loss and metrics of the last pass. With several losses the names are "layer/accuracy"."""
        return dict(self._core.metrics())

    @property
    def loss(self) -> float:
        """The sum of all losses in the last pass."""
        return self._core.loss()

    def set_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Copies a batch into the net. A batch of another size makes the net allocate its memory again."""
        arrays = {name: self.as_input(name, array) for name, array in inputs.items()}
        rows = {name: len(array) for name, array in arrays.items()}
        if len(set(rows.values())) != 1:
            raise InvalidArgument(f"expected the same number of samples for every input; received {rows or 'no input'}")
        missing = [name for name in self._inputs if name not in arrays and name not in self.targets]
        if missing:
            raise InvalidArgument(f"expected arrays for the inputs {', '.join(missing)}; received {', '.join(arrays)}")
        self._core.prepare(next(iter(rows.values())))
        for name, array in arrays.items():
            self.write_input(name, array)

    def write_input(self, name: str, array: NDArray[Any]) -> None:
        """Copies a batch of the prepared size into an input."""
        held = self._core.input_array(name)
        tile = self._core.input_tile(name)
        if tile is not None and array.shape != held.shape:  # this rank holds one tile of each image
            array = array[:, tile[0] : tile[1], tile[2] : tile[3]]
        held[...] = array

    def as_input(self, name: str, array: Any) -> NDArray[Any]:
        """Converts `array` to the element type and shape (samples, *shape) of an input, contiguous. Returns the same array
        if it already fits. Refuses floating-point labels."""
        if name not in self._inputs:
            raise InvalidArgument(f'net "{self.name}" has no input "{name}"; its inputs: {", ".join(self._inputs)}')
        given = host_array(array)
        wanted = numpy.dtype(self._inputs[name])
        if given.dtype.kind not in "iufb" or (wanted.kind == "i" and given.dtype.kind == "f"):
            raise InvalidArgument(f'input "{name}": expected {wanted}; received {given.dtype}')
        sample = tuple(self._core.input_sample(name))
        if given.ndim == 0 or len(given) == 0:
            raise InvalidArgument(f'input "{name}": expected samples of shape {sample}; received shape {given.shape}')
        tile = self._core.input_tile(name)
        if tile is not None:  # accepts whole images as well as this rank's tile of each
            part = (tile[1] - tile[0], tile[3] - tile[2], sample[2])
            sample = part if given.shape[1:] == part else sample
        size = int(numpy.prod(sample, dtype=numpy.int64))
        if given.size != len(given) * size:
            raise InvalidArgument(
                f'input "{name}": expected shape {(len(given), *sample)}; received shape {given.shape}'
                + _hint(given.shape[1:], sample)
            )
        return numpy.ascontiguousarray(given, wanted).reshape(len(given), *sample)

    # Saving.

    def state_dict(self, *, layout: Layout = "pleiad") -> dict[str, NDArray[Any]]:
        """Returns a copy of all parameters and states by name. layout="torch" uses the names and order of PyTorch modules
        ("conv1.weight" as (filters, channels, height, width)), for layers that PyTorch also has."""
        if checked_layout(layout) == "torch":
            return self._core.torch_state()
        return {name: array.copy() for name, array in {**self.parameters, **self.states}.items()}

    def load_state_dict(
        self,
        state: Mapping[str, Any],
        *,
        layout: "Layout | Literal['auto']" = "auto",
        modules: "Mapping[str, str] | None" = None,
    ) -> None:
        """Loads a dict from `state_dict`, or the state dict of a PyTorch module, of NumPy arrays or torch tensors. Checks all
        arrays before it copies any. layout="auto" is "pleiad" if the names are those of this net. `modules` maps layers to
        module names in PyTorch's state ({"conv1": "features.0"}); without it, layers and modules match by name or by order."""
        arrays = {name: array_of(value) for name, value in state.items()}
        own = {**self.parameters, **self.states}
        if layout == "auto":
            layout = "pleiad" if any(name in own for name in arrays) or not arrays else "torch"
        if checked_layout(layout) == "torch":
            self._core.load_torch_state(arrays, list((modules or {}).items()))
            return
        for name, array in own.items():
            if name not in arrays:
                raise InvalidArgument(f'state: "{name}" is missing; received {", ".join(arrays) or "nothing"}')
            if arrays[name].shape != array.shape:
                raise InvalidArgument(f'state: "{name}" has shape {array.shape}; received {arrays[name].shape}')
        unknown = [name for name in arrays if name not in own]
        if unknown:
            raise InvalidArgument(f'state: the net has no "{unknown[0]}"; known: {", ".join(own)}')
        for name, array in own.items():
            array[...] = arrays[name]

    def save_file(self, path: "str | Path", *, layout: Layout = "torch") -> None:
        """Writes parameters and states to a safetensors file, completely or not at all."""
        self._core.export_file(str(path), layout)

    def load_file(self, path: "str | Path", *, modules: "Mapping[str, str] | None" = None) -> None:
        """Loads a safetensors file of either layout, or a state dict that torch.save wrote. Executes no code of the file."""
        self._core.import_file(str(path), list((modules or {}).items()))

    def text(self) -> str:
        """Returns the structure of the net as JSON, without values; `Net.from_text` creates the same net again."""
        return self._core.text()

    @classmethod
    def from_text(cls, text: str) -> "Net":
        """Creates a net from the JSON that `text` returns."""
        return cls._of(_nn.net_from_text(text, "net"))

    @classmethod
    def _of(cls, core: "_nn.Net") -> "Net":
        """Wraps a net that C++ created."""
        net = cls.__new__(cls)
        words = json.loads(core.text())
        net._core, net._own = core, {}
        net._inputs = {each["name"]: each["dtype"] for each in words["inputs"]}
        net._layers = {
            each["name"]: Placed(each["kind"], tuple(each["inputs"]), _is_loss(each["kind"]))
            for each in words["layers"]
        }
        net._last = next(reversed([*net._inputs, *net._layers]), None)
        return net

    # Description.

    def describe(self) -> str:
        """Returns a text table of layers, shapes, parameters, memory and multiplications."""
        return self._core.describe()

    def summary(self) -> None:
        """Prints `describe()`."""
        print(self.describe(), end="")

    def dot(self) -> str:
        """Returns the graph in Graphviz's DOT language."""
        return self._core.dot()

    def picture(self, path: "str | Path") -> Path:
        """Draws the graph to a file whose suffix selects the format (svg, png, pdf). Needs Graphviz, except for .dot and .gv."""
        return draw(self.dot(), Path(path))

    def __getstate__(self) -> dict[str, Any]:
        return copying.state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        copying.restore(self, state)

    def __repr__(self) -> str:
        return f'<pleiad.nn.Net "{self.name}": {len(self._layers)} layers, {self.count_parameters():,} parameters>'


def _is_loss(kind: str) -> bool:
    return kind.endswith("_loss") or kind in ("accuracy", "rbm")


def load_net(folder: "str | Path") -> Net:
    """Loads a net and its values from a checkpoint folder."""
    return Net._of(_nn.load_net(str(folder)))


def _hint(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if len(got) == len(wanted) == 3 and (got[1], got[2], got[0]) == wanted:
        return "; images are (height, width, channels): numpy.moveaxis(x, 1, -1)"
    return ""
