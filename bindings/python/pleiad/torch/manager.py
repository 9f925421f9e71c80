"""A parameter manager: the parameters of a module in one shared table."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy
import torch

from pleiad.errors import InvalidArgument, StateError
from pleiad.options import Updater
from pleiad.representation import Shown, constructor_text
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
    """Tensors that every worker changes, and a table that sums the changes. With one worker the tensors are views of the
    table's memory, and nothing needs to be exchanged."""

    def __init__(
        self, session: Session, named: Named, dtype: torch.dtype, shared: Sequence[str] = (), **table: Any
    ) -> None:
        self.alone = session.workers == 1
        self.flat = Flat(named, dtype)
        self.table: ArrayTable = session.array(self.flat.buffer.numel(), self.flat.buffer, **table)
        # A worker adds only 1/workers of its change of these tensors, so that the table follows the average.
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
        """Overwrites this worker's tensors with the table's values."""
        if not self.alone:
            self.table.get(self.flat.buffer)
            self.last.copy_(self.flat.buffer)
        self.take()

    def assign(self, root: int) -> None:
        """Copies the tensors of the rank `root` to the table and to all workers. Collective."""
        self.flat.gather()
        if not self.alone:
            self.table.set(self.flat.buffer, root)

    def close(self) -> None:
        self.table.close()

    def take(self) -> None:
        """Copies the values into the staged tensors. The next change is measured from the values that their dtype can hold."""
        self.flat.scatter()
        if self.flat.staged and not self.alone:
            self.flat.gather()
            for part in self.flat.staged:
                self.last[part.place].copy_(part.line)


