"""Parameters in a table whose update rule makes the optimizer step."""

from typing import Any

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument, StateError
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.torch.flat import Flat, Named, Part, as_line, is_dense


class GradientTable:
    """Adds gradients to a table directly from the memory in which the backward pass left them. On one host with clock
    "sync", the parameters are views of the table's memory: all workers' gradients are summed and the rule runs once, each
    worker updating its range of the elements while no worker computes. On one host with clock "async", the parameters
    are such views if `live` is True."""

    def __init__(
        self, session: Session, named: Named, dtype: torch.dtype, *, clock: str, live: bool, updater: Updater, name: str
    ) -> None:
        self.session = session
        one_host = self.one_host = session.hosts == 1
        alone = session.workers == 1
        self.together = clock == "sync" and not alone and one_host
        self.mapped = alone or self.together or (live and one_host)
        flat = Flat(named, dtype)
        options: dict[str, Any] = {"name": name, "updater": updater, "clock": "async" if self.together else clock}
        options["apply"] = "round" if clock == "sync" and not self.mapped else "each"
        self.table: ArrayTable = session.array(flat.buffer.numel(), flat.buffer, **options)
        if self.mapped:
            flat = Flat(named, dtype, torch.from_numpy(self.table.map()), holds_values=True)
        self.flat = flat
        self.clock = clock
        self.rule = updater
        self._trained: set[str] = set()  # parameters that have received a gradient here
        self.pull()

    def exchange(self, where: str, learning_rate: float | None, used: list[int]) -> None:
        """Exchanges the gradients and takes the new values. `used` holds 0 for each parameter without a gradient (with clock
        "sync": without one on any rank). As in PyTorch, the rule skips such a parameter: momentum and weight decay do not
        move it, and its rule state stays."""
        idle = [part for part, ranks in zip(self.flat.parts, used, strict=True) if ranks == 0]
        kept = [(part.place.start, part.place.stop) for part in idle] if self.one_host else []
        saved: list[Tensor] = []
        if not self.one_host:
            self._check_idle(idle, where)
            saved = [part.view.clone() for part in idle]
        parts = []
        with torch.no_grad():
            for part in self.flat.parts:
                if part.tensor.grad is not None:
                    parts.append((part.place.start, _line(part, part.tensor.grad, where)))
        if self.together:
            self.table.step(parts, learning_rate=learning_rate, kept=kept)
        else:
            out = None if self.mapped else self.flat.buffer
            self.table.add_parts(parts, out, learning_rate=learning_rate, kept=kept)
        if saved and self.clock == "sync":
            self._restore(idle, saved)
        self.flat.scatter()

    def _check_idle(self, idle: list[Part], where: str) -> None:
        """On several hosts the rule cannot skip a parameter. With clock "sync" its values are restored afterwards. With
        "async" other workers may have changed them meanwhile, so this raises if the rule would move the parameter."""
        self._trained |= {part.name for part in self.flat.parts if part.tensor.grad is not None}
        decays = bool(self.rule.fields.get("weight_decay"))
        moved = [part.name for part in idle if decays or (part.name in self._trained and self.rule.rule != "sgd")]
        if self.clock != "sync" and moved:
            raise StateError(
                f"[{where}] {moved[0]} has no gradient, but the rule {self.rule.rule!r} would change it nevertheless on "
                f'{self.session.hosts} hosts; use clock="sync", or a rule without momentum and weight decay'
            )

    def _restore(self, idle: list[Part], saved: list[Tensor]) -> None:
        self.session.barrier()
        with torch.no_grad():
            for part, values in zip(idle, saved, strict=True):
                part.view.copy_(values)
        self.table.set(self.flat.buffer)
        self.session.barrier()

    def assign(self, root: int) -> None:
        """Copies the parameters of the rank `root` to the table and to all workers. Collective."""
        if not self.mapped or self.session.rank == root:
            self.flat.gather()
        if not self.mapped:  # a mapped table shares its memory, so one worker's values are visible to all
            self.table.set(self.flat.buffer, root)

    def pull(self) -> None:
        """Overwrites this worker's parameters with the table's values."""
        if not self.mapped:
            self.table.get(self.flat.buffer)
        self.flat.scatter()

    def finish(self) -> None:
        """Gives the parameters memory of their own, which no other worker shares."""
        if self.mapped and self.session.workers > 1:
            self.flat.release()

    def close(self) -> None:
        """Gives the parameters memory of their own and releases the table's. Collective."""
        self.finish()
        self.table.close()


def _line(part: Part, grad: Tensor, where: str) -> Tensor:
    """Returns the gradient in the element order and dtype of the table, without a copy if it already has them."""
    if grad.layout != torch.strided:
        raise InvalidArgument(f"[{where}] the gradient of {part.name} is sparse; use pleiad.torch.Embedding")
    view = part.view
    if grad.dtype == view.dtype and grad.device.type == "cpu" and grad.stride() == view.stride() and is_dense(grad):
        return as_line(grad)
    return as_line(torch.empty_like(view).copy_(grad))
