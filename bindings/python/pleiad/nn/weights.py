"""States of nets as dicts of arrays: checks and conversions."""

from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument


def checked_layout(layout: str) -> str:
    if layout not in ("pleiad", "torch"):
        raise InvalidArgument(f"layout: expected pleiad or torch; received {layout!r}")
    return layout


def array_of(value: Any) -> NDArray[Any]:
    """Converts a NumPy array, or a torch tensor on any device, to a contiguous NumPy array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) in ("torch.float16", "torch.bfloat16"):
            value = value.float()
        value = value.numpy()
    array = numpy.asarray(value)
    return numpy.ascontiguousarray(array, "float32") if array.dtype == numpy.float16 else numpy.ascontiguousarray(array)
