"""What layers have in common."""

from typing import Any

import numpy
from numpy.typing import NDArray

from neon.params import weight_of
from neon.transforms import Activation, Linear
from neon.util.distarray.global_array import GlobalArray, comm
from neon.util.registry import Component
from pleiad import nn
from pleiad.errors import InvalidArgument

Array = NDArray[Any]


def pair(given: Any, what: str) -> tuple[int, int]:
    """(height, width) from a number or a list of two."""
    if isinstance(given, int):
        return given, given
    if isinstance(given, list | tuple) and len(given) == 2:
        return int(given[0]), int(given[1])
    raise InvalidArgument(f"{what}: expected a number or [height, width]; received {given!r}")


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
    """name, backend, batch_size and pos are set by the model where a file leaves them out. After fprop, `output` has the
    outputs; after bprop, `berror` the error by the inputs. `input` is None, or the GlobalArray of the layer's inputs."""

    fields = {
        "name": "",
        "backend": None,
        "batch_size": 0,
        "pos": 0,
        "dist_flag": False,
        "activation": None,
        "ref_layer": None,
        "prev_layer": None,
    }
    ignored = frozenset({"output_dtype", "dtype", "nin", "pre_act", "is_local", "use_biases", "fstride"})

    name: str
    backend: Any
    batch_size: int
    activation: Activation

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if getattr(self, "activation", None) is None:
            self.activation = Linear()
        self.input: GlobalArray | None = None
        self.in_shape: tuple[int, ...] = ()
        self.out_shape: tuple[int, ...] = ()
        self.output: Array = numpy.empty(0)
        self.berror: Array = numpy.empty(0)
        self.training = True

    # What the engine makes of it.

    def engine_layers(self) -> "list[nn.Layer]":
        """In order; none where the layer computes nothing."""
        raise NotImplementedError(f"{type(self).__name__}.engine_layers")

    @property
    def users_own(self) -> bool:
        """Whether fprop or bprop are not neon's: the engine then computes nothing of the model."""
        return any(
            not getattr(type(self), method).__module__.startswith("neon.")
            for method in ("fprop", "bprop", "adjust_for_dist")
        )

    # In NumPy.

    def initialize(self, in_shape: tuple[int, ...], seed: int, dtype: Any) -> tuple[int, ...]:
        """Told the shape of one input sample, before the first pass; returns that of an output."""
        self.in_shape = self.out_shape = in_shape
        return in_shape

    def window(self) -> "tuple[tuple[int, int], tuple[int, int]] | None":
        """Of images: the window that an output place needs, and its stride; None where it has none."""
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
        if self.window() is not None and not self.users_own:
            self.refuse_tiles()

    def refuse_tiles(self) -> None:
        raise InvalidArgument(
            f'layer "{self.name}": {type(self).__name__} takes whole images; under several ranks with layers of your own'
            " take its twin with the suffix Dist"
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
    """Layers that learn: weights, learning_rate (a number, or a rule as lrule_init) and weight_init."""

    fields = {"weight_init": None, "lrule_init": None, "learning_rate": None, "shared_bias": True, "bias_init": 0.0}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.weights: Array = numpy.empty(0)
        self.bias: Array = numpy.empty(0)
        self._velocity: list[Array] = []
        #: Which sums of gradients over ranks are the whole: set by adjust_for_dist.
        self.sum_gradients = False

    def weight(self) -> Any:
        """For pleiad.nn."""
        return weight_of(self.weight_init)  # type: ignore[attr-defined]

    def update(self, gradients: "list[Array]", momentum: Any) -> None:
        """Gradient descent on weights and bias, with the momentum that the model hands down."""
        values = [self.weights, self.bias]
        if not self._velocity:
            self._velocity = [numpy.zeros_like(value) for value in values]
        rate, coefficient = momentum if isinstance(momentum, tuple) else (0.01, float(momentum or 0))
        for value, velocity, gradient in zip(values, self._velocity, gradients, strict=True):
            if self.sum_gradients:
                gradient = comm.all_reduce(numpy.ascontiguousarray(gradient))
            velocity *= coefficient
            velocity += rate * gradient
            value -= velocity
