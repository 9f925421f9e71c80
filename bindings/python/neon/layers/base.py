"""The base classes of all layers."""

from typing import Any

import numpy
from numpy.typing import NDArray

from neon.params import bias_of, weight_of
from neon.transforms import Activation, Linear
from neon.util.registry import Component, FieldError
from pleiad import nn
from pleiad.errors import InvalidArgument

Array = NDArray[Any]


FUSED = ("linear", "relu", "leaky", "sigmoid", "tanh")  #: activations that the engine's layers have in them
DTYPES = ("weight", "velocity", "delta", "updates", "pre_act", "output", "berror")


def pair(given: Any, what: str) -> tuple[int, int]:
    """Returns (height, width) from a number or a list of two."""
    both = [given, given] if isinstance(given, int) else given
    if isinstance(both, list | tuple) and len(both) == 2:
        if all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in both):
            return both[0], both[1]
    raise FieldError(what, f"{what}: expected a number above 0 or [height, width]; received {given!r}")


def windows(x: Array, size: tuple[int, int], stride: tuple[int, int]) -> Array:
    """Returns a view of the windows over images: (batch, rows, columns, channels, height, width). It is empty if a tile has no
    output."""
    if x.shape[1] < size[0] or x.shape[2] < size[1]:
        return numpy.empty((len(x), 0, 0, x.shape[3], *size), x.dtype)
    view = numpy.lib.stride_tricks.sliding_window_view(x, size, axis=(1, 2))
    out: Array = view[:, :: stride[0], :: stride[1]]
    return out


def add_windows(to: Array, parts: Array, stride: tuple[int, int]) -> None:
    """Adds the parts of all windows to their positions in `to`: the transposed operation of `windows`."""
    rows, columns, height, width = parts.shape[1], parts.shape[2], parts.shape[4], parts.shape[5]
    if rows == 0 or columns == 0:
        return
    for i in range(height):
        for j in range(width):
            down, right = stride[0] * (rows - 1) + 1, stride[1] * (columns - 1) + 1
            to[:, i : i + down : stride[0], j : j + right : stride[1]] += parts[..., i, j]


class Layer(Component):
    """Base class of layers. name, batch_size, pos and backend repeat values of the model and must agree with them. After fprop,
    `output` holds the outputs; after bprop, `berror` holds the gradient of the inputs. `input` is the array of the layer's inputs
    on this rank, with get_fprop_view and get_bprop_view; it is set while the layer runs in a model."""

    fields = {
        "name": "",
        "backend": None,
        "batch_size": 0,
        "pos": -1,
        "dist_flag": False,
        "activation": None,
        "prev_layer": "",
        **{f"{name}_dtype": None for name in DTYPES},
    }
    #: Whether the layer applies `activation`.
    activates = True

    name: str
    backend: Any
    batch_size: int
    pos: int
    prev_layer: str
    activation: Activation

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if getattr(self, "activation", None) is None:
            self.activation = Linear()
        if not isinstance(self.activation, Activation):
            self.refuse("activation", f"expected an activation; received {self.activation!r}")
        if not self.activates and not isinstance(self.activation, Linear):
            self.refuse("activation", f"{type(self).__name__} has none; add an ActivationLayer")
        for field in ("fshape", "stride", "ifmshape"):  # checked here, where the line in the file is known
            if field in self.given and getattr(self, field) not in (None, 0):
                pair(getattr(self, field), field)
        self.given_ifmshape: Any = getattr(self, "ifmshape", None)
        self.input: Any = None
        self.in_shape: tuple[int, ...] = ()
        self.out_shape: tuple[int, ...] = ()
        self.output: Array = numpy.empty(0)
        self.berror: Array = numpy.empty(0)
        self.training = True

    # The engine's layers.

    def engine_layers(self) -> "list[nn.Layer]":
        """Returns the engine's layers in order. The list is empty if the layer computes nothing."""
        raise NotImplementedError(f"{type(self).__name__}.engine_layers")

    def activated(self, make: Any) -> "list[nn.Layer]":
        """Returns make(function), with the activation inside the layer or as an additional layer."""
        function, options = self.activation.engine, self.activation.options
        if function in FUSED and not options:
            return [make(function)]
        return [make("linear"), nn.Activation(function, name=f"{self.name}.{function}", **options)]

    @property
    def users_own(self) -> bool:
        """Whether the layer or its activation is user-defined code. The layer then runs as written, inside the engine's net."""
        methods = ("fprop", "bprop", "initialize", "adjust_for_dist", "update")
        functions = ("apply_function", "apply_derivative", "backward")
        found = [getattr(type(self), name) for name in methods if hasattr(type(self), name)]
        found += [getattr(type(self.activation), name) for name in functions]
        return any(not each.__module__.startswith("neon.") for each in found)

    @property
    def distributed(self) -> bool:
        """Whether a user-defined layer can work on a tile: its class name has the suffix Dist. Other user-defined layers
        receive whole images on every rank."""
        return type(self).__name__.endswith("Dist")

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        """Refuses fields that contradict the output shape of the previous layer, given for one sample."""
        shown = "x".join(map(str, shape))
        if self.given & {"ifmshape", "nifm"} and len(shape) != 3:
            field = "ifmshape" if "ifmshape" in self.given else "nifm"
            self.refuse(field, f"the previous layer outputs {shown} values, but images are expected")
        ifmshape = self.given_ifmshape  # adjust_for_dist changes ifmshape to that of the view
        if "ifmshape" in self.given and ifmshape is not None and pair(ifmshape, "ifmshape") != shape[:2]:
            self.refuse("ifmshape", f"the previous layer outputs images of {shown}; received {ifmshape}")
        if "nifm" in self.given and getattr(self, "nifm", 0) not in (0, shape[-1]):
            self.refuse("nifm", f"the previous layer outputs {shape[-1]} maps; received {getattr(self, 'nifm', 0)}")
        self._expect_types()

    def _expect_types(self) -> None:
        for name in DTYPES:
            wanted = getattr(self, f"{name}_dtype")
            element = self.backend.element if self.backend is not None else numpy.dtype("float32")
            if wanted is not None and str(wanted).rpartition(".")[2] != element.name:
                self.refuse(f"{name}_dtype", f"the back end computes in {element.name}; received {wanted!r}")

    # Computation in NumPy.

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        """Prepares the layer for the shape of an input sample, before the first pass. Returns the shape of an output."""
        self.in_shape = self.out_shape = in_shape
        return in_shape

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]] | None":
        """The window that an output position of an image depends on, and its stride; None if there is no window."""
        return None

    def padding(self) -> tuple[int, int]:
        """The rows and columns by which windows extend beyond the image."""
        return 0, 0

    def expect_images(self, in_shape: tuple[int, ...]) -> None:
        if len(in_shape) != 3:
            raise InvalidArgument(
                f'layer "{self.name}": expected images (height, width, channels); received {in_shape}'
            )

    def expect_outputs(self) -> None:
        if min(self.out_shape) < 1:
            raise InvalidArgument(
                f'layer "{self.name}": images {self.in_shape[0]}x{self.in_shape[1]} are too small for windows {self.window()}'
            )

    # Layers on tiles, for which `input` is set.

    def with_halo(self, inputs: Array) -> Array:
        return inputs if self.input is None else self.input.get_fprop_view(inputs)

    def give_halo_back(self) -> None:
        if self.input is not None:
            self.berror = self.input.get_bprop_view(self.berror)

    def adjust_for_dist(self) -> None:
        """Runs after `input` is set; from then on the layer works on a tile. Layers with user-defined shapes adjust them here."""
        if self.window() is not None:
            if not self.users_own:
                self.refuse_tiles()
            assert self.input is not None
            self.ifmshape = list(self.input.view_shape[1:3])

    def refuse_tiles(self) -> None:
        raise InvalidArgument(
            f'layer "{self.name}": {type(self).__name__} needs whole images; in a model with its own fprop, bprop or'
            " adjust_for_dist, use the class with the suffix Dist"
        )

    def fprop(self, inputs: Array) -> None:
        raise NotImplementedError(f"{type(self).__name__}.fprop")

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.bprop")


