"""Gives all ranks the same initial values, and fingerprints tensors to check that they stay the same."""

import io

import numpy
import torch
from torch import Tensor

from pleiad import drift
from pleiad.errors import InvalidArgument
from pleiad.sessions import Session


def _words(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a copy of the tensor's bytes as int32 words, which a session can move for any dtype, and the tensor itself in
    contiguous CPU memory."""
    dense = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
    octets = dense.view(-1).view(torch.uint8)
    padded = torch.zeros(-(-octets.numel() // 4) * 4, dtype=torch.uint8)
    padded[: octets.numel()] = octets
    return padded.view(torch.int32), dense


def _tensor(words: Tensor, like: Tensor) -> Tensor:
    return words.view(torch.uint8)[: like.numel() * like.element_size()].view(like.dtype).view(like.shape)


def broadcast(session: Session, x: Tensor, root: int = 0) -> None:
    """Overwrites a tensor of any dtype and layout with the values of the rank `root`. Collective."""
    if session.size == 1 or x.numel() == 0:
        return
    words, dense = _words(x)
    session.broadcast(words, root)
    with torch.no_grad():
        x.copy_(_tensor(words, dense))


def gather(session: Session, x: Tensor) -> list[Tensor]:
    """Returns the values of all ranks, in rank order. The dtype and shape must be the same on all ranks. Collective."""
    words, dense = _words(x)
    if session.size == 1 or x.numel() == 0:
        return [dense.clone() for _ in range(session.size)]
    return [_tensor(row, dense) for row in torch.from_numpy(session.all_gather(words))]


def broadcast_optimizer_state(session: Session, optimizer: torch.optim.Optimizer, where: str) -> None:
    """Copies the optimizer state of rank 0, if there is any, to all ranks. Rank 0 alone may have loaded a checkpoint.
    Collective."""
    if session.size == 1:
        return
    has = session.all_gather(numpy.array([len(optimizer.state)], numpy.int64)).reshape(-1)
    if not has.any():
        return
    if has[0] == 0:
        raise InvalidArgument(
            f"[{where}] rank 0 has no optimizer state, but rank {int(has.argmax())} has; load the checkpoint on rank 0 or on all ranks"
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


def fingerprint(x: Tensor) -> int:
    """Returns a checksum: equal for tensors with equal bits, and almost surely different otherwise."""
    return drift.fingerprint(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
