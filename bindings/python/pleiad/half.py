"""float16 and bfloat16 parameters, held in float32 tables and converted explicitly."""

from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays
from pleiad.errors import InvalidArgument

Bits = NDArray[numpy.uint16]


def to_float32(x: Any) -> NDArray[numpy.float32]:
    """A float16 or bfloat16 array (NumPy, ml_dtypes, PyTorch, JAX) as a new float32 one. Every value is kept exactly.

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
    """float32 values rounded to the nearest: into `out`, any writable float16 or bfloat16 array of the same shape, or
    into a new NumPy array of `dtype` ("bfloat16" needs ml_dtypes). Values beyond the range become infinite.

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
    """The upper half of each value, rounded to even."""
    whole = values.view(numpy.uint32)
    rounded = (whole + 0x7FFF + ((whole >> 16) & 1)) >> 16
    # A NaN must not carry into the exponent.
    return numpy.where(numpy.isnan(values), (whole >> 16) | 0x40, rounded).astype(numpy.uint16)


def _numpy_half(name: str) -> Any:
    if name == "float16":
        return numpy.float16
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgument("[from_float32] NumPy has bfloat16 by the package ml_dtypes; pass out=") from None
        return ml_dtypes.bfloat16
    raise InvalidArgument(f'[from_float32] dtype: expected "float16" or "bfloat16"; received {name!r}')


def _bits(x: Any, write: bool) -> tuple[Bits, str]:
    """The array's bits, not copied, and its kind."""
    if isinstance(x, numpy.ndarray) and x.dtype.name == "bfloat16":  # of ml_dtypes, which has no buffer protocol
        return x.view(numpy.uint16), "bfloat16"
    return _core.half_bits(x, write)
