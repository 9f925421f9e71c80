"""Invalid calls of pleiad.torch raise an exception that names the received value, in a world of any size; and data
loaders.
"""

import os

import torch
from cases import raises, run
from torch import nn

import pleiad
import pleiad.torch

torch.set_num_threads(1)
Bad = pleiad.InvalidArgument
DistributedOptimizer, ParameterManager = pleiad.torch.DistributedOptimizer, pleiad.torch.ParameterManager


def start():
    return pleiad.init(timeout=600, log_level="off")


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def test_before_init():
    with raises(pleiad.StateError, r"pleiad\.init\(\)"):
        ParameterManager(nn.Linear(1, 1))
    with raises(pleiad.StateError, r"pleiad\.init\(\)"):
        DistributedOptimizer(sgd(nn.Linear(1, 1)))
    with raises(pleiad.StateError, r"pleiad\.init\(\)"):
        pleiad.torch.Embedding(3, 3)


def test_after_shutdown():
    with start():
        model = nn.Linear(2, 2)
        manager = ParameterManager(model)
        rows = pleiad.torch.Embedding(3, 3)
        manager.sync()
    assert model(torch.ones(1, 2)).isfinite().all()  # the parameters still exist
    with raises(pleiad.StateError, "shut ?down"):
        rows(torch.tensor([1]))
    with raises(pleiad.StateError, "shut ?down"):
        manager.finish()


def test_arguments():
    with start():
        model = nn.Linear(2, 2)
        for wrong in ("ssp", "bsp", ""):
            with raises(Bad, f'unknown clock "{wrong}"', "async, sync"):
                ParameterManager(model, clock=wrong)
            with raises(Bad, f'unknown clock "{wrong}"', "async, sync"):
                pleiad.torch.Embedding(3, 3, clock=wrong)
        with raises(Bad, 'unknown mode "gradients"', "delta, gradient"):
            ParameterManager(model, mode="gradients")
        with raises(Bad, "torch.nn.Module", "list"):
            ParameterManager(list(model.parameters()))
        with raises(Bad, "with parameters"):
            ParameterManager(nn.ReLU())
        with raises(Bad, "freq", "0"):
            ParameterManager(model, freq=0)
        with raises(Bad, "delta mode"):
            ParameterManager(model, updater="sgd")
        with raises(Bad, "needs an updater"):
            ParameterManager(model, mode="gradient")
        with raises(Bad, "loss would grow"):
            ParameterManager(model, mode="gradient", updater="sum")
        with raises(Bad, "live", "gradient", "delta"):
            ParameterManager(model, live=True)
        with raises(Bad, "live", "async", "sync"):
            ParameterManager(model, mode="gradient", clock="sync", live=True, updater="sgd")
        with raises(Bad, "sgdd", "sgd"):
            ParameterManager(model, mode="gradient", updater="sgdd")
        with raises(Bad, "PyTorch optimizer", "Linear"):
            DistributedOptimizer(model)
        with raises(Bad, "bucket_bytes", "0"):
            DistributedOptimizer(sgd(model), bucket_bytes=0)
        with raises(Bad, "trainable parameters"):
            DistributedOptimizer(sgd(nn.Linear(1, 1).requires_grad_(False)))
        with raises(Bad, "learning_rate: expected None in delta mode"):
            ParameterManager(model).sync(learning_rate=1.0)
        for sides in ((0, 3), (3, -1), (2.5, 3), (True, 3)):
            with raises(Bad, "at least 1"):
                pleiad.torch.Embedding(*sides)
        with raises(Bad, "padding_idx", "3"):
            pleiad.torch.Embedding(3, 3, padding_idx=3)


def test_element_types():
    with start():
        half = nn.Linear(2, 2).half()
        with raises(Bad, "weight is torch.float16", "dtype=torch.float32"):
            ParameterManager(half)
        with raises(Bad, "float32 or torch.float64", "float16"):
            ParameterManager(half, dtype=torch.float16)
        mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
        with raises(Bad, "one dtype"):
            ParameterManager(mixed)
        double = nn.Linear(2, 2).double()
        assert ParameterManager(double).table.dtype == "float64"


def test_a_model_that_changes():
    with start():
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        manager = ParameterManager(model)
        model[0].weight.data = torch.ones(2, 2)  # other memory of the same shape: copied back
        manager.sync()
        assert (torch.from_numpy(manager.table.get())[:4] == 1).all() or pleiad.session().size > 1
        manager.finish()
        model.append(nn.Linear(2, 2))
        with raises(Bad, "parameter 2.weight is new"):
            manager.sync()
        del model[2]
        manager.sync()
        weight = model[0].weight.data
        model[0].weight.data = torch.ones(3, 2)
        with raises(Bad, r"0\.weight", r"\(2, 2\)", r"\(3, 2\)"):
            manager.sync()
        model[0].weight.data = weight.double()
        with raises(Bad, "0.weight", "float32", "float64"):
            manager.finish()
        model[0].weight.data = weight
        del model[1]
        with raises(Bad, "4 parameters and now has 2"):
            manager.sync()


