"""Restricted Boltzmann machines, and nets that are trained layer by layer: stacks of RBMs and neon's sparse auto-encoder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

from pleiad import sessions
from pleiad.nn.choices import Exchange, Plan
from pleiad.nn.engine import _nn
from pleiad.nn.history import History
from pleiad.nn.layers import Loss
from pleiad.nn.net import Net
from pleiad.nn.params import ParamLike, param_options
from pleiad.nn.trainer import Trainer
from pleiad.options import Updater, dtype_name


class RBM(Loss):
    """A restricted Boltzmann machine. It ends a net, and a trainer trains it like any other net, with the gradients of
    contrastive divergence. Its metrics are `se`, the squared error of the reconstruction, and `loss`, half of it.

    Args:
        hidden: number of hidden units.
        k: number of Gibbs steps (CD-k).
        visible: type of the visible units, "binary" or "gaussian".
        units: type of the hidden units, "binary" or "gaussian".
        chains: number of persistent chains; 0 starts each chain from the data.
        sample: which units are sampled: "hidden", "both" or "none".
        weight, hidden_bias, visible_bias: how the parameters are initialised and trained.
        name: name of the layer.

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
        units: Literal["binary", "gaussian"] = "binary",
        chains: int = 0,
        sample: Literal["hidden", "both", "none"] = "hidden",
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
    """Base class of nets that are trained one after the other."""

    _core: Any

    def __len__(self) -> int:
        return int(self._core.size())

    def stage(self, index: int) -> Net:
        """Returns the net that trains stage `index`, on top of the lower stages, whose parameters are fixed."""
        return Net._of(self._core.stage(index))

    def take(self, index: int, net: Net) -> None:
        """Copies the trained parameters from the net of a stage into the stack."""
        self._core.take(index, net._core)

    def pretrain(
        self,
        x: Any,
        *,
        epochs: int = 1,
        optimizer: "str | Mapping[str, Any] | Updater" = "sgd",
        batch: int = 100,
        session: "sessions.Session | None" = None,
        exchange: Exchange = "auto",
        plan: Plan = "data",
        grid: str = "auto",
        deterministic: bool = False,
        each: "Callable[[int, Trainer], Any] | None" = None,
        **fit: Any,
    ) -> list[History]:
        """Trains the stages from the lowest to the highest, each for `epochs` epochs, and returns their histories. `each` is
        called with the index and trainer of each finished stage. Other arguments are those of `Trainer` and `Trainer.fit`."""
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
    """A stack of restricted Boltzmann machines, lowest first. `pretrain` trains them, and `unrolled` returns the auto-encoder
    that they form.

    Args:
        visible: number of values of a sample.
        hidden: number of hidden units of each machine.
        units: type of the samples' units, "binary" or "gaussian".
        code: type of the hidden units of the highest machine, "binary" or "gaussian".
        k, chains: as for `RBM`.
        std: standard deviation of the initial weights.
        tied: whether the decoder of the auto-encoder shares the encoder's weights.
        loss: loss of the auto-encoder, "euclidean" or "sigmoid".

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
        units: Literal["binary", "gaussian"] = "binary",
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
        """Returns the auto-encoder, with the layers "enc1" ... "encN", "decN" ... "dec1". Its input "x" is also its target."""
        return Net._of(self._core.unrolled())


@dataclass(frozen=True)
class SparseStage:
    """One stage of a SparseStack: local filters of side `filter`, L2 pooling and contrast normalisation."""

    filter: int = 4
    maps: int = 8
    stride: int = 1
    pool: int = 3
    pool_stride: int = 1
    contrast: int = 3


class SparseStack(_Stack):
    """The sparse auto-encoder of neon's GB model. Each stage has local filters of norm 1, L2 pooling and contrast normalisation,
    and is trained to reconstruct its input with a penalty of `sparsity` on the pooled values. With `tied` the decoder uses the
    transposed filters, which a batch updates twice. `classifier` returns all stages with a layer for labels on top.

    >>> from pleiad import nn
    >>> stack = nn.SparseStack((12, 12, 1), [nn.SparseStage(maps=4), nn.SparseStage(filter=3, maps=4)])
    >>> net = stack.classifier()
    >>> net.fix(*stack.layers)  # train only the last layer at first
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
        """The names of the layers of the classifier that have filters."""
        return [f"filter{index + 1}" for index in range(len(self))]

    def classifier(self) -> Net:
        """Returns a net of all stages and a dense layer "scores", with the inputs "x" and "label"."""
        return Net._of(self._core.classifier())
