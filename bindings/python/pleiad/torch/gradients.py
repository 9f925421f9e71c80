"""Parameters in a table whose rule makes the steps."""

from typing import Any

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.torch.flat import Flat, Named, Part, as_line, is_dense

BLOCK = 128 * 1024 // 4  # elements; of float64 two blocks


class GradientTable:
    """Takes gradients where the backward pass has left them. On one host the parameters lie in the table's own memory:
    with clock "sync", all workers' gradients are summed and the rule runs once, each worker on its share of the
    numbers, while nobody computes. With clock "async" that is so where `live` asks for it. On several hosts the workers
    hand in their share of the sum, and read the table."""

    def __init__(
        self, session: Session, named: Named, dtype: torch.dtype, *, clock: str, live: bool, updater: Updater, name: str
    ) -> None:
        self.session = session
        one_host = self.one_host = session.hosts == 1
        alone = session.workers == 1
        self.together = clock == "sync" and not alone
        self.mapped = alone or (one_host and (self.together or live))
        flat = Flat(named, dtype)
        options: dict[str, Any] = {"name": name, "updater": updater, "clock": "async" if self.together else clock}
        self.table: ArrayTable = session.array(flat.buffer.numel(), flat.buffer, **options)
        if self.mapped:
            flat = Flat(named, dtype, torch.from_numpy(self.table.map()), holds_values=True)
        self.flat = flat
        self.pull()

    def exchange(self, where: str, learning_rate: float | None, used: list[int]) -> None:
        """`used` has 0 for each parameter without a gradient, with clock "sync" on any rank. As in an optimizer of PyTorch the
        rule does not see it: momentum and weight decay do not move it, and what the rule keeps for it stays."""
        idle = [part.place for part, ranks in zip(self.flat.parts, used, strict=True) if ranks == 0]
        kept = [(place.start, place.stop) for place in idle]
        parts = []
        with torch.no_grad():
            for part in self.flat.parts:
                if part.tensor.grad is not None:
                    parts.append((part.place.start, _line(part, part.tensor.grad, where)))
        if not self.together:
            out = None if self.mapped else self.flat.buffer
            self.table.add_parts(parts, out, learning_rate=learning_rate, kept=kept)
        elif self.one_host:
            self.table.step(parts, learning_rate=learning_rate, kept=kept)
        else:
            self._step_on_hosts(parts, learning_rate, kept)
        self.flat.scatter()

    def _step_on_hosts(
        self, parts: list[tuple[int, Tensor]], learning_rate: float | None, kept: list[tuple[int, int]]
    ) -> None:
        """Sums the gradients of all workers; each worker hands its share of the sum to the rule. The next sum begins after
        all workers have read the table."""
        total = torch.zeros_like(self.flat.buffer)
        for at, line in parts:
            total[at : at + line.numel()] = line
        self.session.all_reduce(total)
        size, rank = total.numel(), self.session.worker_id
        blocks = -(-size // BLOCK)  # a rule updates a block as a whole, so no block is shared
        begin, end = (min(size, blocks * r // self.session.workers * BLOCK) for r in (rank, rank + 1))
        if begin < end:
            mine = [(max(a, begin), min(b, end)) for a, b in kept if a < end and b > begin]
            others = [(0, begin), *mine, (end, size)]
            self.table.add_parts([(begin, total[begin:end])], learning_rate=learning_rate, kept=others)
        self.session.barrier()
        self.table.get(self.flat.buffer)

    def assign(self, root: int) -> None:
        """The table and all workers take the parameters of the rank `root`. Collective."""
        if not self.mapped or self.session.rank == root:
            self.flat.gather()
        if not self.mapped:  # otherwise the parameters lie in the table, so what one worker sets is set for all
            self.table.set(self.flat.buffer, root)

    def pull(self) -> None:
        """The table's values, in place of this worker's."""
        if not self.mapped:
            self.table.get(self.flat.buffer)
        self.flat.scatter()

    def finish(self) -> None:
        """The parameters get memory of their own, which no other worker sees."""
        if self.mapped and self.session.workers > 1:
            self.flat.release()

    def close(self) -> None:
        """Collective: the parameters get memory of their own, and the table's is released."""
        self.finish()
        self.table.close()


def _line(part: Part, grad: Tensor, where: str) -> Tensor:
    """A gradient in the order and type of its place in the table: where it lies, if it lies so."""
    if grad.layout != torch.strided:
        raise InvalidArgument(f"[{where}] the gradient of {part.name} is sparse; use pleiad.torch.Embedding")
    view = part.view
    if grad.dtype == view.dtype and grad.device.type == "cpu" and grad.stride() == view.stride() and is_dense(grad):
        return as_line(grad)
    return as_line(torch.empty_like(view).copy_(grad))
