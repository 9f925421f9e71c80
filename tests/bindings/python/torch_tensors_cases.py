"""Sparse and complex gradients, assigned parameters and parameters without a gradient, on any number of ranks."""

import copy
import io

import torch
from cases import raises, run
from torch import nn
from torch_patterns_cases import DistributedOptimizer, ddp, equal_on_all, inputs, mlp, same_as_ddp, seeded, start

import pleiad
import pleiad.torch

ParameterManager = pleiad.torch.ParameterManager


class Words(nn.Module):
    def __init__(self, bag):
        super().__init__()
        self.words = nn.EmbeddingBag(20, 4, sparse=True, mode="sum") if bag else nn.Embedding(20, 4, sparse=True)
        self.out = nn.Linear(4, 2)

    def forward(self, ids):
        return self.out(self.words(ids))


def test_sparse_gradients_are_those_of_ddp():
    with start() as s:
        for bag in (False, True):
            for overlap in (False, True):
                model, peer = seeded(lambda bag=bag: Words(bag)), seeded(lambda bag=bag: Words(bag))
                ours = DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model, overlap=overlap)
                net, theirs = ddp(peer), torch.optim.SGD(peer.parameters(), 0.1)
                torch.manual_seed(50 + s.rank)
                for _ in range(4):
                    ids = torch.randint(0, 20, (3, 2 + s.rank))
                    for run_it, optimizer in ((model, ours), (net, theirs)):
                        optimizer.zero_grad()
                        (run_it(ids) ** 2).mean().backward()
                        assert (model if run_it is model else peer).words.weight.grad.is_sparse
                        optimizer.step()
                equal_on_all(s, model)
                same_as_ddp(s, model, peer)


class Wave(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.spectrum = nn.Parameter(torch.randn(count, dtype=torch.complex64))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.spectrum)


def test_complex_parameters():
    with start() as s:
        for bucket_bytes in (64, 4 << 20):  # in its own memory, and in a buffer
            model, serial = seeded(lambda: Wave(5), 3 + s.rank), seeded(lambda: Wave(5))
            ours = DistributedOptimizer(
                torch.optim.SGD(model.parameters(), 0.1), module=model, bucket_bytes=bucket_bytes, overlap=False
            )
            theirs = torch.optim.SGD(serial.parameters(), 0.1)
            torch.manual_seed(9)
            for _ in range(3):
                everyone = torch.randn(s.size * 4, 8)
                for net, optimizer, x in ((model, ours, everyone[s.rank :: s.size]), (serial, theirs, everyone)):
                    optimizer.zero_grad()
                    (net(x) ** 2).mean().backward()
                    optimizer.step()
            torch.testing.assert_close(model.spectrum, serial.spectrum, rtol=1e-5, atol=1e-6)
            parts = torch.view_as_real(model.spectrum.detach()).contiguous()
            assert (s.all_gather(parts) == parts.numpy()).all()


def filled(model, value):
    return {name: torch.full_like(x, value) for name, x in model.state_dict().items()}


