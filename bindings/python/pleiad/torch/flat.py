"""Packs the tensors of a module into one contiguous buffer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument

ALIGNMENT = 64  # bytes; PyTorch aligns separate tensors in the same way
HALF = (torch.float16, torch.bfloat16)
TABLE_DTYPES = (torch.float32, torch.float64)

Named = Sequence[tuple[str, Tensor]]


def describe(named: Named) -> list[str]:
    """Returns one line per tensor. The lines of two ranks are equal if their tensors can be exchanged."""
    return [f"{name} {tuple(x.shape)} {x.dtype} strides {tuple(x.stride())}" for name, x in named]


def table_dtype(named: Named, asked: torch.dtype | None, where: str) -> torch.dtype:
    """Chooses the element type of a table that holds these tensors."""
    if not named:
        raise InvalidArgument(f"[{where}] expected a module with parameters; received one without")
    if asked is not None and asked not in TABLE_DTYPES:
        raise InvalidArgument(f"[{where}] dtype: expected torch.float32 or torch.float64; received {asked}")
    kinds = {x.dtype for _, x in named}
    wanted = asked or next((kind for kind in kinds if kind not in HALF), torch.float32)
    for name, x in named:
        if x.dtype == wanted or (asked == torch.float32 and x.dtype in HALF):
            continue
        if x.dtype in HALF:
            raise InvalidArgument(
                f"[{where}] {name} is {x.dtype}; to hold it in a float32 table and convert at every exchange, pass "
                f"dtype=torch.float32"
            )
        raise InvalidArgument(f"[{where}] expected tensors of one dtype; {name} is {x.dtype}, others are {wanted}")
    return wanted


def as_line(x: Tensor) -> Tensor:
    """Returns a one-dimensional view of a dense tensor's elements in memory order."""
    return x.detach().as_strided((x.numel(),), (1,), x.storage_offset())


def is_dense(x: Tensor) -> bool:
    """Returns whether the tensor's elements fill a contiguous block of memory, each exactly once."""
    expected = 1
    for stride, side in sorted(zip(x.stride(), x.shape, strict=True)):
        if side == 1:
            continue
        if stride != expected:
            return False
        expected *= side
    return True


class Part:
    """One tensor and its range in the buffer. A staged tensor has another dtype or device and is copied in and out; the
    others are views of the buffer."""

    def __init__(self, name: str, tensor: Tensor, begin: int, buffer: Tensor) -> None:
        self.name = name
        self.tensor = tensor
        self.place = slice(begin, begin + tensor.numel())
        line = self.line = buffer[self.place]
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.staged = tensor.dtype != line.dtype or tensor.device.type != "cpu"
        self.view = self.view_in(buffer)
        self.pointer = self.view.data_ptr()

    def view_in(self, buffer: Tensor) -> Tensor:
        """Returns this tensor's range of a buffer with the same layout, in the tensor's shape."""
        line = buffer[self.place]
        x = self.tensor
        return line.as_strided(x.shape, x.stride(), line.storage_offset()) if is_dense(x) else line.view(x.shape)

    def adopt(self) -> None:
        """Copies the tensor's values into the buffer and makes the tensor a view of it."""
        with torch.no_grad():
            self.view.copy_(self.tensor)
        self.settle()

    def settle(self) -> None:
        """Makes the tensor a view of the buffer; it takes the values that are there."""
        if not self.staged:
            self.tensor.data = self.view

    def release(self) -> None:
        """Gives the tensor memory of its own again."""
        if not self.staged and self.tensor.data_ptr() == self.pointer:
            self.tensor.data = self.view.clone()


class Flat:
    """Tensors packed into one buffer, each aligned to 64 bytes.

    Args:
        named: names and tensors.
        dtype: the element type of the buffer.
        buffer: memory to use, of at least `Flat.size_of(...)` elements; by default the buffer is allocated.
        holds_values: if True, the tensors take the values that `buffer` holds instead of writing theirs.
    """

    def __init__(
        self, named: Named, dtype: torch.dtype, buffer: Tensor | None = None, *, holds_values: bool = False
    ) -> None:
        offsets, size = self._places(named, dtype)
        self.buffer = torch.zeros(size, dtype=dtype) if buffer is None else buffer
        self.parts = [Part(name, x, offset, self.buffer) for (name, x), offset in zip(named, offsets, strict=True)]
        self.staged = [part for part in self.parts if part.staged]
        for part in self.parts:
            if holds_values:
                part.settle()
            else:
                part.adopt()

    @staticmethod
    def size_of(named: Named, dtype: torch.dtype) -> int:
        return Flat._places(named, dtype)[1]

    @staticmethod
    def _places(named: Named, dtype: torch.dtype) -> tuple[list[int], int]:
        step = ALIGNMENT // dtype.itemsize
        offsets, end = [], 0
        for _, x in named:
            offsets.append(end)
            end += -(-x.numel() // step) * step
        return offsets, max(end, 1)

    def check(self, where: str) -> None:
        """Raises if a tensor has changed shape or dtype. Takes a tensor back into the buffer if only its memory has changed."""
        for part in self.parts:
            x = part.tensor
            if x.shape != part.shape or x.dtype != part.dtype:
                raise InvalidArgument(
                    f"[{where}] {part.name} was {tuple(part.shape)} {part.dtype} when the manager was created and is "
                    f"{tuple(x.shape)} {x.dtype} now; create the manager after the last change"
                )
            if not part.staged and x.data_ptr() != part.pointer and x.numel() > 0:
                part.adopt()

    def gather(self) -> None:
        """Copies the staged tensors into the buffer."""
        with torch.no_grad():
            for part in self.staged:
                part.view.copy_(part.tensor)

    def scatter(self) -> None:
        """Copies the values of the buffer into the staged tensors."""
        with torch.no_grad():
            for part in self.staged:
                part.tensor.copy_(part.view)

    def release(self) -> None:
        for part in self.parts:
            part.release()


def floating(named: Any) -> list[tuple[str, Tensor]]:
    return [(name, x) for name, x in named if x.is_floating_point()]
