"""The layers of a model. Each becomes one or more LayerProtos when the model is built."""

from collections.abc import Sequence
from typing import Any

from singa.interactive import Lone
from singa.job_pb2 import *  # noqa: F403
from singa.layer_base import COMMON, Data, Layer, pair, set_lengths  # noqa: F401
from singa.parameter import Parameter, taken
from singa.utils.message import MODULE as pb
from singa.utils.message import enumActivationType, enumLayerType
from singa.utils.utility import arguments_of_class, refuse_unknown, setval, whole

_FUNCTIONS = {"relu": "RELU", "sigmoid": "SIGMOID", "tanh": "TANH", "stanh": "STANH"}


class _Weighted(Layer):
    """A layer with a weight, a bias and an optional activation."""

    mask: "Activation | None" = None

    def _weigh(
        self, init: "str | None", w_param: Any, b_param: Any, activation: "str | None", own: dict[str, Any]
    ) -> None:
        self.w_param = taken("w", w_param, init or "gaussian", own)
        self.b_param = taken("b", b_param, init or "constant", own)
        self.mask = Activation(activation) if activation else None
        for parameter in (self.w_param, self.b_param):
            self.layer.param.add().CopyFrom(parameter.param)

    def parts(self) -> list[tuple[str, Any]]:
        return [(self.label, self.layer), *(self.mask.parts() if self.mask else [])]


