"""What layers have in common."""

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
    """(height, width) from a number or a list of two."""
    both = [given, given] if isinstance(given, int) else given
    if isinstance(both, list | tuple) and len(both) == 2:
        if all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in both):
            return both[0], both[1]
    raise FieldError(what, f"{what}: expected a number above 0 or [height, width]; received {given!r}")


def windows(x: Array, size: tuple[int, int], stride: tuple[int, int]) -> Array:
    """(batch, rows, columns, channels, height, width): a view of the windows over images; none where a tile has none."""
    if x.shape[1] < size[0] or x.shape[2] < size[1]:
        return numpy.empty((len(x), 0, 0, x.shape[3], *size), x.dtype)
    view = numpy.lib.stride_tricks.sliding_window_view(x, size, axis=(1, 2))
    out: Array = view[:, :: stride[0], :: stride[1]]
    return out


def add_windows(to: Array, parts: Array, stride: tuple[int, int]) -> None:
    """to += the windows' parts, each at its places: the transposed of `windows`."""
    rows, columns, height, width = parts.shape[1], parts.shape[2], parts.shape[4], parts.shape[5]
    if rows == 0 or columns == 0:
        return
    for i in range(height):
        for j in range(width):
            down, right = stride[0] * (rows - 1) + 1, stride[1] * (columns - 1) + 1
            to[:, i : i + down : stride[0], j : j + right : stride[1]] += parts[..., i, j]


