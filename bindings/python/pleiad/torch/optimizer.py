"""An optimizer wrapper that averages gradients over all ranks during the backward pass."""

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pleiad import drift
from pleiad.errors import InvalidArgument, StateError
from pleiad.sessions import Session
from pleiad.torch.buckets import WHERE, Bucket, Helper, make_buckets
from pleiad.torch.flat import HALF, Flat, describe, floating
from pleiad.torch.memory import keep_freed_memory
from pleiad.torch.rows import BatchRows, plain_parameters, rows_of
from pleiad.torch.start import broadcast, broadcast_optimizer_state, fingerprint
from pleiad.torch.wrapper import OptimizerWrapper
from pleiad.worlds import agree, all_workers, check_count

_made_for: "weakref.WeakKeyDictionary[Session, int]" = weakref.WeakKeyDictionary()


class DistributedOptimizer(OptimizerWrapper):
    """Wraps any PyTorch optimizer and averages the gradients over all ranks before each step. All ranks keep the same model,
    equal to that of one process on the joined batch.

        optimizer = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model)

    Gradients are exchanged during the backward pass. When `backward()` returns, every `.grad` is the average, so it can be
    clipped or unscaled as in a single process. Several backward passes may precede a step, as with DDP. `step` also
    exchanges gradients that no backward pass has exchanged: those set by hand and those made inside `no_sync`. Everything
    else (param_groups, state_dict, schedulers) is that of the wrapped optimizer.

    All ranks create it with the same parameters (collective). They start with the values and the optimizer state of rank 0.

    Args:
        optimizer: the optimizer to wrap.
        module: if given, the whole state of the module, including buffers and parameters outside the optimizer, starts with
            the values of rank 0; error messages use its parameter names; and every step averages its floating-point
            buffers, such as batch normalisation statistics.
        average: if False, gradients are summed. Change them only in place then.
        accumulate: only every k-th backward pass exchanges gradients.
        bucket_bytes: small gradients are collected into buckets of this size before they are exchanged.
        overlap: whether a thread exchanges during the backward pass. By default it does if PyTorch leaves a core free.
        check_every: number of steps between checks that the parameters of all ranks are equal. A failed check raises a
            StateError that names the first parameter that differs. 0 disables it.
        session: the session to use; by default the current one.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        module: torch.nn.Module | None = None,
        average: bool = True,
        accumulate: int = 1,
        bucket_bytes: int = 4 << 20,
        overlap: bool | None = None,
        check_every: int = 500,
        session: Session | None = None,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, DistributedOptimizer):
            raise InvalidArgument(f"[{WHERE}] expected a PyTorch optimizer; received {type(optimizer).__name__}")
        if module is not None and not isinstance(module, torch.nn.Module):
            raise InvalidArgument(f"[{WHERE}] module: expected a torch.nn.Module; received {type(module).__name__}")
        check_count(bucket_bytes, "bucket_bytes", WHERE)
        check_count(accumulate, "accumulate", WHERE)
        if check_every != 0:
            check_count(check_every, "check_every", WHERE)
        self.optimizer = optimizer
        self.session = all_workers(session, WHERE)
        self._module = module
        self._average = average
        self._accumulate = accumulate
        self._bucket_bytes = bucket_bytes
        self._check_every = check_every
        self._paused = False
        self._steps = 0
        self._passes = 0
        self._alone = self.session.size == 1
        self.set_active(True, self.session.size)
        self._known: list[tuple[Tensor, bool]] = []
        self._hooked: set[int] = set()
        self._nodes: list[Any] = []  # keeps the autograd nodes alive; PyTorch would drop them with their hooks
        self._mark = object()  # marks every gradient that this wrapper has exchanged
        # All ranks create the wrappers of a session in the same order, so the n-th wrapper has number n everywhere. If a
        # backward pass reaches wrappers in different orders on different ranks, the tags differ and raise an OrderError.
        self._number = _made_for[self.session] = _made_for.get(self.session, 0) + 1
        # A later wrapper of the same optimizer replaces this one.
        optimizer._pleiad_wrapper = weakref.ref(self)  # type: ignore[attr-defined]
        named = self._take_parameters()
        buffers = list(module.named_buffers()) if module is not None else []
        state = [*named, *self._frozen(named), *buffers]
        settings = [type(optimizer).__name__, str(average), str(accumulate), f"{len(self.rows)} embeddings in tables"]
        agree(self.session, WHERE, [*settings, *describe(state)])
        for _, x in state:
            broadcast(self.session, x)
        broadcast_optimizer_state(self.session, optimizer, WHERE)
        keep_freed_memory()
        if self._alone:
            return
        if overlap is None:
            overlap = len(os.sched_getaffinity(0)) > torch.get_num_threads()
        self._helper = Helper(self.session, overlap)
        kinds = {torch.float32 if x.dtype in HALF else x.dtype for _, x in floating(buffers) if x.device.type == "cpu"}
        self._statistics = [
            Flat(
                [(n, x) for n, x in floating(buffers) if (torch.float32 if x.dtype in HALF else x.dtype) == kind], kind
            )
            for kind in sorted(kinds, key=str)
        ]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, which start with the values of rank 0. Collective."""
        self.optimizer.add_param_group(param_group)
        self._refresh()

    def __repr__(self) -> str:
        return f"DistributedOptimizer of {self.session.size} ranks: {self.optimizer!r}"

    # The exchange.

    def synchronize(self) -> None:
        """Exchanges the gradients that no backward pass has exchanged: those set by hand, made inside `no_sync`, or made by
        passes that `accumulate` skips. Collective. `step` calls it; call it earlier to read or clip such gradients."""
        if self._alone:
            return
        current = self.optimizer._pleiad_wrapper()  # type: ignore[attr-defined]
        if current is not self:
            raise StateError(f"[{WHERE}] the optimizer was wrapped again; use the new wrapper instead of this one")
        if self._any_rank(self._changed()):
            self._refresh()
        if self._any_rank(self._has_own_gradients()):
            self._unshare()
            self._exchange_all(self._buckets)

    def _any_rank(self, mine: bool) -> bool:
        flag = torch.tensor([int(mine)], dtype=torch.int32)
        self.session.all_reduce(flag, "max", self._number)
        return bool(flag.item())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside this context only accumulate; the next pass outside it, or `step`, exchanges the sum."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def set_active(self, active: bool, ranks: int) -> None:
        """Sets whether the batch of this rank counts, and the number of ranks whose batches count. `join` calls it."""
        self._active, self._active_ranks = active, ranks

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Exchanges gradients that are still local, makes the step of the wrapped optimizer, and averages the module's
        buffers. Returns the average loss of the closure, if there is one. Collective."""
        if closure is None:
            self.synchronize()
            result = self.optimizer.step()
        else:

            def exchanged() -> Any:
                loss = closure()
                self.synchronize()
                return self._mean(loss)

            result = self.optimizer.step(exchanged)
        self._passes = 0
        if not self._alone:
            for statistics in self._statistics:
                statistics.check(WHERE)
                statistics.gather()
                if not self._active:
                    statistics.buffer.zero_()
                self.session.all_reduce(statistics.buffer, "mean")
                if self._active_ranks != self.session.size:
                    statistics.buffer.mul_(self.session.size / self._active_ranks)
                statistics.scatter()
            self._steps += 1
            if self._check_every and self._steps % self._check_every == 0:
                self._compare()
        return result

    def _mean(self, loss: Any) -> Any:
        """Averages the loss of a closure over all ranks. A line search decides by it, so it must be equal everywhere."""
        if self._alone or loss is None:
            return loss
        mine = float(loss.detach() if isinstance(loss, Tensor) else loss) if self._active else 0.0
        value = torch.tensor([mine], dtype=torch.float64)
        self.session.all_reduce(value)
        value /= self._active_ranks
        return loss.detach().clone().fill_(value.item()) if isinstance(loss, Tensor) else value.item()

    def _has_own_gradients(self) -> bool:
        rows = any(rows.is_local() for rows in self.rows)
        return rows or any(x.grad is not None and not _is_marked(x, self._mark) for _, x in self._trained)

    def _made_rows(self, rows: BatchRows) -> None:
        """Runs in the backward pass when an embedding in a table has received gradients."""
        if self.optimizer._pleiad_wrapper() is not self or rows not in self.rows:  # type: ignore[attr-defined]
            return
        if self._pass != (task := torch._C._current_graph_task_id()):
            self._begin_pass(task)

    def _unshare(self) -> None:
        """With average=False: divides each exchanged gradient, a sum over all ranks, by the number of ranks. Further
        gradients can then be added and the total summed again."""
        for _, x in () if self._average else self._trained:
            if _is_marked(x, self._mark):
                x.grad.div_(self.session.size)  # type: ignore[union-attr]
                x.grad._pleiad_mark = None  # type: ignore[union-attr]

    def _before(self, x: Tensor) -> None:
        """With average=False: runs in the backward pass before it adds to the gradient of `x`."""
        if self.optimizer._pleiad_wrapper() is not self or id(x) not in self._bucket_of:  # type: ignore[attr-defined]
            return
        if self._pass != (task := torch._C._current_graph_task_id()):
            self._begin_pass(task)

    def _made(self, x: Tensor) -> None:
        """Runs in the backward pass when the gradient of `x` is complete."""
        if self.optimizer._pleiad_wrapper() is not self or id(x) not in self._bucket_of:  # type: ignore[attr-defined]
            return
        if self._pass != (task := torch._C._current_graph_task_id()):
            self._begin_pass(task)
        marked = _is_marked(x, self._mark)
        if marked and not self._average:
            raise StateError(
                f"[{WHERE}] the gradient of {self._name_of[id(x)]} was already summed over the ranks, and a backward pass added "
                f"to it unnoticed; wrap the optimizer after the last change of the parameter's dtype or device"
            )
        if self._local:
            if marked:
                x.grad._pleiad_mark = None  # type: ignore[union-attr]
            return
        if id(x) in self._seen:
            raise StateError(
                f"[{WHERE}] one backward pass made the gradient of {self._name_of[id(x)]} twice, as reentrant checkpointing "
                f"does; use no_sync() around it, or checkpoint(..., use_reentrant=False)"
            )
        self._seen.add(id(x))
        self._bucket_of[id(x)].missing -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            self._submit(self._buckets[self._next])
            self._next += 1

    def _begin_pass(self, task: int) -> None:
        """Starts the bookkeeping of a backward pass. The previous pass may not have ended: it may have raised, or it may
        surround a reentrant pass. The gradients that it submitted are exchanged, and the end of this pass exchanges all
        gradients again, which does not change averages."""
        self._helper.wait()
        self._unshare()
        self._pass = task
        self._passes += 1
        self._local = self._paused or self._passes % self._accumulate != 0
        self._seen.clear()
        self._next = 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.named)
        torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)

    def _end_pass(self) -> None:
        """Runs at the end of the backward pass. Every gradient is the average when it returns."""
        self._pass = -1
        if not self._local:
            self._exchange_all(self._buckets[self._next :])

    def _exchange_all(self, buckets: list[Bucket]) -> None:
        """Exchanges these buckets and waits until all are done. A gradient that no rank has stays None."""
        used = torch.tensor([x.grad is not None for _, x in self._trained], dtype=torch.int32)
        for bucket in buckets:
            self._submit(bucket)
        for rows in self.rows:
            self._helper.submit(lambda rows=rows: rows.exchange(self.session, self._average))  # type: ignore[misc]
        self._helper.submit(lambda: self.session.all_reduce(used, tag=self._number))
        self._helper.wait()
        for (_, x), ranks in zip(self._trained, used.tolist(), strict=True):
            if ranks == 0:
                x.grad = None
            else:
                x.grad._pleiad_mark = self._mark  # type: ignore[union-attr]

    def _submit(self, bucket: Bucket) -> None:
        op = "mean" if self._average else "sum"
        self._helper.submit(lambda: bucket.exchange(self.session, op, self._number))

    # The parameters.

    def _take_parameters(self) -> list[tuple[str, Tensor]]:
        """Reads the optimizer's parameters, makes their buckets and registers their hooks."""
        named = _named(self.optimizer, self._module)
        own = [x for group in self.optimizer.param_groups for x in group["params"]]
        self.rows = rows_of([*own, *(self._module.parameters() if self._module is not None else ())])
        self._known = [(x, x.requires_grad) for _, x in named]
        self._trained = [(name, x) for name, x in named if x.requires_grad]
        self._buckets = make_buckets(self._trained, self._bucket_bytes, self._sparse())
        self._bucket_of = {id(x): bucket for bucket in self._buckets for _, x in bucket.named}
        self._name_of = {id(x): name for name, x in self._trained}
        self._seen: set[int] = set()
        self._next = 0
        self._pass = -1  # autograd's number of the running backward pass
        self._local = False
        # Hooks hold weak references: after the optimizer is dropped, its parameters train without it.
        weak = weakref.WeakMethod(self._made)

        def made(x: Tensor) -> None:
            if (method := weak()) is not None:
                method(x)

        weak_before = weakref.WeakMethod(self._before)

        def before(x: Tensor) -> None:
            if (method := weak_before()) is not None:
                method(x)

        if not self._alone:
            for rows in self.rows:
                rows.listeners.add(self)
            for _, x in self._trained:
                if id(x) not in self._hooked:
                    x.register_post_accumulate_grad_hook(made)  # type: ignore[no-untyped-call]
                    self._hooked.add(id(x))
                    if not self._average:
                        self._nodes.append(_accumulator(x))
                        self._nodes[-1].register_prehook(lambda _, x=x: before(x))
        return named

    def _sparse(self) -> set[int]:
        """Returns the ids of the parameters of layers with sparse=True."""
        parts = self._module.modules() if self._module is not None else ()
        layers = (torch.nn.Embedding, torch.nn.EmbeddingBag)
        return {id(part.weight) for part in parts if isinstance(part, layers) and part.sparse}

    def _frozen(self, named: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
        """Returns the parameters of the module that the optimizer does not have."""
        if self._module is None:
            return []
        own = {id(x) for _, x in named}
        return [(name, x) for name, x in plain_parameters(self._module) if id(x) not in own]

    def _changed(self) -> bool:
        """Returns whether parameters were added, removed, frozen, unfrozen or resized since the last call."""
        now = _plain(self.optimizer)
        return (
            len(now) != len(self._known)
            or any(x is not known or x.requires_grad != was for x, (known, was) in zip(now, self._known, strict=True))
            or any(bucket.resized() for bucket in self._buckets)
        )

    def _refresh(self) -> None:
        """Reads the optimizer's current parameters; new ones start with the values of rank 0. Collective."""
        known = {id(x) for x, _ in self._known}
        named = _named(self.optimizer, self._module)
        agree(self.session, WHERE, describe([(f"{name}{' (frozen)' * (not x.requires_grad)}", x) for name, x in named]))
        self._take_parameters()
        for _, x in named:
            if id(x) not in known:
                broadcast(self.session, x)

    def _compare(self) -> None:
        """Raises on every rank if the parameters of the ranks differ. Collective."""
        named = _named(self.optimizer, self._module)
        named += self._frozen(named)
        drift.compare(self.session, [name for name, _ in named], [fingerprint(x) for _, x in named], self._steps, WHERE)


def _accumulator(x: Tensor) -> Any:
    """Returns the autograd node that accumulates the gradient of a parameter."""
    with torch.enable_grad():
        return x.view_as(x).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


def _is_marked(x: Tensor, mark: object) -> bool:
    return getattr(x.grad, "_pleiad_mark", None) is mark


def _plain(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Returns the optimizer's parameters, except those of embeddings in tables."""
    found = (x for group in optimizer.param_groups for x in group["params"])
    return [x for x in found if not hasattr(x, "_pleiad_embedding")]


def _named(optimizer: torch.optim.Optimizer, module: torch.nn.Module | None) -> list[tuple[str, Tensor]]:
    names: dict[Tensor, str] = {x: name for name, x in module.named_parameters()} if module is not None else {}
    named = [(names.get(x, f"parameter {i}"), x) for i, x in enumerate(_plain(optimizer))]
    if not any(x.requires_grad for _, x in named):
        raise InvalidArgument(f"[{WHERE}] expected an optimizer with trainable parameters; received one without")
    for name, x in named:
        if not x.is_floating_point() and not x.is_complex():
            raise InvalidArgument(f"[{WHERE}] expected floating-point or complex parameters; {name} is {x.dtype}")
    return named
