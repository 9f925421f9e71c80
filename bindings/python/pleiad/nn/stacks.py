"""Restricted Boltzmann machines, and nets that learn layer by layer: stacks of them, and neon's sparse auto-encoder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pleiad import sessions
from pleiad.nn.engine import _nn
from pleiad.nn.history import History
from pleiad.nn.layers import Loss
from pleiad.nn.net import Net
from pleiad.nn.params import ParamLike, param_options
from pleiad.nn.trainer import Trainer
from pleiad.options import Updater, dtype_name


class RBM(Loss):
    """A restricted Boltzmann machine over its input. It ends a net, and a trainer trains it as any other: its gradients are
    those of contrastive divergence (CD-k; with chains > 0 persistent). visible, units: binary or gaussian. sample: the
    units that are sampled: hidden, both or none. Metrics: loss, half of se, the squared error of the reconstruction.

    >>> from pleiad import nn
    >>> import numpy
    >>> net = nn.Sequential([nn.RBM(6, name="rbm")], input=(9,))
    >>> x = numpy.eye(9)[numpy.arange(90) % 9].repeat(2, 0)
    >>> history = nn.Trainer(net, nn.SGD(0.5, momentum=0.5), batch=18).fit(x, epochs=40, progress=False)
    >>> history["loss"][-1] < 0.7 * history["loss"][0]
    True
    """

    def __init__(
        self,
        hidden: int,
        k: int = 1,
        *,
        visible: str = "binary",
        units: str = "binary",
        chains: int = 0,
        sample: str = "hidden",
        weight: ParamLike = None,
        hidden_bias: ParamLike = None,
        visible_bias: ParamLike = None,
        name: "str | None" = None,
    ) -> None:
        super().__init__(
            "rbm",
            name,
            hidden=hidden,
            k=k,
            visible_units=visible,
            hidden_units=units,
            chains=chains,
            sample=sample,
            **param_options("weight", weight),
            **param_options("hidden_bias", hidden_bias),
            **param_options("visible_bias", visible_bias),
        )


class _Stack:
    """Nets that learn one after the other."""

    _core: Any

    def __len__(self) -> int:
        return int(self._core.size())

    def stage(self, index: int) -> Net:
        """The net in which this one learns, on top of those below, which are fixed."""
        return Net._of(self._core.stage(index))

    def take(self, index: int, net: Net) -> None:
        """What the net of a stage has learnt."""
        self._core.take(index, net._core)

    def pretrain(
        self,
        x: Any,
        *,
        epochs: int = 1,
        optimizer: "str | Mapping[str, Any] | Updater" = "sgd",
        batch: int = 100,
        session: "sessions.Session | None" = None,
        exchange: str = "auto",
        plan: str = "data",
        grid: str = "auto",
        deterministic: bool = False,
        each: "Callable[[int, Trainer], Any] | None" = None,
        **fit: Any,
    ) -> list[History]:
        """Trains the stages from the lowest on, each for so many epochs; returns their histories. each: called with the
        stage's index and trainer when it has learnt. Further words are those of `Trainer` and `Trainer.fit`."""
        histories = []
        for index in range(len(self)):
            net = self.stage(index)
            trainer = Trainer(
                net,
                optimizer,
                batch=batch,
                session=session,
                exchange=exchange,
                plan=plan,
                grid=grid,
                deterministic=deterministic,
            )
            histories.append(trainer.fit(x, epochs=epochs, **fit))
            self.take(index, trainer.whole_net() if plan == "spatial" else net)
            if each is not None:
                each(index, trainer)
        return histories


class RBMStack(_Stack):
    """Restricted Boltzmann machines of `hidden` units each, the lowest first, over samples of `visible` numbers. units:
    of the samples; code: of the highest machine's hidden units; binary or gaussian. `pretrain` trains them, `unrolled` is
    the auto-encoder of them all, with the encoder's weights in the decoder too where `tied`. loss: euclidean or sigmoid.

    >>> from pleiad import nn
    >>> import numpy
    >>> stack = nn.RBMStack(9, [6, 3])
    >>> histories = stack.pretrain(numpy.eye(9).repeat(20, 0), epochs=5, optimizer=nn.SGD(0.1), batch=20, progress=False)
    >>> stack.unrolled().layers
    ['enc1', 'enc2', 'dec2', 'dec1', 'loss']
    """

    def __init__(
        self,
        visible: int,
        hidden: Sequence[int],
        *,
        units: str = "binary",
        code: str = "gaussian",
        k: int = 1,
        chains: int = 0,
        std: float = 0.1,
        tied: bool = False,
        loss: str = "euclidean",
        name: str = "stack",
        dtype: Any = "float32",
        seed: int = 1,
    ) -> None:
        self._core = _nn.RbmStack(
            name, visible, list(hidden), units, code, k, chains, float(std), tied, loss, dtype_name(dtype), seed
        )

    def unrolled(self) -> Net:
        """The auto-encoder: "enc1" ... "encN", "decN" ... "dec1"; its input is "x", which is its target too."""
        return Net._of(self._core.unrolled())


@dataclass(frozen=True)
class SparseStage:
    """One stage of a SparseStack: local filters of side `filter`, L2 pooling, contrast normalisation."""

    filter: int = 4
    maps: int = 8
    stride: int = 1
    pool: int = 3
    pool_stride: int = 1
    contrast: int = 3


class SparseStack(_Stack):
    """The sparse auto-encoder of neon's GB: stages of local filtering (filters at norm 1), L2 pooling and contrast
    normalisation, each trained to reconstruct its input under a price of `sparsity` on what is pooled. tied: the decoder
    is the transposed filters, with two updates a batch. Then `classifier` is all of them with labels.

    >>> from pleiad import nn
    >>> stack = nn.SparseStack((12, 12, 1), [nn.SparseStage(maps=4), nn.SparseStage(filter=3, maps=4)])
    >>> net = stack.classifier()
    >>> net.fix(*stack.layers)  # the last layer alone, at first
    >>> [name for name in net.parameters if name not in net.fixed]
    ['scores/weight', 'scores/bias']
    """

    def __init__(
        self,
        image: Sequence[int],
        stages: Sequence[SparseStage],
        *,
        sparsity: float = 0.1,
        tied: bool = True,
        classes: int = 10,
        name: str = "gb",
        dtype: Any = "float32",
        seed: int = 1,
    ) -> None:
        words = [astuple(stage) for stage in stages]
        self._core = _nn.SparseStack(name, list(image), words, float(sparsity), tied, classes, dtype_name(dtype), seed)

    @property
    def layers(self) -> list[str]:
        """The layers of a classifier that have filters."""
        return [f"filter{index + 1}" for index in range(len(self))]

    def classifier(self) -> Net:
        """All stages and a dense layer "scores", from "x" and "label"."""
        return Net._of(self._core.classifier())
