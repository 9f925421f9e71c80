"""Layers and samples for sequences: recurrent layers, embeddings and text."""

from typing import Any

from pleiad.nn.choices import ActivationName
from pleiad.nn.data import Dataset
from pleiad.nn.engine import _nn
from pleiad.nn.layers import Layer, _weights
from pleiad.nn.params import ParamLike, param_options
from pleiad.representation import Shown


class _Recurrent(Layer):
    """Base class of recurrent layers from (batch, steps, features) to (batch, steps, units). With `carry`, the state at the end
    of a batch is the initial state of the next one, sample by sample. Gradients do not cross batches (truncated
    back-propagation through time)."""

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
    """A simple recurrent layer: h = f(W x + U h' + b), where h' is the previous state and f the activation."""

    KIND = "rnn"

    def __init__(self, units: int, activation: ActivationName = "tanh", **more: Any) -> None:
        super().__init__(units, activation=activation, **more)


class GRU(_Recurrent):
    """Gated recurrent unit: h = z h' + (1 - z) n, with gates r and z and n = tanh(W x + b + r (U h')), as in SINGA and PyTorch.

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
    """Long short-term memory: c = f c' + i g and h = o tanh(c), with gates i, f, g and o."""

    KIND = "lstm"


class Embedding(Layer):
    """Looks up int32 indices (batch, ...) in a weight of `words` rows. Output: (batch, ..., width)."""

    def __init__(self, words: int, width: int, *, weight: ParamLike = None, name: "str | None" = None) -> None:
        super().__init__("embedding", name, words=words, width=width, **param_options("weight", weight))


class OneHot(Layer):
    """Encodes int32 indices (batch, ...) as one-hot vectors (batch, ..., words)."""

    def __init__(self, words: int, *, name: "str | None" = None) -> None:
        super().__init__("one_hot", name, words=words)


class CharRNN(Layer):
    """Splits sequences of steps + 1 indices: the first output is the first `steps` indices, the second one, `value[1]`, is the
    index that follows each of them."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("char_rnn", name)


class RNNLabel(Layer):
    """Returns, for sequences of steps + 1 indices, the index that follows each of the first `steps`."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("rnn_label", name)


class Text(Dataset):
    """A text as a dataset. Each sample is steps + 1 characters as indices into the vocabulary, by default the bytes of the text
    in ascending order. Each row of a batch continues the same row of the previous batch, so that layers with `carry` see
    contiguous text.

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
        text_shown = Shown(f"<{len(given):,} bytes>")
        self._given = {"text": text_shown, "steps": steps, "input": input, "vocabulary": vocabulary}
