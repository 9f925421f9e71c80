"""Other parts of a training loop than the model and the optimizer: embeddings in tables, data of each rank and uneven
numbers of batches, on any number of ranks.
"""

import contextlib
import copy

import torch
from cases import raises, run
from torch import nn
from torch.distributed.algorithms.join import Join
from torch_patterns_cases import (
    DistributedOptimizer,
    ddp,
    equal_on_all,
    inputs,
    mlp,
    same_as_ddp,
    seeded,
    start,
    wrapped,
)

import pleiad
import pleiad.torch

RATE = 0.5


def words(s, name, init, **options):
    rule = pleiad.Updater("sgd", learning_rate=RATE)
    return pleiad.torch.Embedding(30, 4, 2, updater=rule, clock="sync", init=init, name=name, **options)


def ids_of(rank, steps):
    generator = torch.Generator().manual_seed(rank)
    return [torch.randint(0, 12, (5, 3), generator=generator) for _ in range(steps)]


def heads(s, name):
    """The same model with its rows in a table and with rows of its own."""
    plain = seeded(lambda: nn.Sequential(nn.Embedding(30, 4, 2), nn.Flatten(), nn.Linear(12, 3)))
    ours = nn.Sequential(words(s, name, plain[0].weight), nn.Flatten(), copy.deepcopy(plain[2]))
    return ours, plain


def same_rows(s, ours, plain):
    equal_on_all(s, ours[2])
    s.barrier()
    torch.testing.assert_close(ours[0].weight(), plain[0].weight.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours[2].weight, plain[2].weight, rtol=1e-6, atol=1e-6)
    s.barrier()


def test_an_embedding_in_a_table_is_clipped_unscaled_and_discarded():
    with start() as s:
        ours, plain = heads(s, "clipped")
        optimizer = DistributedOptimizer(torch.optim.SGD(ours.parameters(), RATE), module=ours)
        net, theirs = ddp(plain), torch.optim.SGD(plain.parameters(), RATE)
        for model, run_it, opt in ((ours, ours, optimizer), (plain, net, theirs)):
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for i, ids in enumerate(ids_of(s.rank, 10)):
                loss = (run_it(ids) ** 2).sum()
                if i == 7 and s.rank == 0:  # an overflow on one rank: all ranks skip the step
                    loss = loss * float("inf")
                scaler.scale(loss).backward()
                if i % 4 == 0:  # a discarded batch, in each way to discard one
                    model.zero_grad(set_to_none=i % 8 == 0)
                    continue
                if i % 4 == 1:  # accumulated with the next batch
                    continue
                scaler.unscale_(opt)
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                assert norm > 0.5 or i == 7
                scaler.step(opt)
                scaler.update()
                opt.zero_grad()
        same_rows(s, ours, plain)


def test_an_embedding_in_a_table_is_stepped_by_an_optimizer_or_by_hand():
    with start() as s:
        joined = [torch.cat(x) for x in zip(*(ids_of(rank, 4) for rank in range(s.size)), strict=True)]
        for way in ("optimizer", "closure", "both", "by hand"):
            ours, plain = heads(s, way)
            own = ours[2].parameters() if way == "by hand" else ours.parameters()
            optimizer = DistributedOptimizer(torch.optim.SGD(own, RATE), module=ours)
            theirs = torch.optim.SGD(plain.parameters(), RATE)
            for ids, everyone in zip(ids_of(s.rank, 4), joined, strict=True):

                def closure(ids=ids, ours=ours, optimizer=optimizer):
                    ours.zero_grad()
                    loss = (ours(ids) ** 2).mean() + (ours(ids + 1) ** 2).mean()
                    loss.backward()
                    return loss

                if way == "closure":
                    optimizer.step(closure)
                else:
                    closure()
                    optimizer.step()
                if way in ("both", "by hand"):
                    ours[0].step()
                theirs.zero_grad()
                ((plain(everyone) ** 2).mean() + (plain(everyone + 1) ** 2).mean()).backward()
                theirs.step()
            same_rows(s, ours, plain)


