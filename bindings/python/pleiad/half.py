"""Conversion of float16 and bfloat16 parameters to and from float32 tables."""

from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays
from pleiad.errors import InvalidArgument

Bits = NDArray[numpy.uint16]


def to_float32(x: Any) -> NDArray[numpy.float32]:
    """Converts a float16 or bfloat16 array (NumPy, ml_dtypes, PyTorch, JAX) to a new float32 array. All values are exact.

    >>> import numpy, pleiad
    >>> pleiad.to_float32(numpy.array([0.5, 1.5], numpy.float16))
    array([0.5, 1.5], dtype=float32)
    """
    bits, kind = _bits(x, write=False)
    out: NDArray[numpy.float32] = arrays.empty(bits.shape, numpy.dtype(numpy.float32))
    if kind == "float16":
        out[...] = bits.view(numpy.float16)
    else:
        numpy.left_shift(bits, 16, out=out.view(numpy.uint32), dtype=numpy.uint32)
    return out


def from_float32(values: Any, out: Any = None, *, dtype: str = "float16") -> Any:
    """Rounds float32 values to the nearest float16 or bfloat16 values. Values beyond the range become infinite.

    Args:
        values: float32 values.
        out: any writable float16 or bfloat16 array of the same shape, which is filled and returned; by default a new one.
        dtype: the type of a new array, "float16" or "bfloat16" (which needs the package ml_dtypes).

    >>> import numpy, pleiad
    >>> pleiad.from_float32(numpy.array([0.1, 2.0], numpy.float32)).dtype
    dtype('float16')
    """
    values = numpy.asarray(values)
    if values.dtype != numpy.float32:
        raise InvalidArgument(f"[from_float32] expected float32; received {values.dtype}")
    if out is None:
        out = numpy.empty(values.shape, _numpy_half(dtype))
    bits, kind = _bits(out, write=True)
    if bits.shape != values.shape:
        raise InvalidArgument(f"[from_float32] out: expected shape {values.shape}; received {bits.shape}")
    if kind == "float16":
        with numpy.errstate(over="ignore"):
            bits.view(numpy.float16)[...] = values
    else:
        bits[...] = _round_to_bfloat16(numpy.ascontiguousarray(values))
    return out


def _round_to_bfloat16(values: NDArray[numpy.float32]) -> Bits:
    """Returns the upper 16 bits of each value, rounded to the nearest with ties to even."""
    whole = values.view(numpy.uint32)
    rounded = (whole + 0x7FFF + ((whole >> 16) & 1)) >> 16
    # Rounding the mantissa of a NaN could carry into its exponent and make it another value.
    return numpy.where(numpy.isnan(values), (whole >> 16) | 0x40, rounded).astype(numpy.uint16)


def _numpy_half(name: str) -> Any:
    if name == "float16":
        return numpy.float16
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgument("[from_float32] NumPy needs the package ml_dtypes for bfloat16; pass out=") from None
        return ml_dtypes.bfloat16
    raise InvalidArgument(f'[from_float32] dtype: expected "float16" or "bfloat16"; received {name!r}')


def _bits(x: Any, write: bool) -> tuple[Bits, str]:
    """Returns a view of the array's bits, and "float16" or "bfloat16"."""
    if isinstance(x, numpy.ndarray) and x.dtype.name == "bfloat16":  # ml_dtypes arrays have no buffer protocol
        return x.view(numpy.uint16), "bfloat16"
    return _core.half_bits(x, write)
