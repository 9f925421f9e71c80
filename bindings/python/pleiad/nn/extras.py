"""Small layers: what a net answers, what is written and what is only passed on."""

from collections.abc import Sequence

from pleiad.nn.layers import Layer, Loss


class Argsort(Layer):
    """The places of the top_k largest numbers of the last axis, as int32, the largest first."""

    def __init__(self, top_k: int = 1, *, name: "str | None" = None) -> None:
        super().__init__("argsort", name, top_k=top_k)


class Accuracy(Loss):
    """Of scores and labels: the share of labels among the top_k scores. A metric; it adds nothing to the loss."""

    def __init__(self, top_k: int = 1, *, name: "str | None" = None) -> None:
        super().__init__("accuracy", name, top_k=top_k)


class SumLoss(Loss):
    """scale times the sum of a sample's numbers, mean over the batch."""

    def __init__(self, scale: float = 1, *, name: "str | None" = None) -> None:
        super().__init__("sum_loss", name, scale=float(scale))


class CsvOutput(Layer):
    """Writes each sample as a line, its label first where a second input has labels. Rank n > 0 writes "path.n"."""

    def __init__(self, path: str, separator: str = ",", *, name: "str | None" = None) -> None:
        super().__init__("csv_output", name, path=str(path), separator=separator)


class RecordOutput(Layer):
    """Writes each sample as a record of SINGA's kvfiles, with its label where a second input has labels."""

    def __init__(self, path: str, *, name: "str | None" = None) -> None:
        super().__init__("record_output", name, path=str(path))


class ImagePreprocess(Layer):
    """A square piece of each image and, with mirror, half of them mirrored, both drawn in training; the middle otherwise.
    Times scale."""

    def __init__(self, crop: int = 0, mirror: bool = False, scale: float = 1, *, name: "str | None" = None) -> None:
        super().__init__("image_preprocess", name, crop=crop, mirror=mirror, scale=float(scale))


class Bridge(Layer):
    """Passes its input on."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("bridge", name)


class Branch(Layer):
    """`copies` outputs equal to the input, for as many branches."""

    def __init__(self, copies: int = 2, *, name: "str | None" = None) -> None:
        super().__init__("branch", name, copies=copies)


class Dummy(Layer):
    """Passes its input on; or, with the shape of a sample, gives numbers in 0 to 1 in its place."""

    def __init__(self, shape: "Sequence[int] | None" = None, *, name: "str | None" = None) -> None:
        super().__init__("dummy", name, shape=None if shape is None else ",".join(str(side) for side in shape))
