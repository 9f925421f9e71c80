"""A torch.distributed backend over a Pleiad session, for libraries that train with DDP: accelerate, Trainer and Lightning."""

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d

from pleiad.errors import InvalidArgument, StateError
from pleiad.objects import broadcast_object
from pleiad.sessions import Session
from pleiad.torch import guard
from pleiad.torch.buckets import Helper
from pleiad.torch.start import broadcast, gather
from pleiad.worlds import all_workers

WHERE = "torch.init_process_group"
BACKEND = "pleiad"
# PyTorch's annotations of these are narrower than what they accept.
_Base: Any = dist.ProcessGroup
_work: Any = _distributed_c10d._create_work_from_future  # type: ignore[attr-defined]
_session: Session | None = None
_before: dict[str, str | None] = {}  # environment variables as they were before init_process_group

# The session reduces these types with its own operations; other types are converted.
NATIVE = {torch.float32, torch.float64, torch.int32, torch.int64}
OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "mean", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max"}
FOLDS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def init_process_group(*, check: bool = True, session: Session | None = None) -> None:
    """Makes the ranks of the session the default process group of torch.distributed, with the backend "pleiad". Everything
    that trains with DDP then trains over Pleiad: DDP itself, accelerate, the Trainer of transformers, Lightning. Collective.

        session = pleiad.init()
        pleiad.torch.init_process_group()

    It sets the environment variables that these libraries read: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and NODE_RANK,
    and, unless they are set, ACCELERATE_USE_CPU and MASTER_ADDR. The end of the session destroys the group and restores the
    variables.

    The group supports the collectives of CPU tensors (all_reduce, broadcast, all_gather, gather, reduce, scatter,
    reduce_scatter, barrier and the object collectives). It does not support send and receive, or subgroups.

    Args:
        check: if True, the first step of an optimizer of these libraries raises a StateError if no gradients were exchanged
            before it. Pass False for methods that average parameters instead, such as accelerate's LocalSGD.
        session: the session to use; by default the current one.
    """
    global _session
    found = all_workers(session, WHERE)
    if dist.is_initialized():
        raise StateError(f"[{WHERE}] torch.distributed already has a process group, with backend {dist.get_backend()}")
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make, devices=["cpu"])
    hosts = [found.host_of(rank) for rank in range(found.size)]
    mine = [rank for rank, host in enumerate(hosts) if host == hosts[found.rank]]
    # On several hosts accelerate requires an address, although nothing connects to it.
    first = broadcast_object(socket.gethostname(), session=found)
    variables = {
        "RANK": found.rank,
        "WORLD_SIZE": found.size,
        "LOCAL_RANK": mine.index(found.rank),
        "LOCAL_WORLD_SIZE": len(mine),
        "NODE_RANK": hosts[found.rank],
        "ACCELERATE_USE_CPU": os.environ.get("ACCELERATE_USE_CPU", "true"),
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", first),
    }
    if not _before:
        _before.update({name: os.environ.get(name) for name in variables})
    os.environ.update({name: str(value) for name, value in variables.items()})
    _session = found
    guard.enable(check)
    # The store exchanges nothing, because the session is already connected.
    dist.init_process_group(BACKEND, store=_distributed_c10d.HashStore(), rank=found.rank, world_size=found.size)
    found.at_end[_end] = None


def _end() -> None:
    global _session
    if dist.is_initialized() and isinstance(dist.group.WORLD, ProcessGroup):
        dist.destroy_process_group()
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before.clear()
    _session = None
    guard.enable(True)


def _make(store: Any, rank: int, size: int, timeout: Any) -> "ProcessGroup":
    if _session is None:
        raise StateError(f'[{WHERE}] the backend "{BACKEND}" needs a call of pleiad.torch.init_process_group()')
    if size != _session.size:
        raise InvalidArgument(f"[{WHERE}] expected a group of all {_session.size} ranks; received a group of {size}")
    return ProcessGroup(_session, rank)


