"""A convolutional network on Fashion-MNIST with PyTorch.

    python ./examples/torch/cnn.py
    pleiad launch -n 4 python ./examples/torch/cnn.py [--way async]

Lines that were added to a script for one process are marked PLEIAD. --way sync averages the gradients before every step, so four
processes learn what one learns. --way async lets every process train by itself and adds the changes of all processes.
"""

import argparse
import os
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# PLEIAD: the only imports
import pleiad
import pleiad.torch


def make_model():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 5, padding=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


@torch.no_grad()
def evaluate(model, images, labels):
    """Returns the loss and the accuracy."""
    model.eval()
    parts = [model(part) for part in images.split(1000)]
    model.train()
    out = torch.cat(parts)
    return nn.functional.cross_entropy(out, labels).item(), (out.argmax(1) == labels).float().mean().item()


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=128, help="batch size of all workers together")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--way", choices=["sync", "async"], default="sync")
    options = parser.parse_args()

    # PLEIAD: start; each worker trains on its part of every batch
    session = pleiad.init()
    worker, workers = session.worker_id, session.workers
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // workers))
    torch.manual_seed(1)

    train_x, train_y, test_x, test_y = fashion.load(options.samples, options.data)
    train_x, train_y, batch = fashion.share(train_x, train_y, worker, workers, options.batch)
    train_x, test_x = torch.from_numpy(train_x), torch.from_numpy(test_x)
    train_y, test_y = torch.from_numpy(train_y).long(), torch.from_numpy(test_y).long()

    model = make_model()
    # If changes are added, every worker makes its part of the step.
    rate = options.rate if options.way == "sync" else options.rate / workers
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    manager = None
    # PLEIAD: average the gradients, or share the parameters
    if options.way == "sync":
        optimizer = pleiad.torch.DistributedOptimizer(optimizer, module=model)
    else:
        manager = pleiad.torch.ParameterManager(model)

    batches = len(train_x) // batch
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.01, options.epochs * batches)
    # PLEIAD: only rank 0 shows progress and validates
    watch = fashion.Watch(session.is_master, options.epochs, batches, len(train_x) * workers, options.curve)
    for epoch in range(options.epochs):
        order = torch.randperm(len(train_x))
        for i in range(batches):
            chosen = order[i * batch : (i + 1) * batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(train_x[chosen]), train_y[chosen]).backward()
            optimizer.step()
            schedule.step()
            # PLEIAD: send this worker's changes, receive the others'
            if manager is not None:
                manager.sync()
            watch.batch(epoch, i + 1)
        watch.epoch(epoch, lambda: evaluate(model, test_x, test_y))

    # PLEIAD: the end: all ranks have the same model
    if manager is not None:
        manager.finish()
    session.shutdown()


if __name__ == "__main__":
    main()
