"""Gradients averaged over all ranks while the backward pass still runs."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument, StateError
from pleiad.sessions import Session
from pleiad.torch.flat import HALF, Flat, as_line, describe, floating, is_dense
from pleiad.torch.memory import keep_freed_memory
from pleiad.torch.start import broadcast
from pleiad.worlds import agree, all_workers, check_count

WHERE = "DistributedOptimizer"


class _Bucket:
    """Gradients that travel together: a large one where it lies, small ones in a buffer."""

    def __init__(self, named: list[tuple[str, Tensor]]) -> None:
        self.named = named
        first = named[0][1]
        dtype = torch.float32 if first.dtype in HALF else first.dtype
        in_place = len(named) == 1 and dtype == first.dtype and first.device.type == "cpu"
        self.buffer = None if in_place else torch.empty(sum(x.numel() for _, x in named), dtype=dtype)
        self.missing = len(named)

    def line(self) -> Tensor:
        """The gradients as they travel. One that this rank has not is zero."""
        with torch.no_grad():
            if self.buffer is None:
                return as_line(_own_layout(*self.named[0]))
            begin = 0
            for name, x in self.named:
                part = self.buffer[begin : begin + x.numel()].view(x.shape)
                if x.grad is None:
                    part.zero_()
                else:
                    part.copy_(_dense(name, x.grad))
                begin += x.numel()
            return self.buffer

    def give_back(self) -> None:
        if self.buffer is None:
            return
        begin = 0
        with torch.no_grad():
            for _, x in self.named:
                part = self.buffer[begin : begin + x.numel()].view(x.shape)
                if x.grad is None:
                    x.grad = torch.empty_like(x)
                x.grad.copy_(part)
                begin += x.numel()


def _dense(name: str, grad: Tensor) -> Tensor:
    if grad.layout != torch.strided:
        raise InvalidArgument(f"[{WHERE}] the gradient of {name} is sparse; use pleiad.torch.Embedding for such rows")
    return grad


def _own_layout(name: str, x: Tensor) -> Tensor:
    """The gradient in memory laid out as the parameter's, so that it is the same on all ranks."""
    if x.grad is None:
        x.grad = torch.zeros_like(x)
    elif _dense(name, x.grad).stride() != x.stride() or not is_dense(x.grad):
        x.grad = torch.empty_like(x).copy_(x.grad)
    return x.grad


def _buckets(named: list[tuple[str, Tensor]], limit: int) -> list[_Bucket]:
    """In the order in which a backward pass is done with them: the reverse of the parameters'."""
    made: list[_Bucket] = []
    small: dict[torch.dtype, list[tuple[str, Tensor]]] = {}
    sizes: dict[torch.dtype, int] = {}
    for name, x in reversed(named):
        size = x.numel() * x.element_size()
        if size >= limit // 4 and is_dense(x):
            made.append(_Bucket([(name, x)]))
            continue
        small.setdefault(x.dtype, []).append((name, x))
        sizes[x.dtype] = sizes.get(x.dtype, 0) + size
        if sizes[x.dtype] >= limit:
            made.append(_Bucket(small.pop(x.dtype)))
            sizes[x.dtype] = 0
    return made + [_Bucket(rest) for rest in small.values()]