class OnTiles(Layer):
    """Exchanges for a layer with windows: fetches the halo before fprop, and returns the gradient of the halo after bprop."""

    def adjust_for_dist(self) -> None:
        assert self.input is not None
        self.ifmshape = list(self.input.view_shape[1:3])

    def fprop(self, inputs_: Array) -> None:
        super().fprop(self.with_halo(inputs_))

    def bprop(self, error: Array, inputs_: Array, epoch: int, momentum: Any) -> None:
        super().bprop(error, self.with_halo(inputs_), epoch, momentum)
        self.give_halo_back()


class WeightLayer(Layer):
    """Base class of layers with `weights` and `bias`. initialize() sets them, and bprop passes their gradients to update()."""

    fields = {"weight_init": None, "lrule_init": None, "learning_rate": None}

    weight_init: Any
    lrule_init: Any
    learning_rate: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.weights: Array = numpy.empty(0)
        self.bias: Array = numpy.empty(0)
        self._velocity: list[Array] = []
        #: Receives the gradients if a model runs the layer; the engine's rule then changes the weights.
        self.take_gradients: Any = None

    def weight(self) -> Any:
        """Returns the weight's initialiser and settings for pleiad.nn."""
        return weight_of(self, self.weight_init)

    def bias_value(self) -> float:
        """Returns the initial value of biases: bias_init of the layer or of weight_init."""
        own = float(getattr(self, "bias_init", 0.0))
        return own if "bias_init" in self.given else bias_of(self, self.weight_init)

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        if not self.has_bias() and bias_of(self, self.weight_init):
            self.refuse("weight_init", "bias_init: the layer has no bias")

    def has_bias(self) -> bool:
        return bool(getattr(self, "use_biases", False))

    def norm(self) -> float:
        """Returns the norm to which each filter is scaled after an update; 0 if filters are not scaled."""
        return 0.0

    def update(self, gradients: "list[Array]", momentum: Any) -> None:
        """Receives the gradients of `weights` and `bias` for this rank's part of the images. In a model they are summed over the
        ranks that share the weights, and the model's rule makes the step. Outside a model, does gradient descent."""
        if self.take_gradients is not None:
            self.take_gradients(gradients)
            return
        values = [self.weights, self.bias]
        if not self._velocity:
            self._velocity = [numpy.zeros_like(value) for value in values]
        rate, coefficient = momentum if isinstance(momentum, tuple) else (0.01, float(momentum or 0))
        for value, velocity, gradient in zip(values, self._velocity, gradients, strict=True):
            velocity *= coefficient
            velocity += rate * gradient
            value -= velocity
        if self.norm():
            length = numpy.sqrt((self.weights**2).sum(axis=(3, 4, 5), keepdims=True))
            self.weights /= numpy.where(length == 0, 1, length)
