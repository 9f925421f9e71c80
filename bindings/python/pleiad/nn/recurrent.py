"""Sequences: recurrent layers, and what makes numbers of indices and text."""

from typing import Any

from pleiad.nn.data import Dataset
from pleiad.nn.engine import _nn
from pleiad.nn.layers import Layer, _weights
from pleiad.nn.params import ParamLike, param_options


class _Recurrent(Layer):
    """Over (batch, steps, features), to (batch, steps, units). carry: a batch begins where the one before it ended,
    sample by sample; gradients stay within a batch (truncated back-propagation through time)."""

    KIND = ""

    def __init__(
        self,
        units: int,
        *,
        carry: bool = False,
        bias: "bool | ParamLike" = True,
        weight: ParamLike = None,
        recurrent: ParamLike = None,
        name: "str | None" = None,
        **more: Any,
    ) -> None:
        words = {**_weights(weight, bias), **param_options("recurrent", recurrent), **more}
        super().__init__(self.KIND, name, hidden=units, carry=carry or None, **words)


class RNN(_Recurrent):
    """h = f(W x + U h' + b), h' the step before's. activation: f."""

    KIND = "rnn"

    def __init__(self, units: int, activation: str = "tanh", **more: Any) -> None:
        super().__init__(units, activation=activation, **more)


class GRU(_Recurrent):
    """h = z h' + (1 - z) n, with gates r, z and n = tanh(W x + b + r (U h')), as SINGA and PyTorch have it.

    >>> from pleiad import nn
    >>> net = nn.Net()
    >>> text = nn.CharRNN()(net.input((21,), "x", "int32"))
    >>> h = nn.GRU(64, carry=True, name="gru")(nn.OneHot(30)(text))
    >>> scores = nn.Dense(30, last_axis=True)(h)
    >>> nn.SoftmaxLoss()(scores, text[1]).name, h.shape, net.parameters["gru/recurrent"].shape
    ('softmax_loss1', (20, 64), (192, 64))
    """

    KIND = "gru"


class LSTM(_Recurrent):
    """c = f c' + i g, h = o tanh(c), with gates i, f, g, o."""

    KIND = "lstm"


class Embedding(Layer):
    """Of int32 indices (batch, ...) the rows of a table of `words` rows: (batch, ..., width)."""

    def __init__(self, words: int, width: int, *, weight: ParamLike = None, name: "str | None" = None) -> None:
        super().__init__("embedding", name, words=words, width=width, **param_options("weight", weight))


class OneHot(Layer):
    """Of int32 indices (batch, ...): (batch, ..., words), 1 at the index and 0 elsewhere."""

    def __init__(self, words: int, *, name: "str | None" = None) -> None:
        super().__init__("one_hot", name, words=words)


class CharRNN(Layer):
    """Of pieces of steps + 1 indices the first `steps`; its second output, `value[1]`, is what follows each."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("char_rnn", name)


class RNNLabel(Layer):
    """Of pieces of steps + 1 indices what follows each but the last."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("rnn_label", name)


class Text(Dataset):
    """A text as samples: pieces of steps + 1 characters, as places in the vocabulary (its bytes in order, unless given).
    The rows of a batch are as many parts of the text, read on from batch to batch, so that layers with `carry` go on.

    >>> from pleiad import nn
    >>> text = nn.Text("to be or not to be", steps=4)
    >>> len(text), text.vocabulary
    (4, b' benort')
    """

    def __init__(
        self,
        text: "str | bytes",
        steps: int = 50,
        *,
        input: str = "x",
        vocabulary: "str | bytes | None" = None,
    ) -> None:
        given = text.encode() if isinstance(text, str) else bytes(text)
        wanted = vocabulary.encode() if isinstance(vocabulary, str) else vocabulary
        self.vocabulary = bytes(sorted(set(given))) if wanted is None else bytes(wanted)
        self.steps = steps
        self.arrays = {}
        self._core = _nn.text_samples(given, input, steps, self.vocabulary)
