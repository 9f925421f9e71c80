"""The gradients of the embedding rows of a batch, as a parameter that the rest of the training loop can use."""

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pleiad.errors import InvalidArgument, StateError
from pleiad.sessions import Session

if TYPE_CHECKING:
    from pleiad.torch.embedding import Embedding

WHERE = "Embedding"


class BatchRows:
    """Row gradients, held as the `.grad` of one parameter. The parameter has one row for each distinct id that backward
    passes have reached since the last step. Its values are zeros, because the table holds the real ones. Setting its
    `.grad` to None, as `zero_grad` does, discards the gradients."""

    def __init__(self, dim: int) -> None:
        self.parameter = torch.nn.Parameter(torch.zeros(0, dim))
        self.parameter.register_hook(_refuse_direct_use)  # type: ignore[no-untyped-call]
        self.ids = torch.empty(0, dtype=torch.int64)  # the id of each row of the parameter, ascending
        self.exchanged = False  # whether the gradient was reduced over all ranks
        self._summed = 0  # number of ranks over which the exchange summed, or 0 if it averaged
        self.factor = 1.0  # scales the gradients of this rank; 0 if it has run out of batches
        self.listeners: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers that exchange the gradient

    def add(self, ids: Tensor, grad: Tensor) -> None:
        """Adds gradients to those that are held. `ids` must be distinct and ascending."""
        ids, grad = (ids, grad if self.factor == 1 else grad * self.factor) if self.factor else (ids[:0], grad[:0])
        before, held = self.gradient()
        if before.numel() > 0:
            if self._summed and self.exchanged:  # undo the sum to this rank's share, because it will be summed again
                held = held / self._summed
            ids, grad = _coalesced(torch.cat([before, ids]), torch.cat([held, grad]))
        self._set(ids, grad)
        self.exchanged = False

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Returns the ids and their gradients. A gradient of zeros counts as none: zero_grad(set_to_none=False) made it."""
        grad = self.parameter.grad
        if grad is None or not grad.any():
            return self.ids[:0], self.parameter.detach()[:0]
        if grad.shape[0] != self.ids.numel():
            raise StateError(
                f"[{WHERE}] expected a gradient of {self.ids.numel()} rows, one per row of the batch; received {grad.shape[0]}"
            )
        return self.ids, grad.detach()

    def is_local(self) -> bool:
        """Returns whether there are gradients that no exchange has seen."""
        return not self.exchanged and self.gradient()[0].numel() > 0

    def exchange(self, session: Session, average: bool) -> None:
        """Reduces the rows of all ranks, by average or by sum, and gives the result to every rank. Collective."""
        ids, grad = self.gradient()
        if self.exchanged and not average:
            grad = grad / session.size  # the values are a sum already, and summing the quotients gives it again
        ids, grad = _coalesced(*gather_rows(session, ids, grad))
        self._set(ids, grad / session.size if average else grad)
        self.exchanged = True
        self._summed = 0 if average else session.size

    def take(self, session: Session) -> tuple[Tensor, Tensor]:
        """Returns the ids and gradients that this rank adds to the table, and discards them. After an exchange each rank
        takes a part of the rows, scaled so that the table receives the sum of the gradients of all ranks."""
        ids, grad = self.gradient()
        if self.exchanged:
            ids, grad = ids[session.rank :: session.size], grad[session.rank :: session.size]
            if not self._summed:
                grad = grad * session.size
        self._set(self.ids[:0], None)
        self.exchanged = False
        return ids, grad

    def _set(self, ids: Tensor, grad: Tensor | None) -> None:
        self.parameter.grad = None
        self.parameter.data = torch.zeros(ids.numel(), self.parameter.shape[1])
        self.ids = ids
        if grad is not None and ids.numel() > 0:
            self.parameter.grad = grad


def gather_rows(session: Session, ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the ids and value rows of all ranks, in rank order. Collective."""
    counts = session.all_gather(numpy.array([ids.numel()], numpy.int64)).reshape(-1).tolist()
    most = max(counts)
    if most == 0:
        return ids, values
    padded = torch.zeros(most, dtype=torch.int64)
    padded[: ids.numel()] = ids
    lines = torch.zeros((most, *values.shape[1:]), dtype=values.dtype)
    lines[: ids.numel()] = values
    all_ids = torch.from_numpy(session.all_gather(padded)).view(len(counts), most)
    all_lines = torch.from_numpy(session.all_gather(lines)).view(len(counts), *lines.shape)
    return (
        torch.cat([x[:count] for x, count in zip(all_ids, counts, strict=True)]),
        torch.cat([x[:count] for x, count in zip(all_lines, counts, strict=True)]),
    )


def _coalesced(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    distinct, place = torch.unique(ids, return_inverse=True)
    return distinct, torch.zeros(distinct.numel(), *values.shape[1:]).index_add_(0, place, values)


def _refuse_direct_use(grad: Tensor) -> None:
    raise StateError(
        f"[{WHERE}] a loss uses the parameter of the embedding itself, but its values live in a table; exclude it from "
        f"penalties on all parameters, and use the rows that the forward pass returns"
    )


# Functions that find the embeddings of optimizers and modules.


def embedding_of(x: Tensor) -> "Embedding | None":
    """Returns the embedding that owns this parameter, or None."""
    made = getattr(x, "_pleiad_embedding", None)
    return None if made is None else made()


def plain_parameters(module: torch.nn.Module) -> list[tuple[str, Tensor]]:
    """Returns the names and parameters of a module, except those of embeddings in tables."""
    return [(name, x) for name, x in module.named_parameters() if not hasattr(x, "_pleiad_embedding")]


def rows_of(parameters: Iterable[Tensor]) -> list[BatchRows]:
    """Returns the BatchRows of the embeddings that own any of these parameters, each once."""
    found = [embedding for x in parameters if (embedding := embedding_of(x)) is not None]
    return list(dict.fromkeys(embedding.batch for embedding in found))


def _before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
    """Runs before each optimizer step. Adds the gradients of the embeddings that the optimizer has to their tables."""
    found = [made for group in optimizer.param_groups for x in group["params"] if (made := embedding_of(x)) is not None]
    if not found:
        return None
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    if closure is None:
        for embedding in found:
            embedding._step_of_optimizer()
        return None
    kind = type(optimizer).__name__
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgument(f"[{WHERE}] {kind} cannot update a table; give it only the model's other parameters")
    calls = 0

    def handing_in() -> Any:
        nonlocal calls
        if (calls := calls + 1) > 1:
            raise StateError(
                f"[{WHERE}] {kind} calls its closure more than once in a step; give it only the model's other parameters and "
                f"call step() of the embedding"
            )
        loss = closure()
        for embedding in found:
            embedding._step_of_optimizer()
        return loss

    if len(args) > 1:
        return (args[0], handing_in, *args[2:]), kwargs
    return args, {**kwargs, "closure": handing_in}


register_optimizer_step_pre_hook(_before_step)
