"""pleiad.jax inside compiled functions, and leaves of every type, in a world of any size."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from cases import raises, run
from jax_cases import Bad, batches, close, descend, equal_on_all, first, gradient, loss, start

import pleiad
import pleiad.jax


def test_collectives_inside_compiled_functions():
    with start() as s:

        @functools.partial(jax.jit, donate_argnums=0)
        def step(params, x):
            return descend(params, pleiad.jax.all_reduce(jax.grad(loss)(params, x)))

        eager, params = (pleiad.jax.broadcast(first(s.rank)) for _ in range(2))
        steps = batches(s, 6)
        for _, mine in steps:
            eager = descend(eager, pleiad.jax.all_reduce(gradient(eager, mine)))
            params = step(params, mine)
        close(params, eager, 1e-6)
        xs = jnp.stack([mine for _, mine in steps])

        @jax.jit
        def scanned(params):
            params = pleiad.jax.broadcast(params)
            return jax.lax.scan(lambda p, x: (step(p, x), pleiad.jax.all_reduce(loss(p, x))), params, xs)

        looped = jax.jit(lambda p: jax.lax.fori_loop(0, len(xs), lambda i, q: step(q, xs[i]), pleiad.jax.broadcast(p)))
        (by_scan, losses), by_loop = scanned(first(s.rank)), looped(first(s.rank))
        for made in (by_scan, by_loop):
            close(made, eager, 1e-6)
            equal_on_all(s, made)
        equal_on_all(s, losses)


def test_compiled_and_eager_collectives_keep_one_order():
    with start() as s:
        twice = jax.jit(lambda x: pleiad.jax.all_reduce(pleiad.jax.all_reduce(x, average=False), average=False))
        for i in range(5):
            x = jnp.full(2_000_000, float(s.rank + i))
            later = twice(x)  # may still run while the next lines start
            mine = s.all_reduce(np.array([float(s.rank + i)]))
            total = sum(rank + i for rank in range(s.size))
            assert mine[0] == total and (later == s.size * total).all()


def test_uneven_numbers_of_batches_are_joined():
    with start() as s:

        @jax.jit
        def step(params, x, weight):
            grads = jax.grad(loss)(params, jnp.where(weight == 0, jnp.nan, x))
            return descend(params, pleiad.jax.all_reduce(grads, weight=weight))

        eager, params, serial = (pleiad.jax.broadcast(first(0)) for _ in range(3))
        steps = [x[: len(x) // s.size] for x, _ in batches(s, 4)]
        mine = steps if s.rank == s.size - 1 else steps[:2]  # equal batches, so the average equals that of one batch
        joined = pleiad.join(mine)
        for x in joined:
            params = step(params, x, joined.weight)
            eager = descend(eager, pleiad.jax.all_reduce(gradient(eager, x), weight=joined.weight))
        for x in steps:
            serial = descend(serial, gradient(serial, x))
        for made in (params, eager):
            close(made, serial, 1e-6)
            equal_on_all(s, made)
        # Numbers of samples as weights.
        tree = {"a": jnp.full(2, s.rank, jnp.bfloat16), "b": float(s.rank), "c": np.full(2, s.rank)}
        made = pleiad.jax.all_reduce(tree, weight=2 * (s.rank + 1))
        weights = np.arange(1, s.size + 1)
        mean = (weights * (weights - 1)).sum() / weights.sum()
        assert made["a"].dtype == jnp.bfloat16 and abs(float(made["a"][0]) - mean) < 0.01 * s.size
        assert isinstance(made["b"], float) and abs(made["b"] - mean) < 1e-12
        assert made["c"].dtype == np.float64 and abs(made["c"][1] - mean) < 1e-12
        for wrong, pattern in ((-1, "-1"), (np.ones(2), "one number"), (0, "on all ranks")):
            with raises(Bad, "weight", pattern):
                pleiad.jax.all_reduce(tree, weight=wrong)


def test_every_type_of_leaf_is_reduced_and_broadcast_in_the_same_way():
    with start() as s:
        total, mean = s.size * (s.size + 1) // 2, (s.size + 1) / 2
        mine = s.rank + 1
        tree = {
            "int": jnp.full(3, mine, jnp.int8),
            "bool": jnp.array([True, s.rank == 0]),
            "half": jnp.full(3, mine, jnp.bfloat16),
            "complex": jnp.full(2, mine * (1 + 2j), jnp.complex64),
            "number": float(mine),
            "whole": mine,
            "double": np.full(2, mine / 3, np.float64),
            "empty": jnp.zeros((0, 2)),
            "none": None,
        }
        for compiled in (False, True):
            added, averaged = (
                (lambda t, a=a: jax.jit(lambda x: pleiad.jax.all_reduce(x, average=a))(t))
                if compiled
                else (lambda t, a=a: pleiad.jax.all_reduce(t, average=a))
                for a in (False, True)
            )
            sums, means = added(tree), averaged(tree)
            assert sums["int"].dtype == jnp.int8 and (sums["int"] == total).all()
            assert means["int"].dtype == jnp.float32 and (means["int"] == mean).all()
            assert sums["bool"].dtype == jnp.int32 and sums["bool"].tolist() == [s.size, 1]
            assert sums["half"].dtype == means["half"].dtype == jnp.bfloat16 and (means["half"] == mean).all()
            assert sums["complex"].dtype == jnp.complex64 and (sums["complex"] == total * (1 + 2j)).all()
            assert sums["empty"].shape == (0, 2) and sums["none"] is None
            assert sums["number"] == total and means["whole"] == mean
            if not compiled:
                assert type(sums["number"]) is float and type(sums["whole"]) is int and type(means["whole"]) is float
                assert sums["double"].dtype == np.float64
                np.testing.assert_allclose(sums["double"], total / 3, rtol=1e-15)
                sent = pleiad.jax.broadcast({**tree, "big": np.array([2**40 + s.rank]), "key": jax.random.key(s.rank)})
                assert type(sent["number"]) is float and sent["whole"] == 1 and sent["big"].tolist() == [2**40]
                assert sent["double"].dtype == np.float64 and sent["int"].dtype == jnp.int8
                assert (jax.random.normal(sent["key"], 3) == jax.random.normal(jax.random.key(0), 3)).all()
            key = jax.jit(pleiad.jax.broadcast)(jax.random.key(s.rank))
            assert (jax.random.key_data(key) == jax.random.key_data(jax.random.key(0))).all()
        assert pleiad.jax.all_reduce({}) == {} and pleiad.jax.broadcast([]) == []
        with jax.enable_x64(True):
            wide = pleiad.jax.all_reduce({"d": jnp.full(2, mine / 3), "f": jnp.ones(2, jnp.float32)})
            assert wide["d"].dtype == jnp.float64 and wide["f"].dtype == jnp.float32
            np.testing.assert_allclose(wide["d"], mean / 3, rtol=1e-15)
        with raises(Bad, "'key'", "random key", "broadcast"):
            pleiad.jax.all_reduce({"key": jax.random.key(0)})
        if s.size > 1:
            with raises(Bad, "cannot be differentiated", "gradients"):
                jax.grad(lambda x: pleiad.jax.all_reduce(x) ** 2)(1.0)
        with raises(Bad, "'text'", "expected an array or a number", "str"):
            pleiad.jax.all_reduce({"text": "a"})


if __name__ == "__main__":
    run(globals())