def _split(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates arguments for a layer's parameters (w_..., b_...) from the others."""
    own = {key: value for key, value in kwargs.items() if key[:2] in ("w_", "b_")}
    return own, {key: value for key, value in kwargs.items() if key not in own}


class Dense(_Weighted):
    """A fully connected layer with output_dim outputs. init applies to weight and bias. w_param and b_param are Parameters, whose
    fields w_lr, w_std, b_value and so on change. transpose: store the weight as inputs x outputs. input_dim is inferred."""

    label = "ip"

    def __init__(
        self,
        output_dim: int = 0,
        activation: "str | None" = None,
        init: "str | None" = None,
        w_param: "Parameter | None" = None,
        b_param: "Parameter | None" = None,
        input_dim: "int | None" = None,
        transpose: bool = False,
        **kwargs: Any,
    ) -> None:
        own, others = _split(kwargs)
        super().__init__(**others)
        self._set_type("innerproduct")
        setval(self.layer.innerproduct_conf, num_output=whole("Dense: output_dim", output_dim))
        if transpose:
            setval(self.layer.innerproduct_conf, transpose=True)
        self._weigh(init, w_param, b_param, activation, own)


class Convolution2D(_Weighted):
    """A convolution with nb_filter filters. kernel, stride and pad are numbers or pairs (x, y)."""

    label = "conv"

    def __init__(
        self,
        nb_filter: int = 0,
        kernel: Any = 3,
        stride: Any = 1,
        pad: Any = 0,
        init: "str | None" = None,
        w_param: "Parameter | None" = None,
        b_param: "Parameter | None" = None,
        activation: "str | None" = None,
        **kwargs: Any,
    ) -> None:
        own, others = _split(kwargs)
        super().__init__(**others)
        self._set_type("cconvolution")
        setval(self.layer.convolution_conf, num_filters=whole("Convolution2D: nb_filter", nb_filter))
        lengths = {"kernel": ("kernel", kernel), "stride": ("stride", stride), "pad": ("pad", pad)}
        set_lengths(self.layer.convolution_conf, "Convolution2D", **lengths)
        self._weigh(init, w_param, b_param, activation, own)


Convolution = Convolution2D


class _Pooling(Layer):
    label = "pool"
    method = 0

    def __init__(self, pool_size: Any = None, stride: Any = 1, ignore_border: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        if pool_size is None:
            raise TypeError(f"{name}: expected pool_size")
        self._set_type("cpooling")
        setval(self.layer.pooling_conf, pool=self.method, pad=0 if ignore_border else 1)
        set_lengths(self.layer.pooling_conf, name, pool_size=("kernel", pool_size), stride=("stride", stride))


def pool_size(*lengths: int) -> tuple[int, int]:
    """Returns the size of a window, for calls like MaxPooling2D(pool_size(3,3), stride=2) in SINGA's documentation."""
    return pair(lengths[0] if len(lengths) == 1 else lengths, "pool_size")


class MaxPooling2D(_Pooling):
    """The maximum of each window. pool_size and stride are numbers or pairs (x, y). ignore_border=False pads the image by
    one."""

    method = pb.MAX


class AvgPooling2D(_Pooling):
    """The average of each window. pool_size and stride are numbers or pairs (x, y). ignore_border=False pads the image by
    one."""

    method = pb.AVG


class LRN2D(Layer):
    """Local response normalisation: divides each value by a power of the squares of `size` adjacent channels."""

    label = "norm"

    def __init__(
        self, size: int = 0, alpha: float = 1.0, beta: float = 0.75, knorm: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._set_type("lrn")
        setval(self.layer.lrn_conf, local_size=whole("LRN2D: size", size), alpha=alpha, beta=beta, knorm=knorm)


class Activation(Layer):
    """Applies relu, sigmoid, tanh, stanh or softmax."""

    def __init__(self, activation: str = "stanh", topk: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        refuse_unknown("Activation", [activation], [*_FUNCTIONS, "softmax", "softmaxloss", "euclideanloss"])
        self.label = activation
        self.activation = activation
        if activation in ("softmaxloss", "euclideanloss"):
            self.label = "loss"
            self._set_type(activation)
            if activation == "softmaxloss":
                setval(self.layer.softmaxloss_conf, topk=topk)
        elif activation == "softmax":
            self._set_type("softmax")
        elif activation == "stanh":
            self._set_type("stanh")
        elif activation == "sigmoid":
            self._set_type("sigmoid")
        elif activation == "relu":
            self._set_type("relu")
        else:
            self._set_type("activation")
            setval(self.layer.activation_conf, type=enumActivationType(_FUNCTIONS[activation]))


class Loss(Activation):
    """The loss "softmaxloss" or "euclideanloss"."""

    def __init__(self, lossname: str, topk: int = 1, **kwargs: Any) -> None:
        refuse_unknown("Loss", [lossname], ["softmaxloss", "euclideanloss"])
        super().__init__(lossname, topk=topk, **kwargs)


class Dropout(Layer):
    """In training, sets a random fraction `ratio` of the input to zero and rescales the rest."""

    label = "drop"

    def __init__(self, ratio: float = 0.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._set_type("dropout")
        setval(self.layer.dropout_conf, dropout_ratio=ratio)


class Accuracy(Layer):
    """The fraction of labels that are among the topk scores."""

    label = "accuracy"

    def __init__(self, topk: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._set_type("accuracy")
        setval(self.layer.argsort_conf, topk=topk)


class RGB(Layer):
    """Subtracts a mean image, read from a file, from the images."""

    label = "rgb"

    def __init__(self, meanfile: "str | None" = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if meanfile is None:
            raise TypeError("RGB: expected meanfile")
        self._set_type("rgbimage")
        setval(self.layer.rgbimage_conf, meanfile=meanfile)


class Embedding(Layer):
    """Looks up symbols in a table of in_dim rows of out_dim elements."""

    label = "embedding"

    def __init__(self, in_dim: int, out_dim: int, w_param: "Parameter | None" = None, **kwargs: Any) -> None:
        own, others = _split(kwargs)
        super().__init__(**others)
        self._set_type("embedding")
        setval(self.layer.embedding_conf, vocab_size=in_dim, feature_dim=out_dim)
        self.layer.param.add().CopyFrom(taken("w", w_param, "uniform", own).param)


class RNNLM(Layer):
    """A gated recurrent layer with `dim` units over the symbols of a text."""

    label = "gru"

    def __init__(self, dim: int, w_param: "Parameter | None" = None, **kwargs: Any) -> None:
        own, others = _split(kwargs)
        super().__init__(**others)
        self._set_type("gru")
        setval(self.layer.gru_conf, dim_hidden=dim)
        weight = taken("w", w_param, "uniform", own)
        for k in range(9):
            self.layer.param.add().CopyFrom(weight.param if k < 6 else Parameter(init="constant").param)


GRU = RNNLM


class UserLayer(Layer):
    """A layer that Driver.RegisterLayer registered under user_type."""

    label = "user"

    def __init__(self, user_type: str, params: Sequence[Parameter] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._set_type("userlayer")
        self.layer.user_type = user_type
        for parameter in params:
            self.layer.param.add().CopyFrom(parameter.param)


class Autoencoder:
    """An auto-encoder: hid_dim encoder layers, of which the last, the code, has no activation, and the decoder back to out_dim.
    With param_share the decoder shares the encoder's weights. Parameters have the names of those of a stack of RBMs, so that its
    checkpoints can initialise them."""

    is_datalayer = False

    def __init__(
        self,
        hid_dim: Any = None,
        out_dim: int = 0,
        activation: "str | None" = None,
        param_share: bool = True,
        w_param: "Parameter | None" = None,
        b_param: "Parameter | None" = None,
        **kwargs: Any,
    ) -> None:
        own, others = _split(kwargs)
        refuse_unknown("Autoencoder", others, arguments_of_class(Autoencoder))
        if hid_dim is None:
            raise TypeError("Autoencoder: expected hid_dim")
        dims = [hid_dim] if isinstance(hid_dim, int) else list(hid_dim)
        self.hid_dim = [whole("Autoencoder: hid_dim", dim) for dim in dims]
        out_dim = whole("Autoencoder: out_dim", out_dim)
        self.out_dim, self.activation, self.param_share = out_dim, activation, param_share
        self.w_param = taken("w", w_param, "gaussian", own)
        self.b_param = taken("b", b_param, "constant", own)

    def layers(self, pretrained: bool) -> list[Layer]:
        """Returns the layers. If `pretrained`, checkpoints provide the values, and a parameter that they lack is an error."""
        keep = {"init": "none"} if pretrained else {}
        dims = [self.out_dim, *self.hid_dim]
        last = len(self.hid_dim)
        made: list[Layer] = []
        for i in range(1, last + 1):
            activation = None if i == last else self.activation
            w, b = self.w_param.copy(name=f"w{i}", **keep), self.b_param.copy(name=f"b{i}2", **keep)
            made.append(Dense(dims[i], activation=activation, w_param=w, b_param=b))
        for i in range(last, 0, -1):
            w = self.w_param.copy(name=f"w{2 * last + 1 - i}", **keep)
            if self.param_share:
                w.update(share_from=f"w{i}")
            b = self.b_param.copy(name=f"b{i}1", **keep)
            made.append(
                Dense(dims[i - 1], activation=self.activation, w_param=w, b_param=b, transpose=self.param_share)
            )
        return made


class RBM(Layer):
    """A restricted Boltzmann machine with out_dim hidden units. If out_dim is a list, its last element belongs to the machine that
    is trained, and the others to the machines below it, whose parameters come from checkpoints. sampling="gaussian" makes the
    hidden units Gaussian instead of binary."""

    label = "RBMVis"

    def __init__(
        self,
        out_dim: Any = None,
        w_param: "Parameter | None" = None,
        b_param: "Parameter | None" = None,
        sampling: "str | None" = None,
        **kwargs: Any,
    ) -> None:
        own, others = _split(kwargs)
        super().__init__(**others)
        if out_dim is None:
            raise TypeError("RBM: expected out_dim")
        if sampling not in (None, "gaussian"):
            raise ValueError(f'RBM: sampling: expected None or "gaussian"; received {sampling!r}')
        dims = [out_dim] if isinstance(out_dim, int) else list(out_dim)
        self.out_dim = [whole("RBM: out_dim", dim) for dim in dims]
        self.sampling = sampling
        level = len(self.out_dim)
        self.w_param = taken("w", w_param, "gaussian", own)
        self.b_param = taken("b", b_param, "constant", own)
        self._set_type("rbmvis")
        self.layer.rbm_conf.hdim = self.out_dim[-1]
        for parameter, name in ((self.w_param, f"w{level}"), (self.b_param, f"b{level}1")):
            self.layer.param.add().CopyFrom(parameter.copy(name=name).param)

    def below(self) -> list[Layer]:
        """Returns the machines below, lowest first."""
        made: list[Layer] = []
        for i, dim in enumerate(self.out_dim[:-1], 1):
            w, b = Parameter(name=f"w{i}", init="none"), Parameter(name=f"b{i}2", init="none")
            made.append(Dense(dim, w_param=w, b_param=b, activation="sigmoid"))
        return made

    def hidden(self) -> Any:
        """Returns the LayerProto of the hidden units."""
        level = len(self.out_dim)
        layer = pb.LayerProto(type=enumLayerType("rbmhid"))
        layer.rbm_conf.hdim = self.out_dim[-1]
        if self.sampling == "gaussian":
            layer.rbm_conf.gaussian = True
        layer.param.add().CopyFrom(Parameter(name=f"w{level}_", share_from=f"w{level}").param)
        layer.param.add().CopyFrom(self.b_param.copy(name=f"b{level}2").param)
        return layer


class ImageInput(Lone):
    """Images from arrays, for scripts that call layers one by one."""

    def __init__(self, width: "int | None" = None, height: "int | None" = None, nb_channel: int = 1) -> None:
        super().__init__()
        self.width, self.height, self.nb_channel = width, height, nb_channel

    def Feed(self, image_data: Any) -> None:  # noqa: N802
        """Sets the images: rows of channels x height x width values, or of any length if no size was given."""
        self._feed_images(image_data, self.width, self.height, self.nb_channel)


class LabelInput(Lone):
    """Labels from arrays, for scripts that call layers one by one."""

    def Feed(self, label_data: Any) -> None:  # noqa: N802
        self._feed_labels(label_data)
