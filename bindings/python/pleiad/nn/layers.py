"""Layers and losses. An object of this module only describes a layer. Calling it on values of a net, or `net.add`, adds the
layer to that net. Images always have the shape (batch, height, width, channels).

>>> from pleiad import nn
>>> net = nn.Net()
>>> x = net.input((28, 28, 1), name="x")
>>> h = nn.Convolution(8, 5, pad=2, activation="relu")(x)
>>> nn.Dense(10, name="scores")(nn.Pooling(2)(h))
<scores: dense of pooling1, (10,)>
"""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pleiad.errors import InvalidArgument
from pleiad.nn.choices import ActivationName
from pleiad.nn.engine import _nn
from pleiad.nn.params import ParamLike, param_options, shared
from pleiad.options import text_of
from pleiad.representation import constructor_text

if TYPE_CHECKING:
    from pleiad.nn.graph import Value

Pair = int | tuple[int, int]


class Layer:
    """A layer by its kind and options, as listed in `docs/nn.md`. Prefer the classes below, which name their options.

    >>> from pleiad import nn
    >>> nn.Layer("dropout", ratio=0.3)
    Layer(kind='dropout', ratio=0.3)
    >>> nn.Dense(4, "relu")
    Dense(units=4, activation='relu')
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]  # of the constructor, for __repr__

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._arguments = args, kwargs
        return made

    def __init__(self, kind: str, name: "str | None" = None, **options: Any) -> None:
        if kind not in _nn.layer_kinds():
            raise InvalidArgument(f'unknown layer "{kind}"; known: {", ".join(_nn.layer_kinds())}')
        self.kind = kind
        self.name = name
        self.options = {option: text_of(value) for option, value in options.items() if value is not None}

    def __call__(self, *inputs: "Value", name: "str | None" = None) -> "Value":
        """Adds the layer to the net of its inputs and returns its output."""
        if not inputs:
            raise InvalidArgument(f"{self.kind}: expected values of a net; received none")
        for value in inputs:
            if not hasattr(value, "net"):
                raise InvalidArgument(
                    f"{self.kind}: expected values of a net, as net.input and layers return; received {type(value).__name__}"
                )
        return inputs[0].net.add(self, *inputs, name=name)

    def __repr__(self) -> str:
        args, kwargs = self._arguments
        given = dict(inspect.signature(type(self).__init__).bind_partial(self, *args, **kwargs).arguments)
        del given["self"]
        return constructor_text(type(self), given)


class Dense(Layer):
    """A fully connected layer: f(x * weight^T + bias). Flattens all axes of x after the batch.

    Args:
        units: number of outputs.
        activation: f, one of linear, relu, leaky, sigmoid, tanh, stanh and softplus.
        bias: False for none, or how the bias is initialised and trained.
        weight: how the weight is initialised and trained.
        transposed: store the weight as (inputs, units) and use x * weight.
        tied: name of a parameter, such as "encoder/weight", that this layer uses transposed.
        last_axis: apply the layer to the last axis of (batch, ..., features) only, at each position separately.
        name: name of the layer in its net.

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> code = nn.Dense(3, activation="sigmoid", name="code")(net.input((8,)))
    >>> nn.Dense(8, tied="code/weight")(code).shape
    (8,)
    >>> list(net.parameters)
    ['code/weight', 'code/bias', 'dense1/bias']
    """

    def __init__(
        self,
        units: int,
        activation: ActivationName = "linear",
        *,
        bias: "bool | ParamLike" = True,
        weight: ParamLike = "glorot",
        transposed: bool = False,
        tied: "str | None" = None,
        last_axis: bool = False,
        name: "str | None" = None,
    ) -> None:
        if tied is not None:
            weight, transposed = shared(weight, tied), True
        super().__init__(
            "dense",
            name,
            out=units,
            activation=activation,
            transposed=transposed,
            last_axis=last_axis or None,
            **_weights(weight, bias),
        )


class Convolution(Layer):
    """A two-dimensional convolution: f(filters * image + bias).

    Args:
        filters: number of output channels.
        kernel: a number or (height, width); likewise stride and dilation.
        pad: a number, (height, width), (top, bottom, left, right), or "same", which keeps the size of the image if the stride
            is 1.
        activation: f, as for `Dense`.
        groups: number of groups of channels that are convolved separately.
        bias, weight, name: as for `Dense`.

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> nn.Convolution(16, (3, 5), pad="same")(net.input((32, 32, 3))).shape
    (32, 32, 16)
    """

    def __init__(
        self,
        filters: int,
        kernel: Pair,
        stride: Pair = 1,
        pad: "int | tuple[int, ...] | str" = 0,
        activation: ActivationName = "linear",
        *,
        dilation: Pair = 1,
        groups: int = 1,
        bias: "bool | ParamLike" = True,
        weight: ParamLike = "he",
        name: "str | None" = None,
    ) -> None:
        kernel_h, kernel_w = _pair(kernel, "kernel")
        dilation_h, dilation_w = _pair(dilation, "dilation")
        stride_h, stride_w = _pair(stride, "stride")
        top, bottom, left, right = _sides(pad, dilation_h * (kernel_h - 1), dilation_w * (kernel_w - 1))
        super().__init__(
            "convolution",
            name,
            filters=filters,
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride_h=stride_h,
            stride_w=stride_w,
            pad_top=top,
            pad_bottom=bottom,
            pad_left=left,
            pad_right=right,
            dilation_h=dilation_h,
            dilation_w=dilation_w,
            groups=groups,
            activation=activation,
            **_weights(weight, bias),
        )


class Pooling(Layer):
    """Pools windows of each channel: the maximum ("max"), the average ("average"), or the root of the sum of squares ("l2").

    Args:
        kernel: a number or (height, width); likewise stride and pad.
        stride: by default the kernel.
        count_padding: whether an average includes the padding.

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> nn.Pooling((2, 3))(net.input((32, 32, 3))).shape
    (16, 10, 3)
    """

    def __init__(
        self,
        kernel: Pair,
        stride: "Pair | None" = None,
        type: Literal["max", "average", "l2"] = "max",
        *,
        pad: Pair = 0,
        count_padding: bool = True,
        name: "str | None" = None,
    ) -> None:
        lengths = {}
        for what, value in (("kernel", kernel), ("stride", kernel if stride is None else stride), ("pad", pad)):
            lengths[what], width = _pair(value, what)
            if width != lengths[what]:
                lengths[f"{what}_w"] = width
        super().__init__("pooling", name, type=type, count_padding=count_padding, **lengths)


class LRN(Layer):
    """Local response normalisation: x * (k + alpha / size * sum of x^2 over `size` channels)^-beta."""

    def __init__(
        self, size: int = 5, alpha: float = 1, beta: float = 0.75, k: float = 1, *, name: "str | None" = None
    ) -> None:
        super().__init__("lrn", name, size=size, alpha=float(alpha), beta=float(beta), k=float(k))


class BatchNorm(Layer):
    """Batch normalisation of each channel (last axis) to mean 0 and variance 1, followed by scale and shift. Outside training
    it uses running averages, which training updates: average = (1 - momentum) * average + momentum * new."""

    def __init__(
        self,
        epsilon: float = 1e-5,
        momentum: float = 0.1,
        *,
        scale: ParamLike = None,
        shift: ParamLike = None,
        name: "str | None" = None,
    ) -> None:
        more = {**param_options("scale", scale), **param_options("shift", shift)}
        super().__init__("batch_norm", name, epsilon=float(epsilon), momentum=float(momentum), **more)


class Dropout(Layer):
    """In training, sets a random fraction `ratio` of x to zero and multiplies the rest by 1 / (1 - ratio)."""

    def __init__(self, ratio: float = 0.5, *, name: "str | None" = None) -> None:
        super().__init__("dropout", name, ratio=float(ratio))


class Activation(Layer):
    """Applies relu, leaky, sigmoid, tanh, stanh, softplus or linear elementwise, or softmax over the last axis. `slope` is that
    of leaky for negative values."""

    def __init__(
        self,
        function: "ActivationName | Literal['softmax']" = "relu",
        *,
        slope: float = 0.01,
        name: "str | None" = None,
    ) -> None:
        super().__init__("activation", name, function=function, slope=float(slope))


class Flatten(Layer):
    """Reshapes (batch, ...) to (batch, everything else)."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("flatten", name)


