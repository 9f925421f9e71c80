"""Layers for metrics, output files and graph structure."""

from collections.abc import Sequence

from pleiad.nn.layers import Layer, Loss


class Argsort(Layer):
    """Returns the indices of the `top_k` largest values along the last axis, as int32, largest first."""

    def __init__(self, top_k: int = 1, *, name: "str | None" = None) -> None:
        super().__init__("argsort", name, top_k=top_k)


class Accuracy(Loss):
    """The fraction of labels that are among the `top_k` scores. Inputs: scores and labels. A metric: adds nothing to the loss."""

    def __init__(self, top_k: int = 1, *, name: "str | None" = None) -> None:
        super().__init__("accuracy", name, top_k=top_k)


class SumLoss(Loss):
    """`scale` times the sum of a sample's values, averaged over the batch."""

    def __init__(self, scale: float = 1, *, name: "str | None" = None) -> None:
        super().__init__("sum_loss", name, scale=float(scale))


class CsvOutput(Layer):
    """Writes each sample as a line of a CSV file, preceded by its label if a second input has labels. Rank n > 0 writes
    "path.n"."""

    def __init__(self, path: str, separator: str = ",", *, name: "str | None" = None) -> None:
        super().__init__("csv_output", name, path=str(path), separator=separator)


class RecordOutput(Layer):
    """Writes each sample as a record of a SINGA kvfile, with its label if a second input has labels."""

    def __init__(self, path: str, *, name: "str | None" = None) -> None:
        super().__init__("record_output", name, path=str(path))


class ImagePreprocess(Layer):
    """Crops each image to a square of side `crop` and multiplies it by `scale`. In training the position is random, and with
    `mirror` half of the images are flipped horizontally; otherwise the crop is the centre. `crop` 0 keeps the size."""

    def __init__(self, crop: int = 0, mirror: bool = False, scale: float = 1, *, name: "str | None" = None) -> None:
        super().__init__("image_preprocess", name, crop=crop, mirror=mirror, scale=float(scale))


class Bridge(Layer):
    """Returns its input. Only for compatibility with SINGA's net descriptions."""

    def __init__(self, *, name: "str | None" = None) -> None:
        super().__init__("bridge", name)


class Branch(Layer):
    """Returns `copies` outputs that equal the input, one for each branch of the net."""

    def __init__(self, copies: int = 2, *, name: "str | None" = None) -> None:
        super().__init__("branch", name, copies=copies)


class Dummy(Layer):
    """Returns its input, or, if `shape` is given, random values in [0, 1) of that sample shape instead."""

    def __init__(self, shape: "Sequence[int] | None" = None, *, name: "str | None" = None) -> None:
        super().__init__("dummy", name, shape=None if shape is None else ",".join(str(side) for side in shape))