def test_an_optimizer_that_changes():
    with start() as s:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        optimizer = sgd(model)
        ours = DistributedOptimizer(optimizer, module=model)
        if s.size == 1:
            return  # without parameters there is nothing to exchange
        model[0].weight.requires_grad_(s.rank != 0)
        model(torch.ones(1, 2)).sum().backward()
        with raises(Bad, "same model", r"rank 0 has 0\.weight \(frozen\)", "rank 1 has"):
            ours.step()
        model[0].weight.requires_grad_()
        ours.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        ours.step()


def test_sparse_gradients():
    with start() as s:
        rows = nn.Embedding(5, 2, sparse=True)
        manager = ParameterManager(rows, mode="gradient", updater="sgd")
        rows(torch.tensor([1])).sum().backward()
        with raises(Bad, "weight is sparse", "pleiad.torch.Embedding"):
            manager.sync()
        if s.size > 1:
            rows.zero_grad()
            ours = DistributedOptimizer(sgd(rows), overlap=False)
            with raises(Bad, "is sparse", "pass module="):
                rows(torch.tensor([1])).sum().backward()
            del ours  # the optimizer must live as long as its hooks are needed


def test_ids_of_an_embedding():
    with start():
        rows = pleiad.torch.Embedding(5, 2)
        for wrong in ([1, 2], torch.tensor([1.0]), torch.tensor([True])):
            with raises(Bad, "tensor of integers"):
                rows(wrong)
        for wrong in (-1, 5, 2**40):
            with raises(Bad, "rows 0 to 4", str(wrong)):
                rows(torch.tensor([0, wrong]))
        with raises(Bad, "init", r"\(5, 2\)", r"\(2, 5\)"):
            pleiad.torch.Embedding(5, 2, init=torch.zeros(2, 5))
        with raises(Bad, "init", "float32", "float64"):
            pleiad.torch.Embedding(5, 2, init=torch.zeros(5, 2).double())


def test_different_models():
    with start() as s:
        if s.size == 1:
            return
        odd = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3 if s.rank == 1 else 2))
        with raises(Bad, "same model", r"rank 0 has 1\.weight \(2, 2\)", r"rank 1 has 1\.weight \(3, 2\)"):
            ParameterManager(odd)
        with raises(Bad, "same model", "rank 1 has"):
            DistributedOptimizer(sgd(odd), module=odd)
        model = nn.Linear(2, 2)
        with raises(Bad, "rank 0 has async, rank 1 has sync"):
            ParameterManager(model, clock="sync" if s.rank == 1 else "async")
        with raises(Bad, "rank 0 has 3 x 3, rank 1 has 4 x 3"):
            pleiad.torch.Embedding(4 if s.rank == 1 else 3, 3)
        assert ParameterManager(model).sync()  # the session is unchanged


def test_only_workers():
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        return
    with pleiad.init(role="server", log_level="off"), raises(Bad, "every rank to be a worker; 0 of the 1 ranks"):
        ParameterManager(nn.Linear(1, 1))


class Numbers(torch.utils.data.Dataset):
    """Reads a table in the loader's worker, which is not allowed."""

    table = None

    def __len__(self):
        return 12

    def __getitem__(self, index):
        problem = ""
        if Numbers.table is not None:  # a forked worker inherits the session, a spawned one does not
            try:
                Numbers.table.get()
            except pleiad.StateError as refused:
                problem = str(refused)
        try:
            pleiad.session().barrier()
        except pleiad.StateError as refused:
            problem = problem or str(refused)
        return float(index), problem


def test_data_loaders_with_workers():
    with start() as s:
        Numbers.table = s.array(3)
        model = nn.Linear(1, 1)
        manager = ParameterManager(model)
        for context in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(
                Numbers(), batch_size=4, num_workers=1, multiprocessing_context=context, timeout=600
            )
            seen = []
            for numbers, problems in loader:
                seen += numbers.tolist()
                assert all("fork" in text or "session" in text for text in problems), problems
                model(numbers.float().unsqueeze(1)).sum().backward()
                manager.sync()
            assert seen == list(range(12))
        Numbers.table = None
        manager.finish()


if __name__ == "__main__":
    run(globals())
