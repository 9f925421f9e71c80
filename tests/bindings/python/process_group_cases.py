"""torch.distributed over a session of Pleiad, compared with gloo in the same run."""

import os
import tempfile

import numpy
import torch
import torch.distributed as dist
from cases import raises, run
from torch import nn

import pleiad
import pleiad.torch
import pleiad.torch.process_group

torch.set_num_threads(1)


def start():
    return pleiad.init(timeout=600, log_level="off")


def start_gloo(s):
    """Runs the block with a gloo process group of the same ranks in place of Pleiad's."""
    if dist.is_initialized():
        dist.destroy_process_group()
    number = numpy.frombuffer(os.urandom(8), numpy.int64).copy()
    s.broadcast(number)
    path = os.path.join(tempfile.gettempdir(), f"gloo-{number[0] & (2**63 - 1)}")
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=s.rank, world_size=s.size)


def results(s):
    """The results of every collective, on values that differ by rank."""
    made = []
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (rank, size) == (s.rank, s.size)
    for kind in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bfloat16, torch.float16):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
            x = (torch.arange(5) + rank + 1).to(kind)
            dist.all_reduce(x, op)
            made.append(x)
    transposed = (torch.arange(6.0).view(2, 3) * (rank + 1)).t()
    dist.all_reduce(transposed)
    made.append(transposed)
    for x in (torch.tensor([rank == size - 1]), torch.tensor([rank + 2j]), torch.full((3,), rank).byte()):
        dist.broadcast(x, size - 1)
        parts = [torch.zeros_like(x) for _ in range(size)]
        dist.all_gather(parts, x)
        made += [x, *parts]
    root = torch.full((2,), float(rank + 1))
    dist.reduce(root, 0)
    parts = [torch.zeros(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), parts)
    out = torch.zeros(2)
    dist.scatter(out, [torch.full((2,), i + 0.5) for i in range(size)] if rank == 0 else None)
    made += [out, *([root, *parts] if rank == 0 else [])]
    share = torch.zeros(3)
    dist.reduce_scatter(share, [torch.arange(3.0) + i + rank for i in range(size)])
    made.append(share)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "a" * rank})
    pending = dist.all_reduce(made[0].clone(), async_op=True)
    pending.wait()
    dist.barrier()
    return made, objects


def test_the_collectives_of_torch_distributed():
    with start() as s:
        pleiad.torch.init_process_group()
        ours, objects = results(s)
        start_gloo(s)
        theirs, same = results(s)
        dist.destroy_process_group()
        assert objects == same
        for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            assert torch.equal(x, y), f"result {i}: {x} over Pleiad, {y} over gloo"


def test_ddp_trains_as_with_gloo():
    def train(s):
        torch.manual_seed(s.rank)
        net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
        model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0001)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
        return list(net.parameters())

    with start() as s:
        pleiad.torch.init_process_group()
        ours = train(s)
        start_gloo(s)
        theirs = train(s)
        dist.destroy_process_group()
        for x, y in zip(ours, theirs, strict=True):
            if s.size <= 2:
                assert torch.equal(x, y), f"largest difference {(x - y).abs().max()}"
            else:
                torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


def test_collectives_of_the_session_keep_one_order_with_those_of_the_group():
    available, os.sched_getaffinity = os.sched_getaffinity, lambda _: {0, 1}  # starts the thread of the group
    try:
        with start() as s:
            pleiad.torch.init_process_group()
            x = torch.full((100_000,), float(s.rank))
            for _ in range(10):
                pending = [dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True) for _ in range(3)]
                assert pleiad.mean(float(s.rank)) == (s.size - 1) / 2
                for work in pending:
                    work.wait()
                assert (x == (s.size - 1) / 2).all()
    finally:
        os.sched_getaffinity = available


def test_what_the_group_does_not_have():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "ACCELERATE_USE_CPU")
    before = [os.environ.get(name) for name in names]
    with start() as s:
        pleiad.torch.init_process_group()
        assert os.environ["RANK"] == str(s.rank) and os.environ["WORLD_SIZE"] == str(s.size)
        with raises(pleiad.StateError, "already has a process group"):
            pleiad.torch.init_process_group()
        with raises(pleiad.InvalidArgument, "tensors on the CPU", "meta"):
            dist.all_reduce(torch.zeros(3, device="meta"))
        if s.size > 1:
            with raises(pleiad.InvalidArgument, "send, receive and all_to_all are not supported"):
                dist.send(torch.zeros(3), (s.rank + 1) % s.size)
        if s.size > 1 and s.rank == 0:
            with raises(pleiad.InvalidArgument, f"expected a group of all {s.size} ranks; received a group of 1"):
                dist.new_group([0])
    assert not dist.is_initialized()
    assert [os.environ.get(name) for name in names] == before


if __name__ == "__main__":
    run(globals())
