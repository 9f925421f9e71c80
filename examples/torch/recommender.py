"""A recommender with rows for many users and items, of which a batch needs only a few. Uses generated data.

    python ./examples/torch/recommender.py
    pleiad launch -n 4 python ./examples/torch/recommender.py

The rows of users and items live in tables that all processes share. A batch fetches only its own rows and adds their gradients to
the tables. The gradients of the small network on top are averaged. Lines that were added for Pleiad are marked PLEIAD.
"""

import argparse
import os
import sys
import time

import torch
from torch import nn

# PLEIAD: the only imports
import pleiad
import pleiad.torch


class Clicks:
    """Generates clicks. Users and items have hidden vectors whose product decides who likes what. Popular items are frequent."""

    def __init__(self, users, items, seed):
        # There are too many rows to store their hidden vectors, so the vectors are computed.
        self.users, self.items, self.seed = users, items, seed
        self.direction = torch.randn(8, generator=torch.Generator().manual_seed(7))

    def taste(self, ids, salt):
        phase = ids.double().unsqueeze(-1) * torch.arange(1, 9) * 0.6180339887 + salt
        return torch.sin(phase * 12.9898).float()

    def batch(self, count, generator):
        users = torch.randint(0, self.users, (count,), generator=generator)
        items = (self.items * torch.rand(count, generator=generator) ** 4).long()
        liked = (self.taste(users, 0.1) * self.taste(items, 0.7) * self.direction).sum(-1)
        return users, items, (liked > 0).float()


class Recommender(nn.Module):
    def __init__(self, users, items, dim, rate):
        super().__init__()
        # PLEIAD: rows in tables instead of nn.Embedding; the table makes their optimizer steps
        rule = pleiad.Updater("adagrad", learning_rate=rate)
        start = lambda shape: 0.1 * torch.randn(shape)  # noqa: E731
        self.user_rows = pleiad.torch.Embedding(users, dim, updater=rule, init=start, name="users")
        self.item_rows = pleiad.torch.Embedding(items, dim, updater=rule, init=start, name="items")
        self.top = nn.Sequential(nn.Linear(3 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, users, items):
        u, v = self.user_rows(users), self.item_rows(items)
        return (u * v).sum(-1) + self.top(torch.cat([u, v, u * v], -1)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch", type=int, default=1024, help="batch size of all workers together")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rate", type=float, default=0.1)
    options = parser.parse_args()

    # PLEIAD: start; each worker generates its part of every batch
    session = pleiad.init()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // session.workers))
    torch.manual_seed(1)
    count = max(1, options.batch // session.workers)
    clicks = Clicks(options.users, options.items, 3)
    mine = torch.Generator().manual_seed(100 + session.worker_id)

    model = Recommender(options.users, options.items, options.dim, options.rate)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    # PLEIAD: average the gradients of the network on top
    optimizer = pleiad.torch.DistributedOptimizer(optimizer, module=model)
    loss_of = nn.BCEWithLogitsLoss()
    test = clicks.batch(4000, torch.Generator().manual_seed(5))
    started = time.perf_counter()
    for step in range(options.steps):
        users, items, liked = clicks.batch(count, mine)
        optimizer.zero_grad()
        loss_of(model(users, items), liked).backward()
        optimizer.step()  # PLEIAD: also adds the gradients of the rows to the tables
        # PLEIAD: only rank 0 shows progress
        last = step + 1 == options.steps
        if session.is_master and sys.stderr.isatty() and (step % 20 == 0 or last):
            filled = 30 * (step + 1) // options.steps
            print(f"\r[{'=' * filled:30}] {step + 1}/{options.steps}", end="\n" if last else "", file=sys.stderr)
        if session.is_master and ((step + 1) % 250 == 0 or last):
            with torch.no_grad():
                out = model(*test[:2])
            right = ((out > 0) == (test[2] > 0)).float().mean().item()
            seconds = time.perf_counter() - started
            print(
                f"step {step + 1}: test loss {loss_of(out, test[2]):.4f}, right {right:.2%}, {seconds:.1f} s",
                flush=True,
            )

    # PLEIAD: the end
    session.shutdown()


if __name__ == "__main__":
    main()