class ParameterManager:
    """Keeps the parameters of `module` in one table that all workers share. One call exchanges all of them.

        manager = pleiad.torch.ParameterManager(model)           # asynchronous; starts with the values of rank 0
        for x, y in batches:
            ...
            optimizer.step()
            manager.sync()                                       # sends this worker's changes, receives the others'
        manager.finish()                                         # all ranks now have the same model

    All ranks create it, with the same module (collective). The parameters become views of one buffer. In gradient mode on
    one host with clock "sync", that buffer is the memory of the table, which all workers share: do not change parameters
    between syncs.

    Args:
        module: the module to train.
        mode: "delta" or "gradient". With "delta", every worker trains with its own optimizer, and `sync` adds the change since
            the last sync to the table. With "gradient", `sync` adds the gradients to the table, whose `updater` makes the
            step; there is no optimizer.
        clock: "async" or "sync". With "sync", every sync waits for that of all workers, and all workers have bit-identical
            parameters after it.
        updater: the update rule of the table in gradient mode, such as `pleiad.Updater("momentum", learning_rate=0.1,
            momentum=0.9)`. As in PyTorch, the rule skips a parameter without a gradient.
        average: whether to divide what the workers add by their number. By default True in gradient mode with clock
            "sync", where a step then equals that of one process on the joined batch, and False otherwise. In delta mode each
            worker's share is rounded when it is added, so the average may differ from the exact one in the last bits.
        freq: only every freq-th call of `sync` exchanges.
        buffers: if True, the module's floating-point buffers, such as batch normalisation statistics, follow the average
            of all workers; if False, they only start equal.
        dtype: torch.float32 keeps float16 and bfloat16 parameters in a float32 table and converts them at every exchange.
        live: for gradient mode with clock "async" on one host: the parameters are views of the table's memory, so the steps
            of other workers become visible immediately, even in the middle of a forward or backward pass. Nothing is copied.
        name: the name of the table.
        session: the session of the table; by default the current one.

    `load_state_dict` on the module counts as an assignment. With clock "sync" the next sync copies the state of the lowest
    rank that loaded one to the table and to all ranks, so rank 0 may load alone. With "async", call `assign` on all ranks.
    Also call `assign` after setting parameters in any other way.
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
            raise InvalidArgument(
                f'[{WHERE}] updater: expected None in delta mode; pass mode="gradient" to use an updater'
            )
        if mode == "gradient":
            scaled(updater, 1, WHERE)
        if live and (mode != "gradient" or clock != "async"):
            raise InvalidArgument(f'[{WHERE}] live needs mode "gradient" and clock "async"; received {mode}, {clock}')
        self.freq = check_count(freq, "freq", WHERE)
        self.mode = mode
        self.module = module
        self.session = all_workers(session, WHERE)
        if live and self.session.hosts > 1:
            raise InvalidArgument(f"[{WHERE}] live needs all workers on one host; received {self.session.hosts} hosts")
        given = {"mode": mode, "clock": clock, "updater": updater, "average": average, "freq": freq, "buffers": buffers}
        self._given = {**given, "dtype": dtype, "live": live, "name": name}
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
            if average and workers > 1:  # the rule divides the changes of parameters and buffers alike
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
        """The table that holds the parameters, in the order of `named_parameters()`, each aligned to 64 bytes."""
        return self._values.table

    def __repr__(self) -> str:
        module = Shown(f"<{type(self.module).__name__} of {len(self._known)} parameters>")
        return constructor_text(type(self), {"module": module, **self._given})

    def sync(self, *, learning_rate: float | None = None) -> bool:
        """Exchanges at every freq-th call, and returns whether it did. With clock "sync", waits for all workers.
        `learning_rate` applies to this step only and needs gradient mode."""
        self._calls += 1
        if self._calls % self.freq:
            return False
        self._check()
        if isinstance(self._values, _Delta) and learning_rate is not None:
            raise InvalidArgument(f"[{WHERE}.sync] learning_rate: expected None in delta mode; set it in the optimizer")
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
        """Overwrites the module with the table's values. Discards changes and loaded states since the last sync."""
        self._check()
        self._loaded.since = False
        self._values.pull()
        if self._buffers is not None:
            self._buffers.pull()

    def assign(self, root: int = 0) -> None:
        """Copies the current parameters and buffers of the rank `root` to the table and to all workers. Collective."""
        self._check()
        self.session.barrier()
        self._values.assign(root)
        if self._buffers is not None:
            self._buffers.assign(root)
        self.session.barrier()
        self.pull()
        self.session.barrier()

    def _take_loaded(self, where: str) -> list[int] | None:
        """If a state was loaded, copies it to all ranks and returns None: nothing is left to exchange. Otherwise returns 1 for
        each parameter that has a gradient on this rank or, with clock "sync", on any rank."""
        if self._clock == "async":
            if self._loaded.since and self.session.workers > 1:
                raise StateError(
                    f"[{where}] a state was loaded into the module since the last sync; call assign() on all ranks to copy it "
                    f"to the table"
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
        """Ends training: exchanges what is left, waits for all ranks, and takes the table's values. All ranks then have
        bit-identical parameters, each in memory of its own. Collective."""
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
        """Releases the memory of the tables on all ranks. The module keeps its parameters. Without this call the memory is
        released once every rank has dropped its manager. Collective."""
        self._values.close()
        if self._buffers is not None:
            self._buffers.close()

    def __enter__(self) -> "ParameterManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other ranks may never call close()
            self.close()

    def _check(self) -> None:
        known = self._known
        count = 0
        for (label, x), mine in zip(plain_parameters(self.module), [*known, None]):
            if x is not mine:
                what = "new" if mine is None or all(x is not other for other in known) else "in another position"
                raise InvalidArgument(
                    f"[{WHERE}] parameter {label} is {what} since the manager was created; create the manager after the "
                    f"model is complete"
                )
            count += 1
        if count != len(known):
            raise InvalidArgument(f"[{WHERE}] the module had {len(known)} parameters and now has {count}")
        self._values.flat.check(WHERE)
        if self._buffers is not None:
            self._buffers.flat.check(WHERE)
