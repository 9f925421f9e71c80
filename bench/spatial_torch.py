"""The peer of bench/spatial.py: the same net split in two by columns, with the halos exchanged over gloo by hand.

python bench/spatial_torch.py RANK SIZE FILE SIDE BATCH STEPS
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

RANK, SIZE, FILE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
SIDE, BATCH, STEPS = (int(word) for word in sys.argv[4:7])
R = 2  # number of columns that a 5x5 convolution needs of each neighbour


class Halo(torch.autograd.Function):
    """Returns the tile with the neighbours' columns on both sides, or zeros at the image's border."""

    @staticmethod
    def forward(ctx, x):
        n, c, h, _ = x.shape
        left, right = x.new_zeros(n, c, h, R), x.new_zeros(n, c, h, R)
        work = []
        if RANK > 0:
            work += [dist.isend(x[..., :R].contiguous(), RANK - 1), dist.irecv(left, RANK - 1)]
        if RANK < SIZE - 1:
            work += [dist.isend(x[..., -R:].contiguous(), RANK + 1), dist.irecv(right, RANK + 1)]
        for each in work:
            each.wait()
        return torch.cat([left, x, right], dim=3)

    @staticmethod
    def backward(ctx, dy):
        dx = dy[..., R:-R].contiguous()
        work, parts = [], []
        for peer, ours, place in ((RANK - 1, dy[..., :R], slice(0, R)), (RANK + 1, dy[..., -R:], slice(-R, None))):
            if 0 <= peer < SIZE:
                came = torch.empty_like(dx[..., :R], memory_format=torch.contiguous_format)
                work += [dist.isend(ours.contiguous(), peer), dist.irecv(came, peer)]
                parts.append((place, came))
        for each in work:
            each.wait()
        for place, came in parts:
            dx[..., place] += came
        return dx


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(3, 16), (16, 16), (16, 32), (32, 32)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 5, padding=(2, 0)) for a, b in sizes)
        self.out = nn.Linear(32 * (SIDE // 8) * (SIDE // 8 // SIZE), 10)

    def forward(self, x):
        for i, conv in enumerate(self.convs):
            x = functional.relu(conv(Halo.apply(x)))
            if i > 0:
                x = functional.max_pool2d(x, 2)
        return self.out(x.flatten(1))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{FILE}", rank=RANK, world_size=SIZE)
    net = Net()
    rule = torch.optim.SGD(net.parameters(), 1e-4)
    x, label = torch.randn(BATCH, 3, SIDE, SIDE // SIZE), torch.zeros(BATCH, dtype=torch.long)

    def step():
        rule.zero_grad(set_to_none=True)
        partial = net(x)
        sums = partial.detach().clone()
        dist.all_reduce(sums)
        sums.requires_grad_()
        functional.cross_entropy(sums, label).backward()
        partial.backward(sums.grad)
        for conv in net.convs:
            for p in conv.parameters():
                dist.all_reduce(p.grad)
        rule.step()

    step(), step()
    turns = []
    for _ in range(STEPS):
        dist.barrier()
        start = time.perf_counter()
        step()
        dist.barrier()
        turns.append((time.perf_counter() - start) * 1e6)
    if RANK == 0:
        print(json.dumps({"ranks": SIZE, "step_us": sorted(turns)[len(turns) // 2]}), flush=True)
    dist.destroy_process_group()


main()