class Layer(Component):
    """name, batch_size, pos and backend repeat what the model has, and must agree with it. After fprop, `output` has the
    outputs; after bprop, `berror` the error by the inputs. `input` is the array of the layer's inputs on this rank, with
    get_fprop_view and get_bprop_view; it is there while the layer runs in a model."""

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
        for field in ("fshape", "stride", "ifmshape"):  # a wrong shape is known here, by its line
            if field in self.given and getattr(self, field) not in (None, 0):
                pair(getattr(self, field), field)
        self.given_ifmshape: Any = getattr(self, "ifmshape", None)
        self.input: Any = None
        self.in_shape: tuple[int, ...] = ()
        self.out_shape: tuple[int, ...] = ()
        self.output: Array = numpy.empty(0)
        self.berror: Array = numpy.empty(0)
        self.training = True

    # What the engine makes of it.

    def engine_layers(self) -> "list[nn.Layer]":
        """In order; none where the layer computes nothing."""
        raise NotImplementedError(f"{type(self).__name__}.engine_layers")

    def activated(self, make: Any) -> "list[nn.Layer]":
        """make(function), with the activation in it or as a layer of its own."""
        function, options = self.activation.engine, self.activation.options
        if function in FUSED and not options:
            return [make(function)]
        return [make("linear"), nn.Activation(function, name=f"{self.name}.{function}", **options)]

    @property
    def users_own(self) -> bool:
        """Whether the layer or its activation computes by code that is not neon's: the layer then runs as it is written,
        inside the engine's net."""
        methods = ("fprop", "bprop", "initialize", "adjust_for_dist", "update")
        functions = ("apply_function", "apply_derivative", "backward")
        found = [getattr(type(self), name) for name in methods if hasattr(type(self), name)]
        found += [getattr(type(self.activation), name) for name in functions]
        return any(not each.__module__.startswith("neon.") for each in found)

    @property
    def distributed(self) -> bool:
        """Whether a layer of a user's own can work on a tile: its class has the suffix Dist. Any other one is given whole
        images on every rank."""
        return type(self).__name__.endswith("Dist")

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        """Refuses fields that do not agree with the output of the layer before, given for one sample."""
        shown = "x".join(map(str, shape))
        if self.given & {"ifmshape", "nifm"} and len(shape) != 3:
            field = "ifmshape" if "ifmshape" in self.given else "nifm"
            self.refuse(field, f"the layer before gives {shown} values, no images")
        ifmshape = self.given_ifmshape  # adjust_for_dist changes ifmshape to that of the view
        if "ifmshape" in self.given and ifmshape is not None and pair(ifmshape, "ifmshape") != shape[:2]:
            self.refuse("ifmshape", f"the layer before gives images of {shown}; received {ifmshape}")
        if "nifm" in self.given and getattr(self, "nifm", 0) not in (0, shape[-1]):
            self.refuse("nifm", f"the layer before gives {shape[-1]} maps; received {getattr(self, 'nifm', 0)}")
        self._expect_types()

    def _expect_types(self) -> None:
        for name in DTYPES:
            wanted = getattr(self, f"{name}_dtype")
            element = self.backend.element if self.backend is not None else numpy.dtype("float32")
            if wanted is not None and str(wanted).rpartition(".")[2] != element.name:
                self.refuse(f"{name}_dtype", f"the back end computes in {element.name}; received {wanted!r}")

    # In NumPy.

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        """Called with the shape of one input sample, before the first pass; returns that of an output."""
        self.in_shape = self.out_shape = in_shape
        return in_shape

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]] | None":
        """Of images: the window that an output position needs, and its stride; None where it has none."""
        return None

    def padding(self) -> tuple[int, int]:
        """Rows and columns that windows reach past the image's border."""
        return 0, 0

    def expect_images(self, in_shape: tuple[int, ...]) -> None:
        if len(in_shape) != 3:
            raise InvalidArgument(
                f'layer "{self.name}": expected images (height, width, channels); received {in_shape}'
            )

    def expect_outputs(self) -> None:
        if min(self.out_shape) < 1:
            raise InvalidArgument(
                f'layer "{self.name}": no output is left of images {self.in_shape[0]}x{self.in_shape[1]} by windows {self.window()}'
            )

    # For layers on tiles: `input` is there.

    def with_halo(self, inputs: Array) -> Array:
        return inputs if self.input is None else self.input.get_fprop_view(inputs)

    def give_halo_back(self) -> None:
        if self.input is not None:
            self.berror = self.input.get_bprop_view(self.berror)

    def adjust_for_dist(self) -> None:
        """After `input` is set: from now on the layer works on a tile. Layers with shapes of their own adjust them here."""
        if self.window() is not None:
            if not self.users_own:
                self.refuse_tiles()
            assert self.input is not None
            self.ifmshape = list(self.input.view_shape[1:3])

    def refuse_tiles(self) -> None:
        raise InvalidArgument(
            f'layer "{self.name}": {type(self).__name__} takes whole images; in a model with an fprop, bprop or'
            " adjust_for_dist of your own take its twin with the suffix Dist"
        )

    def fprop(self, inputs: Array) -> None:
        raise NotImplementedError(f"{type(self).__name__}.fprop")

    def bprop(self, error: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.bprop")


class OnTiles(Layer):
    """Before a layer with windows: its halo comes before fprop, the error by the halo goes back after bprop."""

    def adjust_for_dist(self) -> None:
        assert self.input is not None
        self.ifmshape = list(self.input.view_shape[1:3])

    def fprop(self, inputs_: Array) -> None:
        super().fprop(self.with_halo(inputs_))

    def bprop(self, error: Array, inputs_: Array, epoch: int, momentum: Any) -> None:
        super().bprop(error, self.with_halo(inputs_), epoch, momentum)
        self.give_halo_back()


class WeightLayer(Layer):
    """Layers that learn: `weights` and `bias`, set by initialize(); bprop hands their gradients to update()."""

    fields = {"weight_init": None, "lrule_init": None, "learning_rate": None}

    weight_init: Any
    lrule_init: Any
    learning_rate: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.weights: Array = numpy.empty(0)
        self.bias: Array = numpy.empty(0)
        self._velocity: list[Array] = []
        #: Takes the gradients where a model runs the layer: the engine's rule changes the weights then.
        self.take_gradients: Any = None

    def weight(self) -> Any:
        """For pleiad.nn."""
        return weight_of(self, self.weight_init)

    def bias_value(self) -> float:
        """What biases start as: bias_init, of the layer or of weight_init."""
        own = float(getattr(self, "bias_init", 0.0))
        return own if "bias_init" in self.given else bias_of(self, self.weight_init)

    def expect_input(self, shape: "tuple[int, ...]") -> None:
        super().expect_input(shape)
        if not self.has_bias() and bias_of(self, self.weight_init):
            self.refuse("weight_init", "bias_init: the layer has no bias")

    def has_bias(self) -> bool:
        return bool(getattr(self, "use_biases", False))

    def norm(self) -> float:
        """What each filter is scaled to after an update; 0: filters are not scaled."""
        return 0.0

    def update(self, gradients: "list[Array]", momentum: Any) -> None:
        """Takes the gradients by `weights` and `bias` of this rank's part of the images. In a model, they are summed over
        the ranks that share the weights and the model's rule makes the step; alone, this is gradient descent."""
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
