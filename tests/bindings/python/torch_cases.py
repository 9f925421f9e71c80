"""pleiad.torch in a world of any size, compared with one process."""

import copy

import torch
from cases import raises, run
from torch import nn

import pleiad
import pleiad.torch

torch.set_num_threads(1)
BATCH = 6


def start():
    return pleiad.init(timeout=600, log_level="off")


def seeded(seed, make):
    torch.manual_seed(seed)
    return make()


def mlp():
    return nn.Sequential(nn.Linear(10, 33), nn.Tanh(), nn.Linear(33, 7), nn.Tanh(), nn.Linear(7, 3))


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5 * 9, 4)
    ).to(memory_format=torch.channels_last)


def batches(session, steps, *shape):
    """For each step: the joined batch of all ranks, and the slice of this rank."""
    generator = torch.Generator().manual_seed(5)
    mine = slice(session.rank * BATCH, (session.rank + 1) * BATCH)
    for _ in range(steps):
        yield torch.randn(session.size * BATCH, *shape, generator=generator), mine


def loss_of(model, x):
    return model(x).square().mean()


def close(model, other, tolerance=1e-6):
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")


def equal_on_all(session, model):
    """Checks that every rank has bit-identical parameters."""
    for x in (*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())):
        mine = x.detach().float().contiguous()
        assert (session.all_gather(mine) == mine.numpy()).all()


def test_tensors_go_in_and_out_without_copies():
    with start() as s:
        table = s.array(6, init=torch.arange(6.0), clock="sync")
        table.add(torch.ones(2, 3))
        out = torch.zeros(2, 3)
        place = out.data_ptr()
        assert table.get(out) is out and out.data_ptr() == place
        assert (out.view(-1) == torch.arange(6.0) + s.size).all()
        values = table.add_get(torch.zeros(6))
        shared = torch.from_dlpack(values)
        assert shared.data_ptr() == values.ctypes.data and (shared == values[:]).all()
        s.all_reduce(out)
        assert out.data_ptr() == place and out[0, 0] == s.size * s.size
        with raises(pleiad.InvalidArgument, "contiguous"):
            table.add(torch.ones(6, 2)[:, 0])
        for dtype in (torch.float16, torch.bfloat16):
            half = torch.tensor([1.5, -2.0, 0.1], dtype=dtype)
            whole = pleiad.to_float32(half)
            assert (torch.from_numpy(whole) == half.float()).all()
            back = torch.zeros_like(half)
            assert pleiad.from_float32(whole, out=back) is back and (back == half).all()
            before = table.get().copy()
            s.barrier()
            table.add(torch.ones(6, dtype=dtype))  # converted by the table
            s.barrier()
            assert (table.get() == before + s.size).all()
            s.barrier()
        s.barrier()


def test_averaged_gradients_are_those_of_the_joined_batch():
    optimizers = [
        lambda p: torch.optim.SGD(p, 0.2, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, 0.01),
        lambda p: torch.optim.Adagrad(p, 0.1),
    ]
    with start() as s:
        for make, shape in ((mlp, (10,)), (cnn, (2, 6, 6))):
            for k, optimizer_of in enumerate(optimizers):
                serial = seeded(0, make)
                model = seeded(s.rank, make)  # rank 0's values are used
                alone = optimizer_of(serial.parameters())
                settings = {"bucket_bytes": [1, 500, 4 << 20][k], "overlap": k != 1}
                ours = pleiad.torch.DistributedOptimizer(optimizer_of(model.parameters()), module=model, **settings)
                close(model, serial, 0)
                for x, mine in batches(s, 4, *shape):
                    alone.zero_grad()
                    loss_of(serial, x).backward()
                    alone.step()
                    ours.zero_grad()
                    loss_of(model, x[mine]).backward()
                    ours.step()
                close(model, serial, 1e-6 if k == 0 else 1e-5)
                equal_on_all(s, model)