class Slice(Layer):
    """Splits an axis (0 is the batch) into `parts` equal outputs, or into outputs of the given sizes: `value[0]`, `value[1]`...

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> cut = nn.Slice(sizes=[2, 5])(net.input((7,)))
    >>> cut[1].shape
    (5,)
    """

    def __init__(
        self, parts: int = 2, axis: int = 1, *, sizes: "Sequence[int] | None" = None, name: "str | None" = None
    ) -> None:
        text = None if sizes is None else ",".join(str(size) for size in sizes)
        super().__init__("slice", name, axis=axis, parts=parts, sizes=text)


class Concat(Layer):
    """Concatenates its inputs along an axis (0 is the batch)."""

    def __init__(self, axis: int = 1, *, name: "str | None" = None) -> None:
        super().__init__("concat", name, axis=axis)


class Split(Layer):
    """Returns `copies` outputs that equal the input."""

    def __init__(self, copies: int = 2, *, name: "str | None" = None) -> None:
        super().__init__("split", name, copies=copies)


class Sum(Layer):
    """Adds its inputs elementwise."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("sum", name)


class Loss(Layer):
    """Base class of layers that end a net. Their inputs are predictions and targets."""


class SoftmaxLoss(Loss):
    """Cross-entropy after softmax: the mean of -log softmax(scores)[label], times `scale`. Inputs: scores (batch, classes) and
    int32 labels (batch). Its metric `accuracy` is the fraction of labels among the `top_k` scores."""

    def __init__(self, top_k: int = 1, scale: float = 1, *, name: "str | None" = None) -> None:
        super().__init__("softmax_loss", name, top_k=top_k, scale=float(scale))


class SigmoidLoss(Loss):
    """Cross-entropy after sigmoid, summed over a sample and averaged over the batch. Inputs: scores and targets in [0, 1]."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("sigmoid_loss", name)


