"""Patterns of common PyTorch scripts with DistributedOptimizer, on any number of ranks. If DDP supports the pattern,
the results are compared with DDP's in the same run, otherwise with one process on the joined batch.
"""

import os
import tempfile

import numpy
import torch
import torch.distributed
import torch.utils.checkpoint
from cases import raises, run
from torch import nn

import pleiad
import pleiad.torch
from pleiad.torch.start import fingerprint

torch.set_num_threads(1)
DistributedOptimizer = pleiad.torch.DistributedOptimizer


def start():
    s = pleiad.init(timeout=600, log_level="off")
    if s.size > 1 and not torch.distributed.is_initialized():
        number = numpy.frombuffer(os.urandom(8), numpy.int64).copy()
        s.broadcast(number)
        path = os.path.join(tempfile.gettempdir(), f"ddp-{number[0] & (2**63 - 1)}")
        torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=s.rank, world_size=s.size)
    return s


def seeded(make, seed=3):
    torch.manual_seed(seed)
    return make()


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


class Unused(nn.Module):
    """A model whose middle layer is not used by the loss."""

    def __init__(self):
        super().__init__()
        self.first, self.pooler, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def inputs(rank, steps):
    torch.manual_seed(100 + rank)
    return [torch.randn(4, 6) for _ in range(steps)]


def equal_on_all(s, model):
    for name, x in model.named_parameters():
        rows = s.all_gather(x.detach().contiguous())
        assert (rows == rows[0]).all(), f"{name} differs between ranks"


def same_as_ddp(s, model, wanted):
    """Bit-identical on two ranks. On more ranks, gloo sums in another order."""
    for (name, x), y in zip(model.named_parameters(), wanted.parameters(), strict=True):
        if s.size <= 2:
            assert torch.equal(x, y), f"{name}: largest difference {(x - y).abs().max()}"
        else:
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


def ddp(model, **options):
    return nn.parallel.DistributedDataParallel(model, **options) if torch.distributed.is_initialized() else model


def wrapped(model, rate=0.1, **options):
    return DistributedOptimizer(torch.optim.SGD(model.parameters(), rate, momentum=0.9), module=model, **options)


def test_clipping_with_an_unused_parameter():
    with start() as s:
        for overlap in (False, True):
            model, peer = seeded(Unused), seeded(Unused)
            ours = wrapped(model, bucket_bytes=64, overlap=overlap)
            net, theirs = ddp(peer, find_unused_parameters=True), torch.optim.SGD(peer.parameters(), 0.1, momentum=0.9)
            for x in inputs(s.rank, 10):
                for run_it, optimizer, parameters in ((model, ours, model), (net, theirs, peer)):
                    optimizer.zero_grad()
                    (run_it(x) ** 2).sum().backward()
                    nn.utils.clip_grad_norm_(parameters.parameters(), 0.5)
                    optimizer.step()
            equal_on_all(s, model)
            same_as_ddp(s, model, peer)


def test_several_backward_passes_before_a_step():
    with start() as s:
        for overlap in (False, True):
            model, peer = seeded(mlp), seeded(mlp)
            ours = wrapped(model, overlap=overlap)
            net, theirs = ddp(peer), torch.optim.SGD(peer.parameters(), 0.1, momentum=0.9)
            xs = inputs(s.rank, 12)
            for run_it, optimizer in ((model, ours), (net, theirs)):
                for i, x in enumerate(xs):
                    (run_it(x) ** 2).mean().backward()
                    if i % 3 == 2:
                        optimizer.step()
                        run_it.zero_grad()
            equal_on_all(s, model)
            same_as_ddp(s, model, peer)


def test_accumulate_exchanges_every_kth_pass():
    with start() as s:
        model, peer = seeded(mlp), seeded(mlp)
        ours, theirs = wrapped(model, accumulate=2), wrapped(peer)
        for i, x in enumerate(inputs(s.rank, 5)):
            (model(x) ** 2).mean().backward()
            if i % 2 == 0 and i < 4:
                with theirs.no_sync():
                    (peer(x) ** 2).mean().backward()
            else:
                (peer(x) ** 2).mean().backward()
            if i % 2 == 1 or i == 4:  # the last step has a single pass, which is exchanged all the same
                for optimizer in (ours, theirs):
                    optimizer.step()
                    optimizer.zero_grad()
        equal_on_all(s, model)
        same_as_ddp(s, model, peer)


