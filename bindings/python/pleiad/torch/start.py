"""How all ranks start with the same values, and how they check that they still have them."""

import io

import numpy
import torch
from torch import Tensor

from pleiad import drift
from pleiad.errors import InvalidArgument
from pleiad.sessions import Session


def _words(x: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor's bytes in new memory as whole words, which a session moves whatever they mean; and the tensor itself in
    contiguous memory."""
    dense = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
    octets = dense.view(-1).view(torch.uint8)
    padded = torch.zeros(-(-octets.numel() // 4) * 4, dtype=torch.uint8)
    padded[: octets.numel()] = octets
    return padded.view(torch.int32), dense


def _tensor(words: Tensor, like: Tensor) -> Tensor:
    return words.view(torch.uint8)[: like.numel() * like.element_size()].view(like.dtype).view(like.shape)


def broadcast(session: Session, x: Tensor, root: int = 0) -> None:
    """Sets a tensor of any type and layout to the values of the rank `root`. Collective."""
    if session.size == 1 or x.numel() == 0:
        return
    words, dense = _words(x)
    session.broadcast(words, root)
    with torch.no_grad():
        x.copy_(_tensor(words, dense))


def gather(session: Session, x: Tensor) -> list[Tensor]:
    """All ranks' values of a tensor that has the same type and shape on all ranks. Collective."""
    words, dense = _words(x)
    if session.size == 1 or x.numel() == 0:
        return [dense.clone() for _ in range(session.size)]
    return [_tensor(row, dense) for row in torch.from_numpy(session.all_gather(words))]


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


def fingerprint(x: Tensor) -> int:
    """A number that is equal where all bits of the tensor are, and almost surely not where they are not."""
    return drift.fingerprint(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
