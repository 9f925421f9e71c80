"""A module's parameters, kept in one table."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy
import torch

from pleiad.errors import InvalidArgument, StateError
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.torch.flat import Flat, Named, describe, floating, table_dtype
from pleiad.torch.gradients import GradientTable
from pleiad.torch.guard import excuse
from pleiad.torch.loading import LoadHook
from pleiad.torch.memory import keep_freed_memory
from pleiad.torch.rows import plain_parameters
from pleiad.torch.start import broadcast
from pleiad.worlds import agree, all_workers, check_clock, check_count, scaled

WHERE = "ParameterManager"
MODES = ("delta", "gradient")


class _Delta:
    """Tensors that every worker changes, and a table that adds the changes up. In a world of one worker the tensors lie
    in the table itself, and there is nothing left to exchange."""

    def __init__(
        self, session: Session, named: Named, dtype: torch.dtype, shared: Sequence[str] = (), **table: Any
    ) -> None:
        self.alone = session.workers == 1
        self.flat = Flat(named, dtype)
        self.table: ArrayTable = session.array(self.flat.buffer.numel(), self.flat.buffer, **table)
        # Of these a worker hands in its share of the change only, so that the table follows the average.
        self.shared = [part for part in self.flat.parts if part.name in shared]
        self.share = 1 / session.workers
        if self.alone:
            self.flat = Flat(named, dtype, torch.from_numpy(self.table.map()))
            self.last = self.flat.buffer
        else:
            self.last = torch.empty_like(self.flat.buffer)
            self.pull()

    def exchange(self) -> None:
        self.flat.gather()
        if self.alone:
            return
        with torch.no_grad():
            for part in self.shared:
                before = self.last[part.place]
                part.line.sub_(before).mul_(self.share).add_(before)
        self.table.exchange(self.flat.buffer, self.last)
        self.take()

    def pull(self) -> None:
        """The table's values, in place of this worker's."""
        if not self.alone:
            self.table.get(self.flat.buffer)
            self.last.copy_(self.flat.buffer)
        self.take()

    def assign(self, root: int) -> None:
        """The table and all workers take the tensors of the rank `root`. Collective."""
        self.flat.gather()
        if not self.alone:
            self.table.set(self.flat.buffer, root)

    def close(self) -> None:
        self.table.close()

    def take(self) -> None:
        """Staged tensors get their values. The next change is counted from what they could hold of them."""
        self.flat.scatter()
        if self.flat.staged and not self.alone:
            self.flat.gather()
            for part in self.flat.staged:
                self.last[part.place].copy_(part.line)


class ParameterManager:
    """Keeps the parameters of `module` in one table that all workers share; one call exchanges all of them.

        manager = pleiad.torch.ParameterManager(model)           # asynchronous; the master's values at the start
        for x, y in batches:
            ...
            optimizer.step()
            manager.sync()                                       # my changes out, the others' in
        manager.finish()                                         # all ranks have the same model

    mode: "delta": every worker trains by its own optimizer, and `sync` adds what has changed since the last one to the
    table. "gradient": `sync` hands the gradients to the table, whose `updater` makes the step; there is no optimizer.
    clock: "async", or "sync": every sync waits for that of all workers, and all have the same bits after it.
    updater: gradient mode: a rule of the table, as `pleiad.Updater("momentum", learning_rate=0.1, momentum=0.9)`. As in
    PyTorch's optimizers, the rule does not see a parameter without a gradient.
    average: divide what the workers hand in by their number. Unless given: in gradient mode with clock "sync", where a
    step is then that of one process on the joined batch; else a table gets what each worker hands in.
    freq: only every freq-th call of `sync` exchanges. buffers: the module's floating-point buffers (the statistics of
    batch normalisation) follow the average of all workers; False: they only start equal.
    dtype: torch.float32 holds float16 and bfloat16 parameters in a float32 table, converted at every exchange.
    The state that `load_state_dict` loads into the module is an assignment: with clock "sync" the next sync gives it to the
    table and to all ranks (that of the first rank that loaded, so rank 0 may load alone); with "async", call `assign` on
    all ranks. Parameters that you set by other means need `assign` too.
    live: gradient mode, asynchronous, on one host: the parameters lie in the table's own memory, and the others' steps
    show as soon as they are made, in the middle of a forward or backward pass too. Nothing is copied.

    The parameters become views of one buffer; in gradient mode on one host, with clock "sync", of the table that all
    workers see: between syncs nobody changes them. Collective: all ranks make it, with the same module.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        mode: str = "delta",
        clock: str = "async",
        updater: "str | Mapping[str, Any] | Updater | None" = None,
        average: bool | None = None,
        freq: int = 1,
        buffers: bool = True,
        dtype: torch.dtype | None = None,
        live: bool = False,
        name: str = "parameters",
        session: Session | None = None,
    ) -> None:
        if not isinstance(module, torch.nn.Module):
            raise InvalidArgument(f"[{WHERE}] expected a torch.nn.Module; received {type(module).__name__}")
        if mode not in MODES:
            raise InvalidArgument(f'[{WHERE}] unknown mode "{mode}"; known: {", ".join(MODES)}')
        check_clock(clock, WHERE)
        if mode == "delta" and updater is not None:
            raise InvalidArgument(f"[{WHERE}] an updater makes the step in gradient mode; mode is delta")
        if mode == "gradient":
            scaled(updater, 1, WHERE)
        if live and (mode != "gradient" or clock != "async"):
            raise InvalidArgument(f'[{WHERE}] live is for gradient mode with clock "async"; received {mode}, {clock}')
        self.freq = check_count(freq, "freq", WHERE)
        self.mode = mode
        self.module = module
        self.session = all_workers(session, WHERE)
        if live and self.session.hosts > 1:
            raise InvalidArgument(f"[{WHERE}] live is for the workers of one host; here are {self.session.hosts} hosts")
        keep_freed_memory()
        named = plain_parameters(module)
        followed = floating(module.named_buffers()) if buffers else []
        kind = table_dtype([*named, *followed] if named else [], dtype, WHERE)
        agree(
            self.session,
            WHERE,
            [mode, clock, str(updater), str(average), f"live {live}", *describe([*named, *module.named_buffers()])],
        )
        for _, x in module.named_buffers():
            broadcast(self.session, x)
        workers = self.session.workers
        average = (mode == "gradient" and clock == "sync") if average is None else average
        scale = 1 / workers if average else 1.0
        shared = [label for label, _ in followed]
        self._known = [x for _, x in named]
        excuse(self._known)
        self._calls = 0
        self._clock = clock
        self._loaded = LoadHook(module)
        self._buffers: _Delta | None = None
        self._values: _Delta | GradientTable
        if mode == "delta":
            if average and workers > 1:  # the rule divides, the buffers' changes too
                rule, shared = Updater("sgd", learning_rate=scale, ascend=True), []
            else:
                rule = Updater("sum")
            self._values = _Delta(self.session, [*named, *followed], kind, shared, name=name, clock=clock, updater=rule)
            return
        made = scaled(updater, scale, WHERE)
        self._values = GradientTable(self.session, named, kind, clock=clock, live=live, updater=made, name=name)
        if followed:
            self._buffers = _Delta(self.session, followed, kind, shared, name=f"{name}.buffers", clock=clock)

    @property
    def table(self) -> ArrayTable:
        """The table that holds the parameters, each at a 64-byte boundary, in the order of `named_parameters()`."""
        return self._values.table

    def sync(self, *, learning_rate: float | None = None) -> bool:
        """Exchanges, at every freq-th call; True where it did. In gradient mode a learning rate given here counts for
        this step alone."""
        self._calls += 1
        if self._calls % self.freq:
            return False
        self._check()
        if isinstance(self._values, _Delta) and learning_rate is not None:
            raise InvalidArgument(f"[{WHERE}.sync] the learning rate is the optimizer's: mode is delta")
        used = self._take_loaded(f"{WHERE}.sync")
        if used is None:
            return True
        if isinstance(self._values, _Delta):
            self._values.exchange()
            return True
        self._values.exchange(f"{WHERE}.sync", learning_rate, used)
        if self._buffers is not None:
            self._buffers.exchange()
        return True

    def pull(self) -> None:
        """Takes the table's values. What this worker has changed or loaded since its last sync is lost."""
        self._check()
        self._loaded.since = False
        self._values.pull()
        if self._buffers is not None:
            self._buffers.pull()

    def assign(self, root: int = 0) -> None:
        """Collective: the table and all workers take the parameters and buffers of the rank `root` as they are now."""
        self._check()
        self.session.barrier()
        self._values.assign(root)
        if self._buffers is not None:
            self._buffers.assign(root)
        self.session.barrier()
        self.pull()
        self.session.barrier()

    def _take_loaded(self, where: str) -> list[int] | None:
        """Gives a state that was loaded to all ranks; then it returns None, and there is nothing left to exchange. Otherwise
        1 for each parameter with a gradient, on this rank or, where workers wait for each other, on any."""
        if self._clock == "async":
            if self._loaded.since and self.session.workers > 1:
                raise StateError(
                    f"[{where}] a state was loaded into the module since the last sync; call assign() on all ranks, so that "
                    f"the table takes it"
                )
        mine = [int(x.grad is not None) for x in self._known]
        if self._clock == "async" or self.session.workers == 1:
            self._loaded.since = False
            return mine
        rank, size = self.session.rank, self.session.size
        line = torch.tensor([size - rank if self._loaded.since else 0, *mine], dtype=torch.int32)
        self.session.all_reduce(line, "max")
        first, *used = line.tolist()
        if first == 0:
            return used
        self.assign(size - first)
        return None

    def finish(self) -> None:
        """Collective, at the end of training: hands in what is left, waits for all, and takes the table's values, so
        that all ranks have the same bits, each in memory of its own."""
        self._check()
        flags = self.session.all_gather(numpy.array([self._loaded.since], numpy.int32)).reshape(-1)
        if flags.any():
            self.assign(int(flags.argmax()))
        elif isinstance(self._values, _Delta):
            self._values.exchange()
        self.session.barrier()
        self.pull()
        self.session.barrier()
        if isinstance(self._values, GradientTable):
            self._values.finish()

    def close(self) -> None:
        """Collective: releases the tables' memory on all ranks now. The module keeps its parameters. Without it the memory
        is released once every rank has dropped its manager."""
        self._values.close()
        if self._buffers is not None:
            self._buffers.close()

    def __enter__(self) -> "ParameterManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other ranks may not come to close()
            self.close()

    def _check(self) -> None:
        known = self._known
        count = 0
        for (label, x), mine in zip(plain_parameters(self.module), [*known, None]):
            if x is not mine:
                what = "new" if mine is None or all(x is not other for other in known) else "at another place"
                raise InvalidArgument(
                    f"[{WHERE}] parameter {label} is {what} since the manager was made; make the model first, then the "
                    f"manager"
                )
            count += 1
        if count != len(known):
            raise InvalidArgument(f"[{WHERE}] the module had {len(known)} parameters and has {count} now")
        self._values.flat.check(WHERE)
        if self._buffers is not None:
            self._buffers.flat.check(WHERE)