def test_a_scheduler_a_closure_and_the_state_are_the_optimizers():
    with start() as s:
        model = mlp()
        ours = pleiad.torch.DistributedOptimizer(torch.optim.Adam(model.parameters(), 1.0), module=model)
        assert isinstance(ours, torch.optim.Optimizer)
        schedule = torch.optim.lr_scheduler.StepLR(ours, 1, 0.5)
        x = torch.randn(4, 10)
        loss_of(model, x).backward()
        ours.step()
        schedule.step()
        assert ours.param_groups[0]["lr"] == 0.5 == ours.optimizer.param_groups[0]["lr"]
        saved = copy.deepcopy(ours.state_dict())
        ours.load_state_dict(saved)
        assert len(ours.state) == 6

        wanted = seeded(3, mlp)
        model = copy.deepcopy(wanted)
        ours = pleiad.torch.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), max_iter=3), module=model)
        alone = torch.optim.LBFGS(wanted.parameters(), max_iter=3)
        [(x, mine)] = batches(s, 1, 10)

        def closure(net, optimizer, part):
            optimizer.zero_grad()
            loss = loss_of(net, part)
            loss.backward()
            return s.all_reduce(loss.detach().reshape(1)) / s.size if optimizer is ours else loss

        # LBFGS uses the loss, so all ranks must pass the same one.
        ours.step(lambda: closure(model, ours, x[mine]))
        alone.step(lambda: closure(wanted, alone, x))
        close(model, wanted, 1e-4)
        equal_on_all(s, model)


def test_gradients_accumulate_in_no_sync():
    with start() as s:
        serial, model = seeded(1, mlp), seeded(1, mlp)
        alone = torch.optim.SGD(serial.parameters(), 0.1)
        ours = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model)
        (first, mine), (second, _) = batches(s, 2, 10)
        loss_of(serial, first).backward()
        loss_of(serial, second).backward()
        alone.step()
        with ours.no_sync():
            loss_of(model, first[mine]).backward()
        loss_of(model, second[mine]).backward()
        ours.synchronize()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        torch.testing.assert_close(norm, nn.utils.get_total_norm([p.grad for p in serial.parameters()]))
        ours.step()
        close(model, serial)


def test_an_unused_parameter_has_no_gradient():
    with start() as s:
        model = nn.ModuleDict({"all": nn.Linear(2, 2), "first": nn.Linear(2, 2), "none": nn.Linear(2, 2)})
        ours = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0, weight_decay=1), module=model)
        for _ in range(2):
            ours.zero_grad()
            x = torch.ones(1, 2)
            out = model["all"](x) + (model["first"](x) if s.rank == 0 else 0)
            out.sum().backward()
            before = model["none"].weight.clone()
            ours.synchronize()
            assert model["none"].weight.grad is None
            assert (model["all"].weight.grad == 1).all()
            torch.testing.assert_close(model["first"].weight.grad, torch.full((2, 2), 1 / s.size))
            ours.step()
            assert (model["none"].weight == before).all()
        equal_on_all(s, model)


def test_parameters_do_not_keep_the_optimizer():
    with start() as s:
        model = mlp()
        for _ in range(2):
            ours = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model)
            loss_of(model, torch.randn(4, 10)).backward()
            ours.step()
            del ours
            model.zero_grad()
            (model[4].bias * (s.rank + 1)).sum().backward()
            assert (model[4].bias.grad == s.rank + 1).all()  # not averaged
            model.zero_grad()


def test_changes_of_all_workers_are_added():
    for average in (False, True):
        with start() as s:
            model = seeded(s.rank, mlp)
            manager = pleiad.torch.ParameterManager(model, clock="sync", average=average)
            expected = seeded(0, mlp)
            close(model, expected, 0)
            for step in range(3):
                with torch.no_grad():
                    for k, (x, e) in enumerate(zip(model.parameters(), expected.parameters(), strict=True)):
                        x.add_((s.rank + 1) * 0.25 + k + step)
                        total = sum((r + 1) * 0.25 + k + step for r in range(s.size))
                        e.add_(total / s.size if average else total)
                assert manager.sync()
                close(model, expected, 1e-5)
                equal_on_all(s, model)
            line = torch.from_numpy(manager.table.get())
            assert (line[: 33 * 10].view(33, 10) == model[0].weight).all()
            s.barrier()


