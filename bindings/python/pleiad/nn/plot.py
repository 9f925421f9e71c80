"""Plots of training curves and filters. Needs matplotlib."""

import math
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument, StateError
from pleiad.nn.history import History
from pleiad.nn.net import Net

COLOURS = ("#1f6fb4", "#d9622b", "#3a8f5c")  # training, validation, test


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise StateError("pictures need matplotlib: pip install matplotlib") from None
    return Figure


def _saved(figure: Any, path: "str | Path | None") -> Any:
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure


def curves(history: History, path: "str | Path | None" = None) -> Any:
    """Plots a panel per metric with training, validation and test values by step. Returns the figure, and saves it to `path`
    if given."""
    metrics = list(dict.fromkeys(name for record in history for name in record.metrics))
    if not metrics:
        raise InvalidArgument("[curves] the history is empty")
    figure = _matplotlib()(figsize=(5.2 * len(metrics), 3.8), layout="constrained")
    for place, metric in enumerate(metrics):
        axes = figure.add_subplot(1, len(metrics), place + 1)
        for phase, colour in zip(("train", "validate", "test"), COLOURS, strict=True):
            points = [(record.step, record[metric]) for record in history.of(phase) if metric in record.metrics]
            if points:
                steps, values = zip(*points, strict=True)
                label = {"train": "training", "validate": "validation"}.get(phase, phase)
                style = "-" if len(points) > 30 else "o-"
                axes.plot(steps, values, style, color=colour, label=label, markersize=4, linewidth=1.6)
        axes.set_xlabel("step")
        axes.set_title(metric)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return _saved(figure, path)


def filters(net: Net, name: str, path: "str | Path | None" = None, *, side: "tuple[int, int] | None" = None) -> Any:
    """Plots the filters of a convolution, or the rows of a dense layer whose inputs are images of `side` (height, width). Each
    picture has its own scale. Three channels are shown as colours; otherwise only the first channel is shown."""
    weight = net.parameters[name if "/" in name else f"{name}/weight"]
    return images(filter_images(weight, name, side), path)


def filter_images(weight: NDArray[Any], name: str = "weight", side: "tuple[int, int] | None" = None) -> NDArray[Any]:
    """Scales filters to [0, 1]. Returns an array of shape (filters, height, width) or (filters, height, width, 3).

    >>> import numpy
    >>> filter_images(numpy.random.rand(6, 25), side=(5, 5)).shape
    (6, 5, 5)
    """
    if weight.ndim == 2:
        if side is None or side[0] * side[1] != weight.shape[1]:
            raise InvalidArgument(
                f"{name}: expected side=(height, width) of images with {weight.shape[1]} values; received side={side}"
            )
        weight = weight.reshape(len(weight), *side, 1)
    if weight.ndim != 4:
        raise InvalidArgument(f"{name}: expected (filters, height, width, channels); received shape {weight.shape}")
    shown = weight if weight.shape[3] == 3 else weight[..., 0]
    axes = tuple(range(1, shown.ndim))
    low, high = shown.min(axis=axes, keepdims=True), shown.max(axis=axes, keepdims=True)
    return (shown - low) / numpy.maximum(high - low, 1e-12)  # type: ignore[no-any-return]


def images(
    pictures: NDArray[Any], path: "str | Path | None" = None, *, most: int = 256, columns: "int | None" = None
) -> Any:
    """Plots a grid of pictures of shape (count, height, width) or (count, height, width, 3)."""
    pictures = numpy.asarray(pictures)[:most]
    if pictures.ndim not in (3, 4) or len(pictures) == 0:
        raise InvalidArgument(f"[images] expected (count, height, width[, 3]); received shape {pictures.shape}")
    columns = columns or math.ceil(math.sqrt(len(pictures) * 1.6))
    rows = math.ceil(len(pictures) / columns)
    figure = _matplotlib()(figsize=(columns * 0.7, rows * 0.7))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.99, wspace=0.08, hspace=0.08)
    for place, picture in enumerate(pictures):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.imshow(picture, cmap=None if picture.ndim == 3 else "gray", interpolation="nearest")
        axes.set_axis_off()
    return _saved(figure, path)
