"""Sparse and key-value tables, and get_changed, in a world of any size."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
from cases import raises, run
from safetensors.numpy import load_file

import pleiad

IDS = [0, -1, 2**63 - 1, -(2**63), 77]


def start():
    return pleiad.init(timeout=600, log_level="error")


def test_rows_are_made_when_they_are_first_added_to():
    with start() as s:
        for dtype in ("float32", "float64", "int32", "int64"):
            table = s.sparse(3, dtype=dtype, name="rows")
            assert len(table) == 0 and table.cols == 3 and table.dtype == np.dtype(dtype)
            delta = np.arange(15, dtype=dtype).reshape(5, 3)
            s.barrier()
            table.add(delta, IDS)
            s.barrier()
            np.testing.assert_array_equal(table.get(IDS), delta * s.size)
            np.testing.assert_array_equal(table.get([5, 77, 5]), [[0] * 3, delta[4] * s.size, [0] * 3])
            out = np.empty(6, dtype)
            assert table.get([77, 0], out) is out
            assert len(table) == 5, "a get makes no rows"
            s.barrier()


def test_ids_of_unsigned_64_bits_are_taken_as_they_are():
    with start() as s:
        table = s.sparse(1, dtype="int64")
        hashes = np.array([2**64 - 1, 2**63 + 5, 3], np.uint64)
        table.add(np.ones((3, 1), np.int64), hashes)
        s.barrier()
        assert (table.get(hashes) == s.size).all()
        assert sorted(table.items()[0].view(np.uint64).tolist()) == sorted(hashes.tolist())
        s.barrier()


def test_every_rank_makes_the_same_row():
    with start() as s:
        table = s.sparse(8, "gaussian", init_spread=0.5, seed=4)
        first = table.get(IDS)
        assert first.std() > 0.2
        for other in s.all_gather(first):
            np.testing.assert_array_equal(other.reshape(first.shape), first)
        same, another = s.sparse(8, "gaussian", init_spread=0.5, seed=4), s.sparse(8, "gaussian", seed=5)
        np.testing.assert_array_equal(same.get(IDS), first)
        assert (another.get(IDS) != first).all()
        if s.is_master:
            table.add(np.ones((5, 8), np.float32), IDS)
        s.barrier()
        np.testing.assert_array_equal(table.get(IDS), first + 1)
        s.barrier()


def test_set_makes_it_the_rows_of_one_rank():
    with start() as s:
        table = s.sparse(2)
        table.add(np.ones((1, 2), np.float32), [5])
        root = s.size - 1
        mine = s.rank == root
        table.set(np.arange(4, dtype=np.float32) if mine else None, root, [-1, 2**60] if mine else None)
        assert table.get([2**60, 5, -1]).tolist() == [[2, 3], [0, 0], [0, 1]] and len(table) == 2
        s.barrier()


def test_a_rule_and_a_clock():
    with start() as s:
        table = s.sparse(2, clock="sync", apply="round", updater=pleiad.Updater("sgd", learning_rate=0.5))
        for step in range(3):
            table.add(np.full((1, 2), s.rank + 1, np.float32), [2**40])
            total = s.size * (s.size + 1) / 2
            np.testing.assert_array_equal(table.get([2**40]), [[-0.5 * total * (step + 1)] * 2])


def test_started_calls():
    with start() as s:
        table = s.sparse(2, dtype="int64")
        table.add_async(np.ones((2, 2), np.int64), [9, -9]).result()
        s.barrier()
        assert (table.get_async([9, -9]).result() == s.size).all()
        s.barrier()


def test_changed_brings_what_has_changed():
    with start() as s:
        matrix, rows = s.matrix(50, 2, track_changes=True), s.sparse(2, track_changes=True)
        ids, values = matrix.changed()
        assert ids.tolist() == list(range(50)) and values.shape == (50, 2)
        assert rows.changed()[0].size == 0
        s.barrier()
        ones = np.ones((1, 2), np.float32)
        matrix.add(ones, rows=[s.rank])
        rows.add(ones, [-s.rank * 10**12])
        s.barrier()
        ids, values = matrix.changed()
        assert ids.tolist() == list(range(s.size)) and (values == 1).all()
        ids, values = rows.changed()
        assert sorted(ids.tolist(), reverse=True) == [-rank * 10**12 for rank in range(s.size)] and (values == 1).all()
        assert rows.changed()[0].size == matrix.changed()[0].size == 0
        s.barrier()
        with raises(pleiad.StateError, "track_changes"):
            s.matrix(3, 3).changed()


def test_key_value_tables_count():
    with start() as s:
        counts = s.key_value(dtype="int64")
        counts.add([1, 1, 5], keys=[7, 7, -3])
        counts.add(np.array([4], np.int64), [2**62])
        s.barrier()
        assert counts[7] == 2 * s.size and counts[8] == 0 and len(counts) == 3
        assert counts.get([-3, 2**62]).tolist() == [5 * s.size, 4 * s.size]
        found = dict(zip(*(part.tolist() for part in counts.items()), strict=True))
        assert found == {7: 2 * s.size, -3: 5 * s.size, 2**62: 4 * s.size}
        assert 7 in counts and 8 not in counts and "7" not in counts
        assert sorted(counts) == [-3, 7, 2**62]
        pairs = s.key_value(2)
        pairs.add(np.ones((1, 2), np.float32), [1])
        s.barrier()
        assert pairs[1].tolist() == [s.size, s.size] and pairs.width == 2
        assert "KeyValueTable" in repr(pairs) and "SparseTable" in repr(s.sparse(2))


def test_rows_are_evicted():
    with start() as s:
        table = s.sparse(1, max_rows=s.size, evict=True, dtype="int32")
        s.barrier()
        for step in range(20):
            table.add(np.ones((1, 1), np.int32), [step])
        s.barrier()
        assert 1 <= len(table) <= s.size
        s.barrier()
        assert table.evict() >= 0
        full = s.sparse(1, max_rows=1, dtype="int32", name="full")
        full.add(np.ones((1, 1), np.int32), [3])
        with raises(pleiad.MemoryError, "full", "max_rows"):
            full.add(np.ones((1, 1), np.int32), [4])
        s.barrier()
        assert full.get([3, 4]).tolist() == [[s.size], [0]]
        s.barrier()


def test_snapshots_hold_ids_and_rows():
    with start() as s, contextlib.ExitStack() as stack:
        name = np.zeros(64, np.int64)
        if s.is_master:
            made = stack.enter_context(tempfile.TemporaryDirectory())
            name[: len(made)] = list(made.encode())
        folder = bytes(s.broadcast(name).astype(np.uint8)).rstrip(b"\0").decode()
        table = s.sparse(4, name="words", updater="adagrad", init="uniform")
        table.add(np.ones((5, 4), np.float32), IDS)
        s.save(folder)
        before = table.get(IDS)
        s.barrier()
        parts = [load_file(path) for path in Path(folder).glob("*.safetensors")]
        ids = np.concatenate([part["words/ids"] for part in parts if "words/ids" in part])
        rows = np.concatenate([part["words"] for part in parts if "words" in part])
        assert sorted(ids.tolist()) == sorted(IDS)
        np.testing.assert_array_equal(table.get(ids), rows)
        s.barrier()
        table.add(np.ones((2, 4), np.float32), [77, 78])
        s.load(folder)
        np.testing.assert_array_equal(table.get(IDS), before)
        assert len(table) == 5
        s.barrier()


def test_what_cannot_be_is_refused():
    with start() as s:
        bad = pleiad.InvalidArgument
        with raises(bad, "column", "0"):
            s.sparse(0)
        with raises(bad, "gausian", "gaussian"):
            s.sparse(3, "gausian")
        with raises(bad, "max_rows"):
            s.sparse(3, evict=True)
        with raises(bad, "float64"):
            s.sparse(3, strict=True).add(np.ones((1, 3)), [1])
        with raises(bad, "float64"):
            s.sparse(3, dtype="int64").add(np.ones((1, 3)), [1])
        table = s.sparse(3)
        with raises(bad, "2 rows"):
            table.add(np.ones((1, 3), np.float32), [1, 2])
        with raises(bad, "integers", "1.5"):
            table.get([1.5])
        with raises(bad, "of 64 bits"):
            table.get([2**64])
        with raises(pleiad.StateError, "evict"):
            table.evict()
        with raises(pleiad.StateError, "pass row ids"):
            s.key_value().set(np.ones(3, np.float32))


run(globals())