def test_the_table_makes_the_step_of_the_joined_batch():
    rules = {
        "sgd": ({"weight_decay": 0.01}, lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01)),
        "momentum": ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
        "adam": ({}, lambda p: torch.optim.Adam(p, 0.1)),
        "adagrad": ({"epsilon": 1e-10}, lambda p: torch.optim.Adagrad(p, 0.1)),
    }
    with start() as s:
        for make, shape in ((mlp, (10,)), (cnn, (2, 6, 6))):
            for rule, (fields, optimizer_of) in rules.items():
                serial, model = seeded(0, make), seeded(s.rank, make)
                alone = optimizer_of(serial.parameters())
                manager = pleiad.torch.ParameterManager(
                    model, mode="gradient", clock="sync", updater=pleiad.Updater(rule, learning_rate=0.1, **fields)
                )
                for x, mine in batches(s, 4, *shape):
                    alone.zero_grad()
                    loss_of(serial, x).backward()
                    alone.step()
                    model.zero_grad()
                    loss_of(model, x[mine]).backward()
                    assert manager.sync()
                close(model, serial, 1e-5)
                equal_on_all(s, model)
                # A learning rate for one step only.
                before = [x.detach().clone() for x in model.parameters()]
                manager.sync(learning_rate=0.0)
                if rule == "sgd":
                    for a, b in zip(before, model.parameters(), strict=True):
                        assert (a == b).all()


def test_asynchronous_changes_all_arrive():
    with start() as s:
        model = seeded(s.rank, mlp)
        manager = pleiad.torch.ParameterManager(model, freq=3)
        done = []
        for _ in range(10):
            with torch.no_grad():
                for x in model.parameters():
                    x.add_(1)
            done.append(manager.sync())
        assert done == [False, False, True] * 3 + [False]
        manager.finish()
        for x, first in zip(model.parameters(), seeded(0, mlp).parameters(), strict=True):
            torch.testing.assert_close(x.detach(), first.detach() + 10 * s.size, rtol=1e-5, atol=1e-5)
        equal_on_all(s, model)

        model = seeded(s.rank, mlp)
        manager = pleiad.torch.ParameterManager(
            model, mode="gradient", updater={"rule": "sgd", "learning_rate": 0.5}, name="gradients"
        )
        for x in model.parameters():
            x.grad = torch.ones_like(x)
        for _ in range(4):
            manager.sync()
        manager.finish()
        for x, first in zip(model.parameters(), seeded(0, mlp).parameters(), strict=True):
            torch.testing.assert_close(x.detach(), first.detach() - 2 * s.size, rtol=1e-5, atol=1e-5)
        equal_on_all(s, model)


def test_gradient_mode_keeps_the_parameters_in_the_table_until_it_is_finished():
    for settings in ({"clock": "sync"}, {"live": True}):
        with start() as s:
            model = seeded(s.rank, mlp)
            manager = pleiad.torch.ParameterManager(
                model, mode="gradient", average=False, updater={"rule": "sgd", "learning_rate": 1.0}, **settings
            )
            close(model, seeded(0, mlp), 0)
            first = next(model.parameters())
            assert first.data_ptr() == manager.table.map().ctypes.data
            before = first.detach().clone()
            s.barrier()
            for x in model.parameters():
                x.grad = torch.ones_like(x)
            manager.sync()
            s.barrier()  # live: the others' steps are visible without a call
            torch.testing.assert_close(first.detach(), before - s.size)
            manager.finish()
            if s.size > 1:
                assert first.data_ptr() != manager.table.map().ctypes.data
            with torch.no_grad():
                first.fill_(s.rank)
            s.barrier()
            assert (first == s.rank).all()  # no other rank uses it any more
            s.barrier()


def test_statistics_of_batch_normalisation_follow_all_workers():
    def make():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    for how in ("optimizer", "delta", "average", "gradient"):
        with start() as s:
            model = seeded(s.rank, make)
            model[1].running_mean.fill_(float(s.rank))
            if how == "optimizer":
                ours = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), module=model)
                sync = ours.step
            elif how == "gradient":
                manager = pleiad.torch.ParameterManager(
                    model, mode="gradient", clock="sync", updater={"rule": "sgd", "learning_rate": 0.1}
                )
                sync = manager.sync
            else:
                sync = pleiad.torch.ParameterManager(model, clock="sync", average=how == "average").sync
            assert (model[1].running_mean == 0).all()
            model(x + s.rank).sum().backward()
            # The average over the ranks' batches, computed in one process.
            with torch.no_grad():
                wanted = 0.1 * sum(seeded(0, make)[0](x + r).mean(0) for r in range(s.size)) / s.size
            sync()
            torch.testing.assert_close(model[1].running_mean, wanted)
            assert model[1].num_batches_tracked == 1
            equal_on_all(s, model)


