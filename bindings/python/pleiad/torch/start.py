"""How all ranks start with the same values, and how they check that they still have them."""

import io
import zlib

import numpy
import torch
from torch import Tensor

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session


def broadcast(session: Session, x: Tensor) -> None:
    """Sets a tensor of any type and layout to the values of rank 0. Collective."""
    if session.size == 1 or x.numel() == 0:
        return
    bits = x.detach().cpu().contiguous()
    line = bits.view(-1).view(torch.uint8)
    padded = torch.zeros(-(-line.numel() // 4) * 4, dtype=torch.uint8)
    padded[: line.numel()] = line
    session.broadcast(padded.view(torch.int32))
    with torch.no_grad():
        x.copy_(padded[: line.numel()].view(bits.dtype).view(bits.shape))


def broadcast_optimizer_state(session: Session, optimizer: torch.optim.Optimizer, where: str) -> None:
    """Gives every rank the optimizer state of rank 0, if it has one: a checkpoint may have been loaded there alone."""
    if session.size == 1:
        return
    has = session.all_gather(numpy.array([len(optimizer.state)], numpy.int64)).reshape(-1)
    if not has.any():
        return
    if has[0] == 0:
        raise InvalidArgument(
            f"[{where}] rank 0 has no optimizer state and rank {int(has.argmax())} has; load the checkpoint on rank 0, or on all"
        )
    file = io.BytesIO()
    if session.rank == 0:
        torch.save(optimizer.state_dict(), file)
    size = numpy.array([file.tell()], numpy.int64)
    session.broadcast(size)
    data = numpy.zeros(-(-int(size[0]) // 4) * 4, numpy.uint8)
    data[: file.tell()] = numpy.frombuffer(file.getvalue(), numpy.uint8)
    session.broadcast(data.view(numpy.int32))
    if session.rank != 0:
        optimizer.load_state_dict(torch.load(io.BytesIO(data[: int(size[0])].tobytes()), weights_only=True))


def fingerprint(x: Tensor) -> Tensor:
    """A number that is equal where all bits of the tensor are, and almost surely not where they are not."""
    line = x.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return torch.tensor(zlib.crc32(line.numpy()), dtype=torch.int64)