def test_what_an_embedding_in_a_table_refuses():
    with start() as s:
        ours, _ = heads(s, "refused")
        for call in (copy.deepcopy, copy.copy):
            with raises(pleiad.StateError, "table 'refused'", "state_dict"):
                call(ours[0])
        with raises(pleiad.StateError, "penalties"):
            sum(x.sum() for x in ours.parameters()).backward()
        ours.zero_grad()
        ids = torch.tensor([[1, 2, 3]])
        with raises(pleiad.InvalidArgument, "LBFGS"):
            torch.optim.LBFGS(ours.parameters()).step(lambda: ours(ids).sum())
        ours(ids).sum().backward()
        assert ours[0].rows.grad.shape == (2, 4)  # without the padding
        torch.optim.SGD(ours.parameters(), RATE).step()
        assert ours[0].rows.grad is None
        with raises(pleiad.StateError, "already made the step", "leave the parameter out"):
            ours[0].step(learning_rate=0.1)
        ours.requires_grad_(False)
        assert not ours(ids).requires_grad
        assert ours.bfloat16()[0].rows.dtype == torch.float32 and list(ours.state_dict()) == [
            "0.weight",
            "2.weight",
            "2.bias",
        ]
        s.barrier()


def indices(n):
    return torch.utils.data.TensorDataset(torch.arange(n))


def read(loader, batches=None):
    """The samples of an epoch, or of its first batches, on this rank."""
    found = []
    for i, (x,) in enumerate(loader):
        found += x.tolist()
        if i + 1 == batches:
            break
    return found


def test_a_sharded_loader_reads_each_sample_once():
    with start() as s:
        for n, uneven in ((12 * s.size, "repeat"), (23, "keep"), (23, "repeat"), (23, "drop")):
            given = torch.utils.data.DataLoader(indices(n), batch_size=4, shuffle=True, num_workers=int(n == 23))
            loader = pleiad.torch.shard(given, uneven=uneven)
            epochs = []
            for _ in range(2):
                parts = pleiad.all_gather_object(read(loader))
                together = sum(parts, [])
                if uneven == "drop":
                    assert len(set(together)) == len(together) == 23 // s.size * s.size
                elif uneven == "keep" or n % s.size == 0:
                    assert sorted(together) == list(range(n))
                else:
                    assert set(together) == set(range(n)) and len({len(part) for part in parts}) == 1
                assert len(loader) == -(-len(parts[s.rank]) // 4)
                epochs.append(together)
            assert epochs[0] != epochs[1]
        # Without shuffling, the order is that of DistributedSampler.
        theirs = torch.utils.data.DistributedSampler(indices(23), s.size, s.rank, shuffle=False)
        assert read(pleiad.torch.shard(indices(23), batch_size=4)) == list(theirs)


def test_a_sharded_loader_resumes_where_it_was_saved():
    with start() as s:
        n = 8 * s.size

        def make():
            return pleiad.torch.shard(indices(n), batch_size=2, shuffle=True, num_workers=1, seed=5)

        whole, first, second = make(), make(), make()
        epochs = [read(whole), read(whole)]
        read(first)
        begun = read(first, batches=2)
        state = first.state_dict()
        assert state["epoch"] == 1 and state["position"] == 4 * s.size
        second.load_state_dict(state)
        second.set_epoch(1)  # as scripts do at the beginning of an epoch
        assert begun + read(second) == epochs[1]
        assert second.state_dict()["epoch"] == 2 and read(second) == read(whole)
        # One rank continues with the samples that these ranks have not read.
        alone = pleiad.Sampler(n, shuffle=True, seed=5)
        alone.rank, alone._size = 0, 1
        alone.load_state_dict(state)
        rest = sum(pleiad.all_gather_object(epochs[1][4:]), [])
        assert sorted(alone) == sorted(rest)


def test_what_a_sharded_loader_refuses():
    with start() as s:
        bad = pleiad.InvalidArgument
        weighted = torch.utils.data.WeightedRandomSampler([1.0] * 5, 5)

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(5))

        with raises(bad, "WeightedRandomSampler"):
            pleiad.torch.shard(torch.utils.data.DataLoader(indices(5), sampler=weighted))
        with raises(bad, "batch_size"):
            pleiad.torch.shard(torch.utils.data.DataLoader(indices(5), batch_size=None))
        with raises(bad, "IterableDataset", "session.rank"):
            pleiad.torch.shard(Stream())
        with raises(bad, "received int"):
            pleiad.torch.shard(7)
        with raises(bad, 'unknown uneven "cut"'):
            pleiad.torch.shard(indices(5), uneven="cut")
        with raises(bad, "length: expected 6", "received 5"):
            pleiad.Sampler(6).load_state_dict(pleiad.Sampler(5).state_dict())
        if s.size > 1:
            with raises(bad, "rank 0 has 5 samples, rank 1 has 6 samples"):
                pleiad.Sampler(5 + s.rank)