def test_halves_are_held_in_a_float32_table():
    for dtype in (torch.float16, torch.bfloat16):
        with start() as s:
            model = seeded(s.rank, mlp).to(dtype)
            manager = pleiad.torch.ParameterManager(model, clock="sync", dtype=torch.float32)
            close(model, seeded(0, mlp).to(dtype), 0)
            before = [x.detach().clone() for x in model.parameters()]
            manager.sync()  # nothing has changed, so the exchange changes nothing
            for a, b in zip(before, model.parameters(), strict=True):
                assert (a == b).all()
            with torch.no_grad():
                for x in model.parameters():
                    x.fill_(2)
            manager.sync()
            for a, b in zip(before, model.parameters(), strict=True):
                wanted = a.float() + s.size * (2 - a.float())
                torch.testing.assert_close(b.detach().float(), wanted, rtol=1e-2, atol=1e-2)
            equal_on_all(s, model)

            # Steps that are too small for half precision add up in the table.
            model = nn.Linear(3, 1, bias=False).to(dtype)
            nn.init.ones_(model.weight)
            manager = pleiad.torch.ParameterManager(
                model,
                mode="gradient",
                clock="sync",
                dtype=torch.float32,
                updater={"rule": "sgd", "learning_rate": 1e-4},
            )
            model.weight.grad = torch.ones_like(model.weight)
            for _ in range(100):
                manager.sync()
            torch.testing.assert_close(manager.table.get()[0].item(), 0.99, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(model.weight.detach().float(), torch.full((1, 3), 0.99), rtol=1e-2, atol=1e-2)

            model = seeded(0, mlp).to(dtype)
            ours = pleiad.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
            for x in model.parameters():
                (x.sum() * (s.rank + 1)).backward()
            ours.synchronize()
            assert all((x.grad == (s.size + 1) / 2).all() and x.grad.dtype == dtype for x in model.parameters())
            ours.step()


def test_a_model_with_an_embedding_is_saved_and_loaded():
    for clock in ("async", "sync"):
        with start() as s:

            def make(name):
                rows = pleiad.torch.Embedding(50, 3, updater="adagrad", clock=clock, name=name)
                return nn.Sequential(rows, nn.Flatten(), nn.Linear(6, 1))

            first, second = seeded(s.rank, lambda: make("a")), seeded(s.rank + 9, lambda: make("b"))
            first(torch.tensor([[1, 2]])).sum().backward()
            first[0].step()
            s.barrier()
            saved = first.state_dict()
            assert list(saved) == ["0.weight", "2.weight", "2.bias"] and saved["0.weight"].shape == (50, 3)
            assert second.load_state_dict(saved).missing_keys == []
            assert (second[0].weight() == saved["0.weight"]).all() and (second[2].weight == first[2].weight).all()
            # State dicts can be exchanged with the plain module, in both directions.
            plain = nn.Sequential(nn.Embedding(50, 3), nn.Flatten(), nn.Linear(6, 1))
            plain.load_state_dict(saved)
            nn.init.ones_(plain[0].weight)
            second.load_state_dict(plain.state_dict())
            assert (second[0].weight() == 1).all()
            missing = second.load_state_dict({"2.bias": torch.zeros(1)}, strict=False).missing_keys
            assert sorted(missing) == ["0.weight", "2.weight"]
            s.barrier()


def test_an_embedding_is_that_of_one_process_on_the_joined_batch():
    rules = {
        "sgd": ({}, lambda p: torch.optim.SGD(p, 0.5)),
        "adagrad": ({"epsilon": 1e-10}, lambda p: torch.optim.Adagrad(p, 0.5)),
    }
    with start() as s:
        for rule, (fields, optimizer_of) in rules.items():
            serial = seeded(0, lambda: nn.Embedding(50, 6, padding_idx=3))
            updater = pleiad.Updater(rule, learning_rate=0.5, **fields)
            ours = pleiad.torch.Embedding(
                50, 6, padding_idx=3, updater=updater, clock="sync", init=serial.weight, name=f"rows {rule}"
            )
            alone = optimizer_of(serial.parameters())
            generator = torch.Generator().manual_seed(2)
            target = torch.randn(6, generator=generator)
            for _ in range(5):
                ids = torch.randint(0, 12, (s.size * BATCH, 4), generator=generator)  # many rows occur twice
                mine = ids[s.rank * BATCH : (s.rank + 1) * BATCH]
                alone.zero_grad()
                (serial(ids) - target).square().mean().backward()
                alone.step()
                out = ours(mine)
                assert out.shape == (BATCH, 4, 6)
                (out - target).square().mean().backward()
                ours.step()
            torch.testing.assert_close(ours.weight(), serial.weight.detach(), rtol=1e-5, atol=1e-6)
            assert (ours.weight()[3] == serial.weight[3]).all()
            with torch.no_grad():
                assert not ours(mine).requires_grad
            ours.step()  # there is no gradient to add
        assert ours.rows.shape == (0, 6) and ours.rows.grad is None


def test_an_asynchronous_embedding_takes_the_rows_of_all():
    with start() as s:
        rows = pleiad.torch.Embedding(20, 3, updater=pleiad.Updater("sgd", learning_rate=1.0), init=torch.zeros(20, 3))
        for _ in range(5):
            # Two forward and backward passes, one step.
            (rows(torch.tensor([1, 1, 4])).sum() + rows(torch.tensor([[4], [s.rank + 6]])).sum()).backward()
            rows.step()
        s.barrier()
        weight = rows.weight()
        assert (weight[1] == -10 * s.size).all() and (weight[4] == -10 * s.size).all() and (weight[0] == 0).all()
        for rank in range(s.size):
            assert (weight[6 + rank] == -5).all()
        s.barrier()
        assert torch.equal(rows(torch.empty(0, dtype=torch.int64)), torch.empty(0, 3))
        gradient = pleiad.torch.Embedding(4, 2, padding_idx=-1, name="first values")
        values = gradient.weight()
        assert (values[3] == 0).all() and (values[:3] != 0).all()


def test_an_embedding_of_any_ids_lives_in_a_sparse_table():
    rule = pleiad.Updater("sgd", learning_rate=1.0)
    for clock in ("async", "sync"):
        with start() as s:
            start_of = {"init": "constant", "init_value": 0.5}
            rows = pleiad.torch.Embedding(None, 3, padding_idx=-1, sparse=start_of, updater=rule, clock=clock)
            ids = torch.tensor([2**62, -(2**62), 7 + s.rank, -1])
            out = rows(ids)
            assert (out[:3] == 0.5).all() and (out[3] == 0).all()
            s.barrier()
            out.sum().backward()
            rows.step()
            s.barrier()
            whole = rows.state_dict()
            assert whole["ids"].tolist() == [-(2**62), *range(7, 7 + s.size), 2**62]
            steps = 1.0 if clock == "sync" else s.size
            assert (rows(ids)[0] == 0.5 - steps).all() and (rows(ids)[3] == 0).all()
            assert len(rows.table) == 2 + s.size
            s.barrier()
            other = pleiad.torch.Embedding(None, 3, updater=rule, name="other", clock=clock)
            assert other(ids).std() > 0.1  # N(0, 1), the same on all ranks
            other.load_state_dict(whole)
            assert torch.equal(other.weight(), whole["weight"])
            s.barrier()
            with raises(pleiad.InvalidArgument, "init_spred"):
                pleiad.torch.Embedding(None, 3, sparse={"init_spred": 1})
            with raises(pleiad.InvalidArgument, "num_embeddings=None"):
                pleiad.torch.Embedding(5, 3, sparse={})
            with raises(pleiad.InvalidArgument, "sparse"):
                pleiad.torch.Embedding(None, 3, init=torch.zeros(5, 3))


def test_a_manager_shows_its_constructor():
    with start():
        manager = pleiad.torch.ParameterManager(nn.Linear(2, 2), freq=3)
        assert repr(manager) == "ParameterManager(module=<Linear of 2 parameters>, freq=3)"


if __name__ == "__main__":
    run(globals())
