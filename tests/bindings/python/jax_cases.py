"""pleiad.jax in a world of any size, compared with one process."""

import jax
import jax.numpy as jnp
import numpy as np
from cases import raises, run

import pleiad
import pleiad.jax

Bad = pleiad.InvalidArgument
BATCH = 4


def start():
    return pleiad.init(timeout=600, log_level="off")


def first(seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    return {
        "hidden": (jax.random.normal(keys[0], (5, 7)), jnp.zeros(7)),
        "out": [jax.random.normal(keys[1], (7, 2)), jax.random.normal(keys[2], ())],
    }


@jax.jit
def loss(params, x):
    weight, bias = params["hidden"]
    return jnp.mean((jnp.tanh(x @ weight + bias) @ params["out"][0] + params["out"][1]) ** 2)


gradient = jax.jit(jax.grad(loss))


def batches(s, steps):
    data = np.random.default_rng(3).standard_normal((steps, s.size * BATCH, 5)).astype(np.float32)
    return [(x, x[s.rank * BATCH : (s.rank + 1) * BATCH]) for x in data]


def close(a, b, tolerance=1e-5):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def equal_on_all(s, tree):
    for leaf in jax.tree.leaves(tree):
        mine = np.array(leaf, np.float32).reshape(-1)
        assert (s.all_gather(mine) == mine).all()


def descend(params, grads, rate=0.1):
    return jax.tree.map(lambda x, g: x - rate * g, params, grads)


def test_averaged_gradients_are_those_of_the_joined_batch():
    with start() as s:
        serial, params = first(0), pleiad.jax.broadcast(first(s.rank))
        close(params, serial, 0)
        for joined, mine in batches(s, 5):
            serial = descend(serial, gradient(serial, joined))
            params = descend(params, pleiad.jax.all_reduce(gradient(params, mine)))
        close(params, serial)
        equal_on_all(s, params)
        total = pleiad.jax.all_reduce({"a": jnp.full(3, s.rank + 1.0)}, average=False)
        assert (total["a"] == s.size * (s.size + 1) / 2).all()
        mixed = pleiad.jax.broadcast({"n": jnp.arange(3) + s.rank, "half": jnp.full(3, s.rank, jnp.bfloat16)})
        assert (mixed["n"] == jnp.arange(3)).all() and (mixed["half"] == 0).all()


def test_arrays_go_in_and_out_without_copies():
    with start() as s:
        table = s.array(4, init=jnp.arange(4, dtype=jnp.float32), clock="sync")
        table.add(jnp.ones(4))
        values = table.get()
        as_jax = jnp.from_dlpack(values)
        assert as_jax.unsafe_buffer_pointer() == values.ctypes.data and (as_jax == jnp.arange(4) + s.size).all()
        with raises(Bad, "read-only"):  # JAX's arrays cannot be changed
            table.get(jnp.zeros(4))
        half = jnp.array([1.5, -2.0], jnp.bfloat16)
        assert (pleiad.to_float32(half) == [1.5, -2.0]).all()
        table.add(jnp.ones(4, jnp.bfloat16))  # the table converts it
        assert (table.get() == np.arange(4) + 2 * s.size).all()
        s.barrier()


def test_results_are_views_of_the_buffer():
    with start() as s:
        manager = pleiad.jax.ParameterManager(first(0), clock="sync")
        buffer = manager._layout.gather(first(1))
        leaves = jax.tree.leaves(manager._layout.scatter(buffer))
        inside = range(buffer.ctypes.data, buffer.ctypes.data + buffer.nbytes)
        assert all(leaf.unsafe_buffer_pointer() in inside for leaf in leaves)
        # A later exchange does not change arrays that were returned before.
        params = manager.params
        kept = jax.tree.map(np.array, params)
        manager.sync(jax.tree.map(lambda x: x + 1, params))
        close(params, kept, 0)
        assert s.size


def test_changes_of_all_workers_are_added():
    for average in (False, True):
        with start() as s:
            manager = pleiad.jax.ParameterManager(first(s.rank), clock="sync", average=average)
            params, expected = manager.params, first(0)
            close(params, expected, 0)
            for step in range(3):
                params = manager.sync(jax.tree.map(lambda x: x + s.rank + step, params))
                total = sum(r + step for r in range(s.size)) / (s.size if average else 1)
                expected = jax.tree.map(lambda x: x + total, expected)
                close(params, expected)
                equal_on_all(s, params)


def test_the_table_makes_the_step_of_the_joined_batch():
    with start() as s:
        manager = pleiad.jax.ParameterManager(
            first(s.rank), mode="gradient", clock="sync", updater=pleiad.Updater("sgd", learning_rate=0.1)
        )
        serial, params = first(0), manager.params
        for joined, mine in batches(s, 5):
            serial = descend(serial, gradient(serial, joined))
            params = manager.sync(gradient(params, mine))
        close(params, serial)
        equal_on_all(s, params)
        close(manager.sync(gradient(params, mine), learning_rate=0.0), params, 0)


def test_asynchronous_changes_all_arrive():
    with start() as s:
        manager = pleiad.jax.ParameterManager(first(s.rank), freq=2)
        params = manager.params
        for _ in range(5):
            params = manager.sync(jax.tree.map(lambda x: x + 1, params))
        params = manager.finish(params)
        close(params, jax.tree.map(lambda x: x + 5 * s.size, first(0)))
        equal_on_all(s, params)


def test_halves_are_held_in_a_float32_table():
    with start() as s:
        params = {"w": jnp.array([1, 0.3, -2], jnp.bfloat16), "v": jnp.ones(3)}
        with raises(Bad, "bfloat16", "dtype='float32'"):
            pleiad.jax.ParameterManager(params)
        manager = pleiad.jax.ParameterManager(params, clock="sync", dtype="float32")
        same = manager.sync(manager.params)
        assert same["w"].dtype == jnp.bfloat16 and (same["w"] == params["w"]).all()
        moved = manager.sync({"w": params["w"] + 1, "v": params["v"] + 1})
        np.testing.assert_allclose(moved["w"].astype(jnp.float32), np.array([1, 0.3, -2]) + s.size, rtol=2e-2)
        if s.size > 1:
            reduced = pleiad.jax.all_reduce({"w": params["w"]}, dtype="float32")
            assert reduced["w"].dtype == jnp.bfloat16 and (reduced["w"] == params["w"]).all()


def test_bad_input():
    with raises(pleiad.StateError, r"pleiad\.init\(\)"):
        pleiad.jax.all_reduce({"a": jnp.ones(3)})
    with start() as s:
        for clock in ("ssp", "bsp"):
            with raises(Bad, f'unknown clock "{clock}"', "async, sync"):
                pleiad.jax.ParameterManager(first(0), clock=clock)
        with raises(Bad, 'unknown mode "x"', "delta, gradient"):
            pleiad.jax.ParameterManager(first(0), mode="x")
        with raises(Bad, "with arrays"):
            pleiad.jax.ParameterManager({})
        with raises(Bad, "'n'", "floating-point", "int32"):
            pleiad.jax.ParameterManager({"n": jnp.arange(3)})
        with raises(Bad, "expected an array", "str"):
            pleiad.jax.ParameterManager({"n": "text"})
        with raises(Bad, "freq"):
            pleiad.jax.ParameterManager(first(0), freq=0)
        with raises(Bad, "needs an updater"):
            pleiad.jax.ParameterManager(first(0), mode="gradient")
        manager = pleiad.jax.ParameterManager({"a": jnp.ones(3), "b": jnp.ones(2)})
        with raises(Bad, "pytree with the structure of the first"):
            manager.sync({"a": jnp.ones(3)})
        with raises(Bad, "'b'", r"\(2,\) float32", r"\(4,\) float32"):
            manager.sync({"a": jnp.ones(3), "b": jnp.ones(4)})
        with raises(Bad, "'b'", "float32", "float16"):
            manager.sync({"a": jnp.ones(3), "b": jnp.ones(2, jnp.float16)})
        if s.size > 1:
            odd = {"a": jnp.ones(4 if s.rank == 1 else 3)}
            with raises(Bad, "same model", r"\(3,\)", r"\(4,\)"):
                pleiad.jax.ParameterManager(odd)
            with raises(Bad, "same model"):
                pleiad.jax.broadcast(odd)
        close(manager.sync(manager.params), manager.params, 0)


if __name__ == "__main__":
    run(globals())
