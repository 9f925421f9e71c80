"""A small network on Fashion-MNIST with JAX.

    python ./examples/jax/mlp.py
    pleiad launch -n 4 python ./examples/jax/mlp.py [--way async]

Lines that were added to a script for one process are marked PLEIAD. --way sync averages the gradients before every step.
--way async lets every process train by itself and adds the changes of all processes.
"""

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# PLEIAD: the only imports
import pleiad
import pleiad.jax


def first_params(seed, widths):
    keys = jax.random.split(jax.random.key(seed), len(widths) - 1)
    return [
        {"w": jax.random.normal(key, (a, b)) * (2 / a) ** 0.5, "b": jnp.zeros(b)}
        for key, a, b in zip(keys, widths, widths[1:])
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return -jnp.mean(jax.nn.log_softmax(predict(params, x))[jnp.arange(len(y)), y])


@jax.jit
def evaluate(params, x, y):
    return loss(params, x, y), jnp.mean(jnp.argmax(predict(params, x), axis=1) == y)


gradient = jax.jit(jax.grad(loss))


@jax.jit
def descend(params, grads, rate):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=128, help="batch size of all workers together")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--way", choices=["sync", "async"], default="sync")
    options = parser.parse_args()

    # PLEIAD: start; each worker trains on its part of every batch
    session = pleiad.init()
    worker, workers = session.worker_id, session.workers
    train_x, train_y, test_x, test_y = fashion.load(options.samples, options.data)
    train_x, train_y, batch = fashion.share(train_x, train_y, worker, workers, options.batch)

    params = first_params(worker, [784, 128, 64, 10])
    # PLEIAD: all ranks start with the values of rank 0
    manager = pleiad.jax.ParameterManager(params) if options.way == "async" else None
    params = pleiad.jax.broadcast(params) if manager is None else manager.params
    # A parameter manager adds up the changes of all workers, so each worker uses its part of the learning rate.
    rate = options.rate if manager is None else options.rate / workers

    batches = len(train_x) // batch
    rng = numpy.random.default_rng(worker)
    # PLEIAD: only rank 0 shows progress and validates
    watch = fashion.Watch(session.is_master, options.epochs, batches, len(train_x) * workers, options.curve)
    for epoch in range(options.epochs):
        order = rng.permutation(len(train_x))
        for i in range(batches):
            chosen = order[i * batch : (i + 1) * batch]
            grads = gradient(params, train_x[chosen], train_y[chosen])
            # PLEIAD: average the gradients, or send this worker's changes and receive the others'
            if manager is None:
                grads = pleiad.jax.all_reduce(grads)
            params = descend(params, grads, rate)
            if manager is not None:
                params = manager.sync(params)
            watch.batch(epoch, i + 1)
        watch.epoch(epoch, lambda: evaluate(params, test_x, test_y))

    # PLEIAD: the end: all ranks have the same parameters
    if manager is not None:
        params = manager.finish(params)
    session.shutdown()


if __name__ == "__main__":
    main()
