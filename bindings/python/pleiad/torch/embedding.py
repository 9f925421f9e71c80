"""An embedding whose rows live in a table."""

import weakref
from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

from pleiad.errors import InvalidArgument, StateError
from pleiad.options import Updater
from pleiad.sessions import Session
from pleiad.sparse import SparseTable
from pleiad.tables import MatrixTable
from pleiad.torch.rows import WHERE, BatchRows
from pleiad.worlds import agree, all_workers, check_clock, check_count, scaled

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


class Embedding(torch.nn.Module):
    """A torch.nn.Embedding whose rows live in a matrix table that all workers share. The forward pass fetches only the rows
    of the batch, and the table's `updater` applies their gradients.

        model = torch.nn.Sequential(pleiad.torch.Embedding(1_000_000, 64, updater="adagrad"), net)
        optimizer = torch.optim.Adam(model.parameters())
        model(ids).mean().backward()
        optimizer.step()   # Adam for the net; the gradient of the rows goes to the table

    Its only parameter, `rows`, holds the gradients of the rows that backward passes have reached since the last step, so
    zero_grad, clipping and GradScaler handle them like all other gradients. The step of the optimizer that has this
    parameter adds the gradients to the table, at the learning rate of the updater. Without such an optimizer, call `step`.
    The values of the parameter are zeros; `weight()` returns the real ones. A DistributedOptimizer that has the parameter,
    or whose module contains the embedding, averages the gradients over all ranks before they are clipped or unscaled. An
    embedding cannot be copied or pickled: create another one and load its `state_dict`.

    `state_dict` holds a copy of all rows as `weight`, as in torch.nn.Embedding. With clock "sync", all ranks must call it.
    All ranks call `load_state_dict`, which writes the rows of rank 0 into the table. The state of the updater, such as
    the sums of adagrad, is not saved.

    With num_embeddings=None the rows live in a sparse table: an id is any 64-bit number, such as a hash, and the first
    gradient of a row creates it. `state_dict` then holds the existing rows as `weight` and `ids`, all of them on each rank.

        words = pleiad.torch.Embedding(None, 64, updater=pleiad.Updater("adagrad", learning_rate=0.1))

    Args:
        num_embeddings: the number of rows, or None for a sparse table.
        embedding_dim: the number of elements of a row.
        padding_idx: this row is zero and never changes.
        sparse: arguments of `Session.sparse`, such as {"init": "uniform", "init_spread": 0.05, "max_rows": 10_000_000,
            "evict": True}. By default rows start as N(0, 1).
        updater: the update rule of the table.
        init: a tensor or array, or a function of a NumPy shape, of which only that of rank 0 is used. By default values of
            N(0, 1), as in PyTorch.
        clock: "async", or "sync", with which every forward pass sees the steps of all workers. All ranks must then make the
            same number of forward passes and steps.
        average: whether to divide the gradients by the number of workers. By default True with clock "sync".
        name: the name of the table.
        session: the session of the table; by default the current one.
    """

    def __init__(
        self,
        num_embeddings: int | None,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        sparse: Mapping[str, Any] | None = None,
        updater: "str | Mapping[str, Any] | Updater" = "sgd",
        init: Any = None,
        clock: str = "async",
        average: bool | None = None,
        name: str = "embedding",
        session: Session | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        if num_embeddings is not None:
            check_count(num_embeddings, "num_embeddings", WHERE)
            if sparse is not None:
                raise InvalidArgument(f"[{WHERE}] sparse needs num_embeddings=None; received {num_embeddings}")
        elif init is not None:
            raise InvalidArgument(
                f'[{WHERE}] init: expected None with num_embeddings=None; pass sparse={{"init": ...}}'
            )
        self.embedding_dim = check_count(embedding_dim, "embedding_dim", WHERE)
        check_clock(clock, WHERE)
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgument(
                    f"[{WHERE}] padding_idx: expected a row of the {num_embeddings}; received {padding_idx}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        found = self._session = all_workers(session, WHERE)
        average = clock == "sync" if average is None else average
        rule = scaled(updater, 1 / found.workers if average else 1.0, WHERE)
        rounds = clock == "sync" and found.workers > 1
        values, problem = None, None
        if found.rank == 0 and num_embeddings is not None:
            try:
                values = self._first_values(init)
            except InvalidArgument as refused:  # raised below on all ranks, so that none waits for the table
                problem = refused
        words = [f"{num_embeddings} x {embedding_dim}", f"padding_idx {padding_idx}", clock, repr(rule), repr(sparse)]
        agree(found, WHERE, [*words, "good first values" if problem is None else str(problem)])
        if problem is not None:
            raise problem
        shared: dict[str, Any] = {"dtype": "float32", "name": name, "clock": clock, "updater": rule}
        shared["apply"] = "round" if rounds else "each"
        self.table: MatrixTable | SparseTable
        if num_embeddings is None:
            # All ranks use one seed, so that a row's values do not depend on the rank that creates it.
            seed = int(found.broadcast(numpy.array([torch.initial_seed() % 2**63]))[0])
            rows: dict[str, Any] = {"init": "gaussian", "init_spread": 1.0, "seed": seed, **(sparse or {})}
            both = sorted(set(rows) & set(shared))
            if both:
                raise InvalidArgument(f"[{WHERE}] sparse: {both[0]} is an argument of the embedding itself")
            try:
                self.table = found.sparse(embedding_dim, **rows, **shared)
            except TypeError as wrong:
                raise InvalidArgument(f"[{WHERE}] sparse: {wrong}") from None
        else:
            self.table = found.matrix(num_embeddings, embedding_dim, values, **shared)
        self.batch = BatchRows(embedding_dim)
        self.rows = self.batch.parameter
        self.rows._pleiad_embedding = weakref.ref(self)  # type: ignore[attr-defined]
        self._stepped = False  # whether an optimizer has stepped since the last forward pass

    def forward(self, ids: Tensor) -> Tensor:
        """Fetches the rows of `ids` from the table. With clock "sync", all ranks must call it."""
        if not isinstance(ids, torch.Tensor) or ids.dtype not in INTEGERS:
            came = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise InvalidArgument(f"[{WHERE}.forward] expected a tensor of integers; received {came}")
        distinct, place = torch.unique(ids.long(), return_inverse=True)
        rows = torch.empty(distinct.numel(), self.embedding_dim)
        self.table.get(distinct.numpy(), rows)
        if self.num_embeddings is None and self.padding_idx is not None:
            rows[distinct == self.padding_idx] = 0  # a sparse table initialises the padding row like any other
        if torch.is_grad_enabled() and self.rows.requires_grad:
            self._stepped = False
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda leaf: self._keep(distinct, leaf)
            )
        return torch.nn.functional.embedding(place, rows)

    def step(self, *, learning_rate: float | None = None) -> None:
        """Adds the gradients of all backward passes since the last step to the table, in one add. `learning_rate`
        applies to this step only. Does nothing if an optimizer's step has already added them."""
        if self._stepped:
            if learning_rate is not None:
                raise StateError(
                    f"[{WHERE}.step] the optimizer that has the embedding's parameter already made the step; to pass a learning "
                    f"rate here, leave the parameter out of the optimizer"
                )
            return
        rows, grads = self.batch.take(self._session)
        self.table.add(grads, rows.numpy(), learning_rate=learning_rate)

    def _step_of_optimizer(self) -> None:
        self._stepped = False
        self.step()
        self._stepped = True

    def weight(self) -> Tensor:
        """Returns a copy of all rows, or of the existing rows of a sparse table in the order of their ids. With clock
        "sync", all ranks must call it."""
        return self._items()[1]

    def close(self) -> None:
        """Releases the table's memory on all ranks. Collective."""
        self.table.close()

    def _items(self) -> tuple[Tensor | None, Tensor]:
        if isinstance(self.table, MatrixTable):
            return None, torch.from_numpy(self.table.get())
        ids, rows = self.table.items()
        order = numpy.argsort(ids)
        return torch.from_numpy(ids[order]), torch.from_numpy(rows[order])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        ids, destination[prefix + "weight"] = self._items()
        if ids is not None:
            destination[prefix + "ids"] = ids

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        name = prefix + "weight"
        values, ids = state_dict.get(name), state_dict.get(prefix + "ids")
        count = self.num_embeddings
        if count is None:
            count = len(ids) if ids is not None and ids.ndim == 1 and ids.dtype == torch.int64 else -1
        shape = (count, self.embedding_dim)
        fits = values is not None and tuple(values.shape) == shape
        # All ranks learn which ranks have a wrong state, so that none waits for the table.
        refused = [rank for rank, good in enumerate(self._session.all_gather(numpy.array([int(fits)]))) if not good]
        if not refused:
            rows = values.detach().to("cpu", torch.float32).contiguous()
            first = self._session.rank == 0
            if isinstance(self.table, SparseTable):
                self.table.set(rows if first else None, rows=ids.cpu().numpy() if first else None)
            else:
                self.table.set(rows if first else None)
        elif values is None:
            missing_keys.extend([name] if strict else [])
        else:
            came = tuple(values.shape) if not fits else f"another shape on ranks {refused}"
            error_msgs.append(f"[{WHERE}] {name}: expected shape {shape} on all ranks; received {came}")
        own = (name, prefix + "ids") if self.num_embeddings is None else (name,)
        others = {key: value for key, value in state_dict.items() if key not in own}
        others[prefix + "rows"] = self.rows
        super()._load_from_state_dict(others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _apply(self, fn: Any, recurse: bool = True) -> "Embedding":
        return self  # rows and gradients stay float32 on the CPU when the model is moved or converted

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError(
            f"[{WHERE}] the rows live in the table {self.table.name!r} of all ranks, so the module cannot be copied or pickled; "
            f"create another Embedding and load the state_dict of this one"
        )

    def extra_repr(self) -> str:
        """Returns the arguments that `repr` of the module shows."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, table={self.table.name!r}"

    def _keep(self, ids: Tensor, leaf: Tensor) -> None:
        """Receives, from the backward pass, the gradient of the rows that one forward pass fetched."""
        assert leaf.grad is not None
        grad, leaf.grad = leaf.grad.detach(), None
        if self.padding_idx is not None:
            trained = ids != self.padding_idx
            ids, grad = ids[trained], grad[trained]
        self.batch.add(ids, grad)
        for optimizer in self.batch.listeners:
            optimizer._made_rows(self.batch)

    def _first_values(self, init: Any) -> Any:
        assert self.num_embeddings is not None
        shape = (self.num_embeddings, self.embedding_dim)
        if init is None:
            values = torch.randn(shape).numpy()
        else:
            given = init(shape) if callable(init) else init
            if isinstance(given, torch.Tensor):
                given = given.detach().numpy()
            values = numpy.array(given)
            if values.dtype != numpy.float32:
                raise InvalidArgument(f"[{WHERE}] init: expected float32; received {values.dtype}")
            if values.shape != shape:
                raise InvalidArgument(f"[{WHERE}] init: expected shape {shape}; received {values.shape}")
        if self.padding_idx is not None and init is None:
            values[self.padding_idx] = 0
        return values