class DistributedOptimizer(torch.optim.Optimizer):
    """Wraps any optimizer of PyTorch: before it steps, gradients are averaged over all ranks, so that all keep the same
    model, which is that of one process on the joined batch.

        optimizer = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model)

    Gradients are exchanged as soon as the backward pass has made them; small ones together. `step` waits for the rest
    and runs the optimizer. Everything else (param_groups, state_dict, schedulers) is the optimizer's.

    module: names the parameters in errors, and its buffers (the statistics of batch normalisation) are averaged at
    every step too. average=False: sums. bucket_bytes: how much small gradients wait for each other. overlap: exchange
    by a thread beside the backward pass, or in the pass itself; unless given, by a thread where it finds a core that
    PyTorch leaves to it.

    Collective: all ranks make it, with the same parameters, and begin with the values of rank 0. One backward pass, one
    step; `no_sync` is for more.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        module: torch.nn.Module | None = None,
        average: bool = True,
        bucket_bytes: int = 4 << 20,
        overlap: bool | None = None,
        session: Session | None = None,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, DistributedOptimizer):
            raise InvalidArgument(f"[{WHERE}] expected an optimizer of PyTorch; received {type(optimizer).__name__}")
        if module is not None and not isinstance(module, torch.nn.Module):
            raise InvalidArgument(f"[{WHERE}] module: expected a torch.nn.Module; received {type(module).__name__}")
        check_count(bucket_bytes, "bucket_bytes", WHERE)
        self.optimizer = optimizer
        self.session = all_workers(session, WHERE)
        self._named = _named(optimizer, module)
        buffers = list(module.named_buffers()) if module is not None else []
        agree(self.session, WHERE, [type(optimizer).__name__, str(average), *describe([*self._named, *buffers])])
        for _, x in [*self._named, *buffers]:
            broadcast(self.session, x)
        self._trained = [(name, x) for name, x in self._named if x.requires_grad]
        self._operation = "mean" if average else "sum"
        self._paused = False
        self._exchanged = False
        self._alone = self.session.size == 1
        keep_freed_memory()
        if self._alone:
            return
        if overlap is None:
            overlap = len(os.sched_getaffinity(0)) > torch.get_num_threads()
        kinds = {x.dtype for _, x in floating(buffers) if x.dtype not in HALF and x.device.type == "cpu"}
        self._statistics = [
            Flat([(n, x) for n, x in buffers if x.dtype == kind], kind) for kind in sorted(kinds, key=str)
        ]
        self._buckets = _buckets(self._trained, bucket_bytes)
        self._bucket_of = {x: bucket for bucket in self._buckets for _, x in bucket.named}
        self._name_of = {x: name for name, x in self._trained}
        self._seen: set[Tensor] = set()
        self._next = 0
        self._ending = False
        self._helper = ThreadPoolExecutor(1, "pleiad-gradients") if overlap else None
        self._under_way: list[Future[None]] = []
        # The parameters do not keep the optimizer: where it is dropped, they train without it again.
        weak = weakref.WeakMethod(self._made)

        def made(x: Tensor) -> None:
            if (method := weak()) is not None:
                method(x)

        for _, x in self._trained:
            x.register_post_accumulate_grad_hook(made)  # type: ignore[no-untyped-call]

    # What is the optimizer's own.

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        return self.optimizer.defaults

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise InvalidArgument(f"[{WHERE}.add_param_group] add parameters to the optimizer before it is wrapped")

    def __repr__(self) -> str:
        return f"DistributedOptimizer of {self.session.size} ranks: {self.optimizer!r}"

    # The exchange.

    def zero_grad(self, set_to_none: bool = True) -> None:
        if not self._alone and self._seen and not self._exchanged:
            self.synchronize()  # what has been sent has been sent
        self._exchanged = False
        self.optimizer.zero_grad(set_to_none)

    def synchronize(self) -> None:
        """Completes the exchange, so that `.grad` is the average on return: to clip it before `step`."""
        if self._alone or self._exchanged:
            return
        self._check()
        for bucket in self._buckets[self._next :]:
            self._send(bucket)
        self._end_pass()
        used = torch.tensor([x in self._seen for _, x in self._trained], dtype=torch.int32)
        self.session.all_reduce(used)
        for (_, x), ranks in zip(self._trained, used.tolist(), strict=True):
            if ranks == 0:
                x.grad = None
        for statistics in self._statistics:
            statistics.check(WHERE)
            self.session.all_reduce(statistics.buffer, "mean")
        for bucket in self._buckets:
            bucket.missing = len(bucket.named)
        self._seen.clear()
        self._next = 0
        self._exchanged = True

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here only accumulate; the first one after it exchanges the sum."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            self.synchronize()
            self._exchanged = False
            return self.optimizer.step()

        def exchanged() -> Any:
            self._exchanged = False
            loss = closure()
            self.synchronize()
            return loss

        result = self.optimizer.step(exchanged)
        self._exchanged = False
        return result

    def _made(self, x: Tensor) -> None:
        """Called by the backward pass: the gradient of `x` is complete."""
        if self._paused:
            return
        if self._exchanged or x in self._seen:
            raise StateError(
                f"[{WHERE}] the gradient of {self._name_of[x]} was exchanged and a second backward pass adds to it; "
                f"call step() or zero_grad() between them, or use no_sync() for all but the last"
            )
        self._seen.add(x)
        self._bucket_of[x].missing -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            self._next += 1
            self._send(self._buckets[self._next - 1])

    def _send(self, bucket: _Bucket) -> None:
        if self._helper is None:
            self._exchange(bucket)
        else:
            self._under_way.append(self._helper.submit(self._exchange, bucket))
            if torch._C._current_graph_task_id() >= 0 and not self._ending:
                # The pass ends when what it has sent is back: then the caller's thread may call collectives again.
                self._ending = True
                torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)

    def _end_pass(self) -> None:
        self._ending = False
        under_way, self._under_way = self._under_way, []
        for sent in under_way:
            sent.result()  # each has the session's deadline

    def _exchange(self, bucket: _Bucket) -> None:
        self.session.all_reduce(bucket.line(), self._operation)
        bucket.give_back()

    def _check(self) -> None:
        now = [x for group in self.optimizer.param_groups for x in group["params"]]
        known = self._named
        if len(now) != len(known) or any(a is not b for a, (_, b) in zip(now, known, strict=True)):
            raise InvalidArgument(
                f"[{WHERE}] the optimizer had {len(known)} parameters when it was wrapped; it has {len(now)} now, or "
                f"others: add them before"
            )
        for name, x in known:
            if x.requires_grad != (x in self._bucket_of):
                raise InvalidArgument(f"[{WHERE}] requires_grad of {name} has changed since the optimizer was wrapped")
        for bucket in self._buckets:
            size = None if bucket.buffer is None else bucket.buffer.numel()
            if size is not None and size != sum(x.numel() for _, x in bucket.named):
                names = ", ".join(name for name, _ in bucket.named)
                raise InvalidArgument(f"[{WHERE}] a shape has changed since the optimizer was wrapped, of: {names}")


def _named(optimizer: torch.optim.Optimizer, module: torch.nn.Module | None) -> list[tuple[str, Tensor]]:
    names: dict[Tensor, str] = {x: name for name, x in module.named_parameters()} if module is not None else {}
    found: Iterable[Tensor] = (x for group in optimizer.param_groups for x in group["params"])
    named = [(names.get(x, f"parameter {i}"), x) for i, x in enumerate(found)]
    if not any(x.requires_grad for _, x in named):
        raise InvalidArgument(f"[{WHERE}] expected an optimizer with parameters to train; received one without")
    for name, x in named:
        if not x.is_floating_point():
            raise InvalidArgument(f"[{WHERE}] expected floating-point parameters; {name} is {x.dtype}")
    return named
