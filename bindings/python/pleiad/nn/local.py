"""Locally connected layers: unshared convolution, local contrast normalisation, and pooling across channels."""

from pleiad.nn.choices import ActivationName
from pleiad.nn.layers import Layer, Pair, _pair, _weights
from pleiad.nn.params import ParamLike, param_options, shared


class LocalConvolution(Layer):
    """A convolution whose filters differ for each output position. The weight has the shape (out height, out width, filters,
    kernel height, kernel width, channels).

    Args:
        transposed: compute the transposed operation, from feature maps to images of `filters` channels.
        size: (height, width) of the output images, for transposed.
        tied: name of the parameter ("layer/weight") that this layer uses transposed.

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> maps = nn.LocalConvolution(8, 4, weight=nn.Param("auto_uniform", norm=1), name="filter")(net.input((28, 28, 1)))
    >>> nn.LocalConvolution(1, 4, tied="filter/weight")(maps).shape
    (28, 28, 1)
    >>> net.parameters
    {'filter/weight': (25, 25, 8, 4, 4, 1)}
    """

    def __init__(
        self,
        filters: int,
        kernel: Pair,
        stride: Pair = 1,
        pad: Pair = 0,
        activation: ActivationName = "linear",
        *,
        bias: "bool | ParamLike" = False,
        weight: ParamLike = None,
        transposed: bool = False,
        size: "Pair | None" = None,
        tied: "str | None" = None,
        name: "str | None" = None,
    ) -> None:
        if tied is not None:
            weight, transposed = shared(weight, tied), True
        kernel_h, kernel_w = _pair(kernel, "kernel")
        stride_h, stride_w = _pair(stride, "stride")
        pad_h, pad_w = _pair(pad, "pad")
        height, width = (None, None) if size is None else _pair(size, "size")
        super().__init__(
            "local_convolution",
            name,
            filters=filters,
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride_h=stride_h,
            stride_w=stride_w,
            pad_h=pad_h,
            pad_w=pad_w,
            activation=activation,
            transposed=transposed,
            height=height,
            width=width,
            **_weights(weight, bias),
        )


class LocalContrast(Layer):
    """Local contrast normalisation over an odd window. "gaussian" subtracts the weighted mean over the window and all channels
    and divides by the root of the weighted squares; part="subtract" or "divide" does only one of the two. "box" computes
    x * (1 + alpha / size^2 * sum of (x - mean)^2)^-beta in each channel."""

    def __init__(
        self,
        size: int = 9,
        type: str = "gaussian",
        *,
        part: str = "both",
        alpha: float = 1,
        beta: float = 0.5,
        name: "str | None" = None,
    ) -> None:
        super().__init__("local_contrast", name, size=size, type=type, part=part, alpha=float(alpha), beta=float(beta))


class CrossMapPooling(Layer):
    """Each output channel is a weighted sum of the input channels at the same position."""

    def __init__(self, maps: int, *, weight: ParamLike = None, name: "str | None" = None) -> None:
        super().__init__("cross_map_pooling", name, maps=maps, **param_options("weight", weight))
