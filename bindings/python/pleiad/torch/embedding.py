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
    """As torch.nn.Embedding, but the rows live in a matrix table that all workers share, and only those of the batch are
    fetched. Its gradient goes back by rows to the table, whose `updater` makes the step.

        model = torch.nn.Sequential(pleiad.torch.Embedding(1_000_000, 64, updater="adagrad"), net)
        optimizer = torch.optim.Adam(model.parameters())
        model(ids).mean().backward()
        optimizer.step()   # Adam for the net; the gradient of the rows goes to the table

    Its one parameter, `rows`, has the gradients of the rows that backward passes have reached since the last step, so
    zero_grad, clipping and GradScaler treat them as all others. The optimizer that has this parameter hands them to the
    table in its step, at the learning rate of the updater; without such an optimizer, call `step`. The values of the
    parameter are zeros: read `weight()`. With a DistributedOptimizer that has the parameter or whose module has the
    embedding, the gradients of all ranks are averaged before they are clipped or unscaled, as those of other parameters.
    An embedding cannot be copied or pickled: create another one and load its `state_dict`.

    `state_dict` has a copy of all rows as `weight`, as that of torch.nn.Embedding, and `load_state_dict` puts those of
    rank 0 into the table: all ranks call it, and with clock "sync" all ask for `state_dict`. What the updater keeps
    (the sums of adagrad) is not in it.

    With num_embeddings None the rows live in a sparse table: ids are any 64 bits, hashes too, and a row is made by its
    first gradient. `sparse` has the arguments of `Session.sparse`: {"init": "uniform", "init_spread": 0.05, "max_rows":
    10_000_000, "evict": True}; unless given, rows start as N(0, 1). `state_dict` then has the rows that are there as
    `weight` and `ids`, each rank all of them.

        words = pleiad.torch.Embedding(None, 64, updater=pleiad.Updater("adagrad", learning_rate=0.1))

    padding_idx: this row is zero and stays as it is. init: a tensor or array, or a function of a NumPy shape; unless
    given, values of N(0, 1), as in PyTorch. Only that of rank 0 counts. clock: "async", or "sync": every forward pass
    sees the steps of all workers; then all ranks make the same number of forward passes and steps. average: divide the
    gradients by the number of workers; unless given, with clock "sync".
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
                raise InvalidArgument(f"[{WHERE}] sparse is for num_embeddings None; received {num_embeddings}")
        elif init is not None:
            raise InvalidArgument(f'[{WHERE}] init: rows of a sparse table start as sparse={{"init": ...}} says')
        self.embedding_dim = check_count(embedding_dim, "embedding_dim", WHERE)
        check_clock(clock, WHERE)
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgument(
                    f"[{WHERE}] padding_idx: expected a row of {num_embeddings}; received {padding_idx}"
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
            except InvalidArgument as refused:  # the others must not wait for the table
                problem = refused
        words = [f"{num_embeddings} x {embedding_dim}", f"padding_idx {padding_idx}", clock, repr(rule), repr(sparse)]
        agree(found, WHERE, [*words, "good first values" if problem is None else str(problem)])
        if problem is not None:
            raise problem
        shared: dict[str, Any] = {"dtype": "float32", "name": name, "clock": clock, "updater": rule}
        shared["apply"] = "round" if rounds else "each"
        self.table: MatrixTable | SparseTable
        if num_embeddings is None:
            # One seed for all: rows do not depend on who makes them.
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
        self._stepped = False  # whether an optimizer has made the step since the last forward pass

    def forward(self, ids: Tensor) -> Tensor:
        if not isinstance(ids, torch.Tensor) or ids.dtype not in INTEGERS:
            came = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise InvalidArgument(f"[{WHERE}.forward] expected a tensor of integers; received {came}")
        distinct, place = torch.unique(ids.long(), return_inverse=True)
        rows = torch.empty(distinct.numel(), self.embedding_dim)
        self.table.get(distinct.numpy(), rows)
        if self.num_embeddings is None and self.padding_idx is not None:
            rows[distinct == self.padding_idx] = 0  # a sparse table makes it as any other
        if torch.is_grad_enabled() and self.rows.requires_grad:
            self._stepped = False
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda leaf: self._keep(distinct, leaf)
            )
        return torch.nn.functional.embedding(place, rows)

    def step(self, *, learning_rate: float | None = None) -> None:
        """Hands the gradients of the backward passes since the last step to the table, in one add. A learning rate
        given here counts for this step alone. Does nothing if an optimizer's step has handed them in."""
        if self._stepped:
            if learning_rate is not None:
                raise StateError(
                    f"[{WHERE}.step] an optimizer that has the parameter of the embedding has made the step; to give a learning "
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
        """A copy of all rows; of a sparse table, those that are there, in the order of their ids. With clock "sync", all
        ranks ask for it."""
        return self._items()[1]

    def close(self) -> None:
        """Collective: releases the table's memory on all ranks now."""
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
        # What is wrong at one rank is known to all, so that none waits for the table.
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
            came = tuple(values.shape) if not fits else f"others at ranks {refused}"
            error_msgs.append(f"[{WHERE}] {name}: expected shape {shape} at all ranks; received {came}")
        own = (name, prefix + "ids") if self.num_embeddings is None else (name,)
        others = {key: value for key, value in state_dict.items() if key not in own}
        others[prefix + "rows"] = self.rows
        super()._load_from_state_dict(others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _apply(self, fn: Any, recurse: bool = True) -> "Embedding":
        return self  # rows and gradients are float32 on the CPU, wherever the model is moved

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError(
            f"[{WHERE}] the rows live in the table {self.table.name!r} of all ranks, so the module cannot be copied or pickled; "
            f"create another Embedding and load the state_dict of this one"
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, table={self.table.name!r}"

    def _keep(self, ids: Tensor, leaf: Tensor) -> None:
        """Called by the backward pass with the gradient of the rows that one forward pass has fetched."""
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