class ProcessGroup(_Base):  # type: ignore[misc]
    """The collectives of torch.distributed, in one order on all ranks. They run on the session's helper thread if PyTorch
    leaves a core free, and otherwise synchronously in the caller."""

    def __init__(self, session: Session, rank: int) -> None:
        super().__init__(rank, session.size)
        self._session = session
        overlap = session.size > 1 and len(os.sched_getaffinity(0)) > torch.get_num_threads()
        self._thread = Helper(session, overlap).thread
        self._last: Future[None] | None = None
        session.before_collective[self._wait] = None

    def getBackendName(self) -> str:  # noqa: N802, a name of PyTorch's
        """Returns the name of the backend, "pleiad"."""
        return BACKEND

    def _start(self, call: Callable[[], None], result: list[Tensor]) -> Any:
        """Runs a collective and returns a Work object whose future has the value `result`."""
        done: Any = torch.futures.Future()
        if self._thread is None:
            call()
            done.set_result(result)
            return _work(done)

        def run() -> None:
            try:
                call()
            except BaseException as problem:
                done.set_exception(problem)
            else:
                done.set_result(result)

        self._last = self._thread.submit(run)
        return _work(done)

    def _wait(self) -> None:
        """Waits for running collectives, so that the session's own collectives follow them on all ranks."""
        if self._last is not None and not threading.current_thread().name.startswith(Helper.NAME):
            self._last.result()

    # Reductions.

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        op = _op(opts, dist.AllreduceOptions())
        _check(tensors)
        guard.count_reduced(sum(x.numel() for x in tensors))

        def call() -> None:
            for x in tensors:
                self._reduce(x, op)

        return self._start(call, tensors)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        op, root = _op(opts), opts.rootRank
        _check(tensors)

        def call() -> None:
            for x in tensors:
                copy = x.detach().clone()
                self._reduce(copy, op)
                if self.rank() == root:
                    x.copy_(copy)

        return self._start(call, tensors)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Any:
        op = _op(opts, dist.ReduceScatterOptions())
        _check([*outputs, *(x for parts in inputs for x in parts)])
        guard.count_reduced(sum(x.numel() for parts in inputs for x in parts))

        def call() -> None:
            for out, parts in zip(outputs, inputs, strict=True):
                joined = torch.stack([x.detach() for x in parts])
                self._reduce(joined, op)
                out.detach().copy_(joined[self.rank()])

        return self._start(call, outputs)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> Any:
        return self.reduce_scatter([output], [list(given.view(self.size(), *output.shape))], opts)

    _reduce_scatter_base = reduce_scatter_single

    def _reduce(self, x: Tensor, op: Any) -> None:
        """Reduces a tensor of any dtype and layout in place."""
        if self._session.size == 1 or x.numel() == 0:
            return
        with torch.no_grad():
            if x.is_complex() and op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
                pairs = torch.view_as_real(x.detach().resolve_conj().contiguous().clone())
                self._reduce(pairs, op)
                x.copy_(torch.view_as_complex(pairs))
            elif op in OPS:
                kind = x.dtype if x.dtype in NATIVE else torch.float32 if x.is_floating_point() else torch.int64
                line = x.detach().to(kind).contiguous()
                self._session.all_reduce(line, OPS[op])
                if line.data_ptr() != x.data_ptr():
                    x.copy_(line)
            else:
                x.copy_(reduce(FOLDS[op], gather(self._session, x)))

    # Copies.

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Any:
        root = 0 if opts is None else opts.rootRank
        _check(tensors)

        def call() -> None:
            for x in tensors:
                broadcast(self._session, x, root)

        return self._start(call, tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        _check([*inputs, *(x for parts in outputs for x in parts)])

        def call() -> None:
            for parts, x in zip(outputs, inputs, strict=True):
                for out, value in zip(parts, gather(self._session, x), strict=True):
                    out.detach().copy_(value.view(out.shape))

        return self._start(call, [x for parts in outputs for x in parts])

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> Any:
        return self.allgather([list(output.view(self.size(), -1))], [given])

    _allgather_base = all_gather_single

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        root = opts.rootRank
        _check([*inputs, *(x for parts in outputs for x in parts)])

        def call() -> None:
            for i, x in enumerate(inputs):
                values = gather(self._session, x)
                if self.rank() == root:
                    for out, value in zip(outputs[i], values, strict=True):
                        out.detach().copy_(value)

        return self._start(call, [x for parts in outputs for x in parts])

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        root = opts.rootRank
        _check([*outputs, *(x for parts in inputs for x in parts)])

        def call() -> None:
            for i, out in enumerate(outputs):
                if self.rank() == root:
                    joined = torch.stack([x.detach() for x in inputs[i]])
                else:
                    joined = out.detach().new_empty((self.size(), *out.shape))
                broadcast(self._session, joined, root)
                out.detach().copy_(joined[self.rank()])

        return self._start(call, outputs)

    def barrier(self, opts: Any = None) -> Any:
        return self._start(self._session.barrier, [])

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise InvalidArgument(
            f"[{BACKEND} process group] send, receive and all_to_all are not supported; use Session.send and Session.receive"
        )

    send = recv = recv_anysource = alltoall = all_to_all_single = alltoall_base = _refuse


def _op(opts: Any, default: Any = None) -> Any:
    op = (default if opts is None else opts).reduceOp
    for known in (*OPS, *FOLDS):
        if op == known:
            return known
    raise InvalidArgument(f"[{BACKEND} process group] unknown operation {op}")


def _check(tensors: list[Tensor]) -> None:
    for x in tensors:
        if x.device.type != "cpu" or x.layout != torch.strided:
            raise InvalidArgument(
                f"[{BACKEND} process group] expected dense tensors on the CPU; received one on {x.device} of {x.layout}"
            )
