"""Buckets of gradients that are exchanged together, and the thread that exchanges them during the backward pass."""

import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.torch.flat import HALF, as_line, is_dense
from pleiad.torch.rows import gather_rows

WHERE = "DistributedOptimizer"


class Bucket:
    """Gradients that are exchanged together. One large gradient uses its own memory; small ones are copied to a buffer."""

    def __init__(self, named: list[tuple[str, Tensor]]) -> None:
        self.named = named
        first = named[0][1]
        dtype = torch.float32 if first.dtype in HALF else first.dtype
        in_place = len(named) == 1 and dtype == first.dtype and first.device.type == "cpu"
        self.buffer = None if in_place else torch.empty(sum(x.numel() for _, x in named), dtype=dtype)
        self.missing = len(named)

    def exchange(self, session: Session, op: str, tag: int = 0) -> None:
        """Reduces the gradients over all ranks, which must pass the same tag. Collective."""
        session.all_reduce(_as_real(self._line()), op, tag)
        self._give_back()

    def _line(self) -> Tensor:
        """Returns the gradients as one flat tensor. A gradient that this rank does not have counts as zero."""
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

    def resized(self) -> bool:
        """Returns whether a parameter's number of elements has changed since the bucket was made."""
        return self.buffer is not None and self.buffer.numel() != sum(x.numel() for _, x in self.named)

    def _give_back(self) -> None:
        """Copies the exchanged values from the buffer into the gradients."""
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


class SparseBucket(Bucket):
    """The gradient of an embedding with sparse=True. Each rank contributes the rows that it has, and every rank receives the
    rows of all."""

    def __init__(self, named: tuple[str, Tensor]) -> None:
        super().__init__([named])
        self.buffer = None

    def exchange(self, session: Session, op: str, tag: int = 0) -> None:
        name, x = self.named[0]
        with torch.no_grad():
            grad = torch.zeros_like(x).to_sparse(1) if x.grad is None else x.grad
            if grad.layout != torch.sparse_coo or grad.sparse_dim() != 1:
                grad = grad.to_dense().to_sparse(1)
            grad = grad.coalesce()
            kind = torch.float32 if x.dtype in HALF else x.dtype
            values = grad.values().cpu().to(kind)
            index, value = gather_rows(session, grad.indices()[0].cpu(), _pairs(values))
            if kind.is_complex:
                value = torch.view_as_complex(value)
            value = (value / session.size if op == "mean" else value).to(x.dtype)
            made = torch.sparse_coo_tensor(index[None], value, x.shape, device=x.device, check_invariants=False)
            x.grad = made.coalesce()


def _dense(name: str, grad: Tensor) -> Tensor:
    if grad.layout != torch.strided:
        raise InvalidArgument(
            f"[{WHERE}] the gradient of {name} is sparse; pass module= so that the layer with sparse=True is known"
        )
    return grad.resolve_conj() if grad.is_conj() else grad


def _as_real(line: Tensor) -> Tensor:
    """Views complex values as pairs of real ones, in the same memory."""
    return torch.view_as_real(line).view(-1) if line.is_complex() else line


def _pairs(x: Tensor) -> Tensor:
    """Views complex values as real ones with an additional last axis."""
    return torch.view_as_real(x) if x.is_complex() else x


def _own_layout(name: str, x: Tensor) -> Tensor:
    """Returns the gradient with the strides of the parameter, so that the element order is the same on all ranks."""
    if x.grad is None:
        x.grad = torch.zeros_like(x)
    elif _dense(name, x.grad) is not x.grad or x.grad.stride() != x.stride() or not is_dense(x.grad):
        x.grad = torch.empty_like(x).copy_(x.grad)
    return x.grad


def make_buckets(named: list[tuple[str, Tensor]], limit: int, sparse: set[int]) -> list[Bucket]:
    """Groups parameters into buckets in the order in which a backward pass completes them: the reverse of their own.
    `sparse` holds the ids of the parameters with sparse gradients."""
    made: list[Bucket] = []
    small: dict[torch.dtype, list[tuple[str, Tensor]]] = {}
    sizes: dict[torch.dtype, int] = {}
    for name, x in reversed(named):
        size = x.numel() * x.element_size()
        if id(x) in sparse:
            made.append(SparseBucket((name, x)))
            continue
        if size >= limit // 4 and is_dense(x):
            made.append(Bucket([(name, x)]))
            continue
        small.setdefault(x.dtype, []).append((name, x))
        sizes[x.dtype] = sizes.get(x.dtype, 0) + size
        if sizes[x.dtype] >= limit:
            made.append(Bucket(small.pop(x.dtype)))
            sizes[x.dtype] = 0
    return made + [Bucket(rest) for rest in small.values()]


class Helper:
    """Runs the exchanges of one session in the order of submission, either on a thread during the backward pass or
    synchronously in the caller. All optimizers of a session share the thread, because collectives of one session must not
    overlap."""

    NAME = "pleiad-gradients"
    _of_session: "weakref.WeakKeyDictionary[Session, ThreadPoolExecutor]" = weakref.WeakKeyDictionary()

    def __init__(self, session: Session, overlap: bool) -> None:
        self.thread: ThreadPoolExecutor | None = None
        if overlap:
            self.thread = self._of_session.get(session)
            if self.thread is None:
                self.thread = ThreadPoolExecutor(1, self.NAME)
                self._of_session[session] = self.thread
        self._under_way: list[Future[object]] = []

    def submit(self, exchange: Callable[[], object]) -> None:
        if self.thread is None:
            exchange()
        else:
            self._under_way.append(self.thread.submit(exchange))

    def wait(self) -> None:
        """Waits for all submitted exchanges, each within the session's deadline, and raises the first error."""
        under_way, self._under_way = self._under_way, []
        errors = [error for future in under_way if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
