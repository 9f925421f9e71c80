"""Update rules written in Python, in a world of any size."""

import threading

import numpy as np
from cases import raises, run

import pleiad


def start(**options):
    return pleiad.init(timeout=600, log_level="error", **options)


@pleiad.register_rule("clipped")
def clipped(value, delta, state, numbers, rates):
    value -= rates.learning_rate * np.clip(delta, -1, 1)


@pleiad.register_rule("heavy_ball", arrays=1, numbers=1)
def heavy_ball(value, delta, state, numbers, rates):
    (velocity,) = state
    velocity *= rates.momentum
    velocity += delta
    value -= rates.learning_rate * velocity
    numbers += 1


@pleiad.register_rule("last_of_worker", worker_arrays=1)
def last_of_worker(value, delta, state, numbers, rates):
    value += delta - state[0]
    state[0][:] = delta


@pleiad.register_rule("picky")
def picky(value, delta, state, numbers, rates):
    if (delta < 0).any():
        raise ValueError("a delta below zero")
    value += delta


def test_a_rule_changes_the_values_in_place():
    with start() as s:
        table = s.array(100_000, updater={"rule": "clipped", "learning_rate": 0.5}, dtype="float64")
        table.add(np.linspace(-3, 3, 100_000))
        table.add(np.full(100_000, 9.0), learning_rate=2)
        s.barrier()
        expected = -s.size * (0.5 * np.clip(np.linspace(-3, 3, 100_000), -1, 1) + 2)
        np.testing.assert_allclose(table.get(), expected, rtol=1e-12)


def test_a_rule_keeps_state_and_rows_are_units():
    with start() as s:
        matrix = s.matrix(50, 8, updater=pleiad.Updater("heavy_ball", learning_rate=1, momentum=0.5))
        for _ in range(2):
            matrix.add(np.ones((2, 8), np.float32), [3, 7])
        s.barrier()
        velocity = value = 0.0
        for _ in range(2 * s.size):
            velocity = 0.5 * velocity + 1
            value -= velocity
        rows = matrix.get()
        np.testing.assert_allclose(rows[[3, 7]], value, rtol=1e-5)
        assert not rows[[0, 1, 2, 4, 49]].any()


def test_a_rule_may_keep_something_for_each_worker():
    with start() as s:
        table = s.array(10, updater="last_of_worker", dtype="float64")
        for step in range(1, 4):
            table.add(np.full(10, float(step * (s.rank + 1))))
        s.barrier()
        np.testing.assert_array_equal(table.get(), sum(3 * (rank + 1) for rank in range(s.size)))


def test_rounds_show_a_rule_the_sum_of_all_workers():
    with start() as s:
        table = s.array(10, clock="sync", apply="round", updater={"rule": "clipped", "learning_rate": 1})
        for _ in range(3):
            table.add(np.full(10, 0.75, np.float32))
            values = table.get()
        np.testing.assert_allclose(values, -3 * min(1, 0.75 * s.size))


def test_a_rule_that_raises_is_an_error_that_names_it():
    with start() as s:
        table = s.array(1000, name="weights", updater="picky")
        with raises(pleiad.RuleError, 'table "weights": rule "picky"', "ValueError: a delta below zero", "in part"):
            table.add(np.full(1000, -1, np.float32))
        table.add(np.ones(1000, np.float32))  # the table is still usable
        s.barrier()
        np.testing.assert_array_equal(table.get(), s.size)


def test_a_rule_must_not_keep_its_arrays_return_something_or_call_tables():
    kept = []
    with start() as s:
        other = s.array(10)
        pleiad.register_rule("keeps", lambda value, delta, state, numbers, rates: kept.append(value[1:]))
        pleiad.register_rule("returns", lambda value, delta, state, numbers, rates: value + delta)
        pleiad.register_rule("calls", lambda value, delta, state, numbers, rates: other.add(np.ones(10, np.float32)))
        for name, words in (
            ("keeps", "kept a reference"),
            ("returns", "return None"),
            ("calls", "must not call tables"),
        ):
            table = s.array(10, updater=name)
            with raises(pleiad.RuleError, words):
                table.add(np.ones(10, np.float32))
            kept.clear()
            s.barrier()


def test_threads_of_one_rank_may_add_by_a_rule_of_python():
    with start() as s:
        table = s.array(5000, updater={"rule": "picky"}, dtype="float64")

        def add():
            for _ in range(5):
                table.add(np.ones(5000))

        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        s.barrier()
        np.testing.assert_array_equal(table.get(), 15 * s.size)


def test_bad_rules_are_refused():
    with raises(pleiad.InvalidArgument, "adam", "built-in rule"):
        pleiad.register_rule("adam", clipped)
    with raises(pleiad.InvalidArgument, "at most 4 arrays"):
        pleiad.register_rule("greedy", clipped, arrays=3, worker_arrays=2)
    with raises(pleiad.InvalidArgument, "expected a function; received int"):
        pleiad.register_rule("number", 3)
    with raises(pleiad.InvalidArgument, "cannot be additive"):
        pleiad.register_rule("both", clipped, arrays=1, additive=True)
    with raises(pleiad.InvalidArgument, "expected a name"):
        pleiad.register_rule("a/b", clipped)
    with start() as s:
        with raises(pleiad.InvalidArgument, "unknown updater", "clipped", "did you mean"):
            s.array(3, updater="cliped")
        with raises(pleiad.InvalidArgument, "int64", '"sum" only'):
            s.array(3, dtype="int64", updater="clipped")
        with raises(pleiad.InvalidArgument, "takes no weight_decay"):
            s.array(3, updater={"rule": "clipped", "weight_decay": 0.1})


if __name__ == "__main__":
    run(globals())
