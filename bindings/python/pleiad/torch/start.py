"""How all ranks begin with the same values."""

import torch
from torch import Tensor

from pleiad.sessions import Session


def broadcast(session: Session, x: Tensor) -> None:
    """The values of rank 0, of a tensor of any type and layout."""
    if session.size == 1 or x.numel() == 0:
        return
    bits = x.detach().cpu().contiguous()
    line = bits.view(-1).view(torch.uint8)
    padded = torch.zeros(-(-line.numel() // 4) * 4, dtype=torch.uint8)
    padded[: line.numel()] = line
    session.broadcast(padded.view(torch.int32))
    with torch.no_grad():
        x.copy_(padded[: line.numel()].view(bits.dtype).view(bits.shape))