class EuclideanLoss(Loss):
    """Half the squared distance, averaged over the batch. Its metric `se` is the squared distance."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("euclidean_loss", name)


def _weights(weight: ParamLike, bias: "bool | ParamLike") -> dict[str, Any]:
    options = {"bias": bias is not False, **param_options("weight", weight)}
    if not isinstance(bias, bool):
        options |= param_options("bias", bias)
    return options


def _pair(value: Pair, name: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise InvalidArgument(f"{name}: expected a number or (height, width); received {value!r}")
    return value


def _sides(pad: "int | tuple[int, ...] | str", reach_h: int, reach_w: int) -> tuple[int, int, int, int]:
    """Returns the padding as (top, bottom, left, right)."""
    if pad == "same":
        return reach_h // 2, reach_h - reach_h // 2, reach_w // 2, reach_w - reach_w // 2
    if isinstance(pad, int):
        return pad, pad, pad, pad
    if not isinstance(pad, str) and len(pad) == 2:
        return pad[0], pad[0], pad[1], pad[1]
    if not isinstance(pad, str) and len(pad) == 4:
        return pad[0], pad[1], pad[2], pad[3]
    raise InvalidArgument(
        f'pad: expected a number, (height, width), (top, bottom, left, right) or "same"; received {pad!r}'
    )