def test_uneven_numbers_of_batches_are_joined():
    with start() as s:
        mine = inputs(s.rank, 2 + 3 * s.rank)
        for by_initial in (True, False):
            model, peer = seeded(mlp), seeded(mlp)
            ours = wrapped(model, bucket_bytes=64)
            schedule = torch.optim.lr_scheduler.StepLR(ours, 2, 0.5)
            batches = pleiad.torch.join(mine, ours, divide_by_initial_world_size=by_initial)
            seen = []
            for x in batches:
                ours.zero_grad()
                (model(x) ** 2).sum().backward()
                ours.step()
                schedule.step()
                seen.append((batches.active, batches.active_ranks))
            assert seen == [(i < len(mine), max(1, s.size - max(0, (i + 1) // 3))) for i in range(3 * s.size - 1)]
            assert batches.active and not any(x._backward_hooks for x in model.parameters())
            equal_on_all(s, model)
            net, theirs = ddp(peer), torch.optim.SGD(peer.parameters(), 0.1, momentum=0.9)
            schedule = torch.optim.lr_scheduler.StepLR(theirs, 2, 0.5)
            context = Join([net], divide_by_initial_world_size=by_initial) if s.size > 1 else contextlib.nullcontext()
            with context:
                for x in mine:
                    theirs.zero_grad()
                    (net(x) ** 2).sum().backward()
                    theirs.step()
                    schedule.step()
            same_as_ddp(s, model, peer)


def test_joined_ranks_accumulate_and_have_the_statistics_of_those_with_batches():
    with start() as s:
        model = seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)))
        serial = copy.deepcopy(model)
        ours, theirs = wrapped(model), torch.optim.SGD(serial.parameters(), 0.1, momentum=0.9)
        mine = inputs(0, 6 if s.rank == 0 else 2)  # the same on ranks that both have batches
        batches = pleiad.torch.join(mine, ours, divide_by_initial_world_size=False)
        for i, x in enumerate(batches):
            if not batches.active:
                x = x * float("nan")
                for part in model.modules():
                    part.training = False
            (model(x) ** 2).sum().backward()
            model.train()
            if i % 2 == 1:
                ours.step()
                ours.zero_grad()
        for i, x in enumerate(inputs(0, 6)):
            (serial(x) ** 2).sum().backward()
            if i % 2 == 1:
                theirs.step()
                theirs.zero_grad()
        equal_on_all(s, model)
        for x, y in zip(model.state_dict().values(), serial.state_dict().values(), strict=True):
            if x.is_floating_point():
                torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)
        with raises(pleiad.InvalidArgument, "received SGD"):
            pleiad.torch.join([], theirs)
        with raises(pleiad.InvalidArgument, "received none"):
            pleiad.torch.join([])
        if s.size > 1:
            with raises(pleiad.InvalidArgument, "rank 0 has no batches"):
                for _ in pleiad.torch.join([1] if s.rank else [], ours):
                    pass
        assert list(pleiad.torch.join([], ours)) == []


if __name__ == "__main__":
    run(globals())