def test_gradients_set_by_hand_are_averaged():
    with start() as s:
        model = seeded(mlp)
        ours = wrapped(model)
        for x in inputs(s.rank, 3):
            ours.zero_grad()
            grads = torch.autograd.grad((model(x) ** 2).sum(), list(model.parameters()))
            for p, g in zip(model.parameters(), grads, strict=True):
                p.grad = g
            ours.step()
        equal_on_all(s, model)


def test_passes_that_are_all_inside_no_sync_are_exchanged_by_step():
    with start() as s:
        model, serial = seeded(mlp), seeded(mlp)
        ours = wrapped(model)
        theirs = torch.optim.SGD(serial.parameters(), 0.1, momentum=0.9)
        everyone = [inputs(rank, 2) for rank in range(s.size)]
        for i in range(2):
            with ours.no_sync():
                (model(everyone[s.rank][i]) ** 2).mean().backward()
            (serial(torch.cat([xs[i] for xs in everyone])) ** 2).mean().backward()
            for optimizer in (ours, theirs):
                optimizer.step()
                optimizer.zero_grad()
        equal_on_all(s, model)
        for x, y in zip(model.parameters(), serial.parameters(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


def test_the_whole_module_starts_with_the_values_of_rank_0():
    with start() as s:
        torch.manual_seed(s.rank)
        model = nn.Sequential(nn.Linear(6, 8).requires_grad_(False), nn.BatchNorm1d(8), nn.Linear(8, 3))
        DistributedOptimizer(torch.optim.SGD(model[2].parameters(), 0.1), module=model)
        equal_on_all(s, model)


def test_two_optimizers_share_one_backward_pass():
    with start() as s:
        for overlap in (False, True):
            first, second = seeded(mlp, 1), seeded(lambda: nn.Linear(3, 2), 2)
            optimizers = [wrapped(first, overlap=overlap), wrapped(second, overlap=overlap)]
            for x in inputs(s.rank, 4):
                (second(first(x)) ** 2).sum().backward()
                for optimizer in optimizers:
                    optimizer.step()
                first.zero_grad()
                second.zero_grad()
            equal_on_all(s, first)
            equal_on_all(s, second)


def test_unfreezing_and_new_parameters():
    with start() as s:
        model, serial = seeded(mlp), seeded(mlp)
        optimizers = []
        for net in (model, serial):
            net[0].requires_grad_(False)
            optimizer = torch.optim.SGD(net[2].parameters(), 0.1)
            optimizers.append(DistributedOptimizer(optimizer, module=net) if net is model else optimizer)
        everyone = [inputs(rank, 4) for rank in range(s.size)]
        for i in range(4):
            if i == 2:
                for net, optimizer in ((model, optimizers[0]), (serial, optimizers[1])):
                    net[0].requires_grad_()
                    optimizer.add_param_group({"params": list(net[0].parameters())})
            (model(everyone[s.rank][i]) ** 2).mean().backward()
            (serial(torch.cat([xs[i] for xs in everyone])) ** 2).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        equal_on_all(s, model)
        for x, y in zip(model.parameters(), serial.parameters(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)
        # Frozen when the optimizer was wrapped, and always part of the optimizer.
        other = seeded(mlp)
        other[0].requires_grad_(False)
        ours = wrapped(other)
        for i, x in enumerate(inputs(s.rank, 3)):
            other[0].requires_grad_(i > 0)
            ours.zero_grad()
            (other(x) ** 2).sum().backward()
            ours.step()
        equal_on_all(s, other)


def test_optimizer_state_comes_from_rank_0():
    with start() as s:
        model = seeded(mlp)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        if s.rank == 0:  # as if only this rank had loaded a checkpoint
            (model(torch.ones(1, 6)) ** 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ours = DistributedOptimizer(optimizer, module=model)
        for x in inputs(s.rank, 3):
            ours.zero_grad()
            (model(x) ** 2).sum().backward()
            ours.step()
        equal_on_all(s, model)
        assert all(int(state["step"]) == 4 for state in ours.state.values())


def test_a_drifting_parameter_is_named():
    with start() as s:
        model = seeded(mlp)
        ours = wrapped(model, check_every=2)
        for i, x in enumerate(inputs(s.rank, 2)):
            (model(x) ** 2).sum().backward()
            if i == 1 and s.rank == s.size - 1 and s.size > 1:
                with torch.no_grad():
                    model[2].bias[0] += 1e-3
            if i == 1 and s.size > 1:
                with raises(pleiad.StateError, r"after step 2", r"different values of 2\.bias", "1 of 4"):
                    ours.step()
            else:
                ours.step()
            ours.zero_grad()


def test_values_that_are_only_permuted_have_another_fingerprint():
    x = torch.arange(16, dtype=torch.float64)
    assert fingerprint(x) == fingerprint(x.clone()) and fingerprint(x) != fingerprint(x.flip(0))


def test_a_line_search_decides_by_the_mean_loss():
    with start() as s:
        model, serial = seeded(mlp).double(), seeded(mlp).double()
        options = {"max_iter": 5, "line_search_fn": "strong_wolfe"}
        ours = DistributedOptimizer(torch.optim.LBFGS(model.parameters(), **options), module=model)
        theirs = torch.optim.LBFGS(serial.parameters(), **options)
        everyone = [inputs(rank, 2) for rank in range(s.size)]
        for i in range(2):

            def closure(net, optimizer, x):
                optimizer.zero_grad()
                loss = (net(x.double()) ** 2).mean()
                loss.backward()
                return loss

            x = everyone[s.rank][i]
            ours.step(lambda: closure(model, ours, x))  # noqa: B023
            joined = torch.cat([xs[i] for xs in everyone])
            theirs.step(lambda: closure(serial, theirs, joined))  # noqa: B023
        equal_on_all(s, model)
        for x, y in zip(model.parameters(), serial.parameters(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


def test_statistics_of_half_precision_are_averaged():
    with start() as s:
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).bfloat16()
        ours = wrapped(model)
        (model(torch.full((4, 6), float(s.rank)).bfloat16() + torch.randn(4, 6).bfloat16()) ** 2).sum().backward()
        ours.step()
        mean = model[1].running_mean.float()
        assert (s.all_gather(mean) == mean.numpy()).all()


def test_checkpointed_layers():
    with start() as s:
        for reentrant in (False, True):
            model, serial = seeded(mlp), seeded(mlp)
            ours, theirs = wrapped(model, bucket_bytes=64), torch.optim.SGD(serial.parameters(), 0.1, momentum=0.9)
            everyone = [inputs(rank, 3) for rank in range(s.size)]
            for i in range(3):
                x = everyone[s.rank][i].requires_grad_()
                hidden = torch.utils.checkpoint.checkpoint(model[:2], x, use_reentrant=reentrant)
                (model[2](hidden) ** 2).mean().backward()
                (serial(torch.cat([xs[i].detach() for xs in everyone])) ** 2).mean().backward()
                for optimizer in (ours, theirs):
                    optimizer.step()
                    optimizer.zero_grad()
            equal_on_all(s, model)
            for x, y in zip(model.parameters(), serial.parameters(), strict=True):
                torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


def test_wrapping_again_while_a_scheduler_holds_the_first_wrapper():
    with start() as s:
        model = seeded(mlp)
        inner = torch.optim.SGD(model.parameters(), 0.1)
        first = DistributedOptimizer(inner, module=model)
        scheduler = torch.optim.lr_scheduler.StepLR(first, 1)
        second = DistributedOptimizer(inner, module=model)
        for x in inputs(s.rank, 3):
            second.zero_grad()
            (model(x) ** 2).sum().backward()
            second.step()
            scheduler.step()
        equal_on_all(s, model)
        if s.size > 1:
            with raises(pleiad.StateError, "wrapped again"):
                first.step()


def test_sums_instead_of_averages():
    with start() as s:
        model = seeded(lambda: nn.ModuleList([nn.Linear(6, 3), nn.Linear(6, 3)]))
        ours = wrapped(model, average=False, bucket_bytes=64)
        xs = [inputs(rank, 4) for rank in range(s.size)]

        def loss(head, i, rank=s.rank):
            return (model[head](xs[rank][i]) ** 2).sum()

        def check(*passes):
            """Checks that the gradients are the sums over the ranks of the gradients of these passes."""
            total = sum(loss(head, i, rank) for head, i in passes for rank in range(s.size))
            wanted = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
            for x, y in zip(model.parameters(), wanted, strict=True):
                torch.testing.assert_close(x.grad, y, rtol=1e-5, atol=1e-5)

        loss(0, 0).backward()
        check((0, 0))
        loss(0, 1).backward()  # adds to gradients that are already sums
        check((0, 0), (0, 1))
        with ours.no_sync():
            loss(0, 2).backward()
        loss(1, 3).backward()  # the other parameters
        check((0, 0), (0, 1), (0, 2), (1, 3))
        model.zero_grad(set_to_none=False)
        loss(0, 0).backward()
        with ours.no_sync():
            loss(1, 1).backward()
        ours.synchronize()
        check((0, 0), (1, 1))
        ours.step()
        equal_on_all(s, model)


def test_optimizers_that_a_pass_reaches_in_different_orders():
    with start() as s:
        if s.size == 1:
            return
        nets = [seeded(lambda: nn.Linear(4, 4), seed) for seed in (1, 2)]
        optimizers = [wrapped(net, overlap=True) for net in nets]
        first, second = nets if s.rank == 0 else reversed(nets)
        with raises(pleiad.OrderError, "different collectives"):
            (second(first(torch.ones(1, 4))) ** 2).sum().backward()
            for optimizer in optimizers:
                optimizer.step()


def test_a_fused_optimizer_divides_by_the_scale():
    with start() as s:
        model, peer = seeded(mlp), seeded(mlp)
        ours = DistributedOptimizer(torch.optim.Adam(model.parameters(), 0.01, fused=True), module=model)
        net, theirs = ddp(peer), torch.optim.Adam(peer.parameters(), 0.01, fused=True)
        for run_it, optimizer in ((model, ours), (net, theirs)):
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for i, x in enumerate(inputs(s.rank, 4)):
                optimizer.zero_grad()
                factor = float("inf") if i == 2 and s.rank == 0 else 1.0  # all ranks skip the step
                scaler.scale((run_it(x) ** 2).sum() * factor).backward()
                scaler.step(optimizer)
                scaler.update()
            assert scaler.get_scale() == 512.0
        equal_on_all(s, model)
        same_as_ddp(s, model, peer)


def test_a_loop_without_an_optimizer():
    with start() as s:
        model, serial = seeded(Unused, 3 + s.rank), seeded(Unused)
        words = seeded(lambda: nn.Embedding(10, 3, sparse=True), 3 + s.rank)
        pleiad.torch.broadcast_parameters(model)
        pleiad.torch.broadcast_parameters(words.parameters())
        everyone = [inputs(rank, 3) for rank in range(s.size)]
        for i in range(3):
            for net, x in ((model, everyone[s.rank][i]), (serial, torch.cat([xs[i] for xs in everyone]))):
                net.zero_grad()
                (net(x) ** 2).mean().backward()
            pleiad.torch.all_reduce_gradients(model)
            with torch.no_grad():
                for net in (model, serial):
                    for x in net.parameters():
                        if x.grad is not None:
                            x -= 0.1 * x.grad
        equal_on_all(s, model)
        assert model.pooler.weight.grad is None
        for x, y in zip(model.parameters(), serial.parameters(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)
        if s.rank == s.size - 1:  # the other ranks have no samples
            words(torch.tensor([7])).sum().backward()
        pleiad.torch.all_reduce_gradients(words.parameters(), average=False)
        assert words.weight.grad.is_sparse and words.weight.grad.to_dense().sum() == 3
        equal_on_all(s, words)
        for call in (pleiad.torch.all_reduce_gradients, pleiad.torch.broadcast_parameters):
            with raises(pleiad.InvalidArgument, "received int"):
                call(7)
            with raises(pleiad.InvalidArgument, "parameter 0: expected a tensor; received str"):
                call(["weight"])


if __name__ == "__main__":
    run(globals())