def test_a_loaded_state_is_an_assignment():
    with start() as s:
        for mode, more in (("delta", {}), ("delta", {"average": True}), ("gradient", {"updater": "sgd"})):
            for ranks in (range(s.size), [0], [s.size - 1]):
                model = seeded(mlp, 3 + s.rank)
                manager = ParameterManager(model, mode=mode, clock="sync", **more)
                manager.sync()
                if s.rank in ranks:
                    model.load_state_dict(filled(model, 1.0))
                s.barrier()  # as other ranks see it at once if the table stores the parameters
                manager.sync()
                assert all((x == 1).all() for x in model.parameters()), (mode, more, list(ranks))
                if mode == "delta":
                    with torch.no_grad():
                        for x in model.parameters():
                            x += 0.5
                    manager.sync()
                    # Averages are exact if 1/workers is: otherwise it is rounded, and each worker's add rounds once more.
                    moved = 1 + 0.5 * (1 if more else s.size)
                    exact = not more or s.size & (s.size - 1) == 0
                    allowed = 0 if exact else (s.size + 1) * torch.finfo(torch.float32).eps / 2
                    assert all(((x - moved).abs() <= allowed).all() for x in model.parameters())
                    equal_on_all(s, model)
                s.barrier()
                if s.rank in ranks:
                    model[0].load_state_dict(filled(model[0], 2.0))  # a part of the module
                s.barrier()
                manager.finish()
                assert (model[0].weight == 2).all()
        model = seeded(mlp, 3 + s.rank)
        manager = ParameterManager(model)
        model.load_state_dict(filled(model, 1.0 + s.rank))
        if s.size > 1:
            with raises(pleiad.StateError, "assign", "loaded"):
                manager.sync()
        s.barrier()
        manager.assign(s.size - 1)
        assert all((x == s.size).all() for x in model.parameters())
        manager.sync()
        manager.finish()
        assert all((x == s.size).all() for x in model.parameters())
        # A managed module can be copied and saved as a whole.
        copy.deepcopy(model).load_state_dict(filled(model, 7.0))
        torch.save(model, io.BytesIO())
        manager.sync()
        s.barrier()


def test_a_parameter_without_a_gradient_is_not_moved():
    """As in a PyTorch optimizer, the state of such a parameter does not change either."""
    settings = {"momentum": 0.9, "weight_decay": 0.01}

    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.values = nn.Parameter(0.1 * torch.randn(5000, 8))

        def forward(self, x):
            return x + 0.1 * self.values[-1]

    def wide():  # larger than a block of the table, so that several workers have a part
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Shift(), nn.Linear(8, 3))

    with start() as s:
        made = [(clock, False, make) for clock in ("sync", "async") for make in (mlp, wide)]
        for clock, live, make in made + ([("async", True, mlp)] if s.hosts == 1 else []):
            updater = pleiad.Updater(
                "momentum", learning_rate=0.1, scale=1 / s.size if clock == "async" else 1, **settings
            )
            model, serial = seeded(make), seeded(make)
            manager = ParameterManager(model, mode="gradient", clock=clock, live=live, updater=updater)
            theirs = torch.optim.SGD(serial.parameters(), 0.1, **settings)
            everyone = [inputs(rank, 4) for rank in range(s.size)]
            for step in range(4):
                model.zero_grad()
                theirs.zero_grad()
                before = [p.detach().clone() for p in model.parameters()]
                frozen = step in (1, 2)  # the first layer has momentum and no gradient
                model[0].requires_grad_(not frozen)
                serial[0].requires_grad_(not frozen)
                # With "sync", the second layer has a gradient on the last rank only for a while. With "async", one rank
                # trains at a time, so that the order of the steps is known.
                if s.rank == s.size - 1 or (clock == "sync" and not frozen):
                    (model(everyone[s.rank][step]) ** 2).sum().backward()
                ranks = [s.size - 1] if frozen or clock == "async" else range(s.size)
                (sum((serial(everyone[rank][step]) ** 2).sum() for rank in ranks) / s.size).backward()
                theirs.step()
                s.barrier()
                manager.sync()
                s.barrier()
                if clock == "async":
                    manager.pull()
                moved = [not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True)]
                assert moved == [not frozen] * 2 + [True] * (len(moved) - 2), (clock, live, step, moved)
                s.barrier()
            manager.finish()
            equal_on_all(s, model)
            for x, y in zip(model.parameters(), serial.parameters(), strict=True):
                torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)
            manager.close()


def test_statistics_of_half_precision_follow_the_average():
    with start() as s:
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).bfloat16()
        for mode, more in (("delta", {}), ("gradient", {"updater": "sgd"})):
            manager = ParameterManager(model, mode=mode, clock="sync", dtype=torch.float32, **more)
            model(torch.full((4, 6), float(s.rank)).bfloat16() + torch.randn(4, 6).bfloat16()).sum().backward()
            manager.sync()
            mean = model[1].running_mean.float()
            assert (s.all_gather(mean) == mean.numpy()).all() and (mean != 0).any()
            manager.finish()
            manager.close()


if __name__ == "__main__":
    run(globals())
