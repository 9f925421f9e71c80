"""A parameter manager: a pytree of parameters in one shared table."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import jax
import numpy
from numpy.typing import NDArray

from pleiad.choices import TableClock
from pleiad.errors import InvalidArgument
from pleiad.jax.layout import HALF, Layout
from pleiad.options import Updater
from pleiad.representation import Shown, constructor_text
from pleiad.sessions import Session
from pleiad.tables import ArrayTable
from pleiad.worlds import agree, all_workers, check_clock, check_count, scaled

MODES = ("delta", "gradient")


class ParameterManager:
    """Keeps a pytree of parameters in one table that all workers share.

        manager = pleiad.jax.ParameterManager(params, clock="sync")
        params = manager.params                   # starts with the values of rank 0
        ...
        params = manager.sync(params)             # delta mode: sends this worker's changes, receives the others'
        params = manager.sync(grads)              # gradient mode: the table's updater makes the step
        params = manager.finish(params)           # at the end: the same parameters on all ranks

    `mode`, `clock`, `updater`, `average`, `freq` and `dtype` are those of `pleiad.torch.ParameterManager`. All ranks create it,
    with pytrees of the same layout (collective).
    """

    def __init__(
        self,
        params: Any,
        *,
        mode: str = "delta",
        clock: TableClock = "async",
        updater: "str | Mapping[str, Any] | Updater | None" = None,
        average: bool | None = None,
        freq: int = 1,
        dtype: Any = None,
        name: str = "parameters",
        session: Session | None = None,
    ) -> None:
        where = "ParameterManager"
        if mode not in MODES:
            raise InvalidArgument(f'[{where}] unknown mode "{mode}"; known: {", ".join(MODES)}')
        check_clock(clock, where)
        self.freq = check_count(freq, "freq", where)
        self.mode = mode
        self.session = all_workers(session, where)
        workers = self.session.workers
        given = {"mode": mode, "clock": clock, "updater": updater, "average": average, "freq": freq}
        average = (mode == "gradient" and clock == "sync") if average is None else average
        scale = 1 / workers if average else 1.0
        if mode == "gradient":
            rule = scaled(updater, scale, where)
        elif updater is not None:
            raise InvalidArgument(
                f'[{where}] updater: expected None in delta mode; pass mode="gradient" to use an updater'
            )
        else:
            rule = Updater("sgd", learning_rate=scale, ascend=True) if average and workers > 1 else Updater("sum")
        self._layout = Layout(params, where, dtype)
        self._given = {**given, "dtype": dtype, "name": name, "params": Shown(f"<{len(self._layout.names)} arrays>")}
        agree(self.session, where, [mode, clock, repr(rule), *self._layout.lines()])
        rounds = mode == "gradient" and clock == "sync" and workers > 1
        self.table: ArrayTable = self.session.array(
            self._layout.size,
            self._layout.gather(params),
            name=name,
            clock=clock,
            apply="round" if rounds else "each",
            updater=rule,
        )
        self._calls = 0
        self._last = self._held(self.table.get())

    @property
    def params(self) -> Any:
        """The parameters after the last exchange."""
        return self._layout.scatter(self._last.copy())

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)

    def sync(self, tree: Any, *, learning_rate: float | None = None) -> Any:
        """Exchanges at every freq-th call and returns the parameters. In delta mode `tree` holds this worker's parameters,
        which are returned unchanged between exchanges. In gradient mode `tree` holds gradients. Between exchanges the
        gradients are discarded and the parameters of the last exchange returned, so accumulate them or leave freq at 1."""
        self._calls += 1
        if self._calls % self.freq:
            return tree if self.mode == "delta" else self.params
        if self.mode == "gradient":
            buffer = self._layout.gather(tree)
            self.table.add_get(buffer, buffer, learning_rate=learning_rate)
            numpy.copyto(self._last, buffer)
            return self._layout.scatter(buffer)
        if learning_rate is not None:
            raise InvalidArgument(
                "[ParameterManager.sync] learning_rate: expected None in delta mode; set it in the optimizer"
            )
        return self._exchange(tree)

    def pull(self) -> Any:
        """Returns the table's values. Discards this worker's changes since its last sync."""
        buffer = self.table.get()
        self._last = self._held(buffer.copy())
        return self._layout.scatter(buffer)

    def finish(self, tree: Any = None) -> Any:
        """Ends training: exchanges what is left (in delta mode `tree`, this worker's parameters), waits for all ranks, and
        returns the table's values, bit-identical on all ranks. Collective."""
        if self.mode == "delta" and tree is not None:
            self._exchange(tree)
        self.session.barrier()
        params = self.pull()
        self.session.barrier()
        return params

    def close(self) -> None:
        """Releases the table's memory on all ranks. Without this call the memory is released once every rank has dropped its
        manager. Collective."""
        self.table.close()

    def __enter__(self) -> "ParameterManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other ranks may never call close()
            self.close()

    def _exchange(self, tree: Any) -> Any:
        buffer = self._layout.gather(tree)
        self.table.exchange(buffer, self._last)
        self._last = self._held(self._last)
        return self._layout.scatter(buffer)

    def _held(self, buffer: NDArray[Any]) -> NDArray[Any]:
        """Rounds values to what leaves of half precision can hold. The next change is measured from there."""
        for kind, place in zip(self._layout.kinds, self._layout.places, strict=True):
            if kind in HALF:
                buffer[place] = buffer[place].astype(jax.numpy.dtype(kind))
        return buffer
