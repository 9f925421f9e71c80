"""The package pleiad in a world of any size."""

import asyncio
import contextlib
import io
import resource
import tempfile
import threading
import time

import numpy as np
from cases import raises, run

import pleiad
from pleiad import info


def start(**options):
    return pleiad.init(timeout=600, log_level="error", **options)


def test_the_world_is_numbered():
    with start() as s:
        assert pleiad.session() is s
        assert 0 <= s.rank < s.size == s.workers == s.servers
        assert s.worker_id == s.server_id == s.rank == s.worker_rank(s.rank) == s.server_rank(s.rank)
        assert s.is_master == (s.rank == 0)
        assert s.hosts == 1 and s.host_of(s.rank) == 0 and s.host_name(0)
        assert all(s.alive(rank) for rank in range(s.size))
        assert s.engine == ("mpi" if s.size > 1 else s.engine)
        assert s.options["timeout"] == "600"
        assert f"rank {s.rank} of {s.size}" in repr(s)
    assert repr(s) == "<pleiad.Session: closed>"


def test_every_element_type_is_added_and_got():
    with start() as s:
        for dtype in ("float32", "float64", "int32", "int64"):
            table = s.array(1000, dtype=dtype, name="numbers")
            table.add(np.arange(1000, dtype=dtype))
            s.barrier()
            values = table.get()
            assert values.dtype == table.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(values, np.arange(1000) * s.size)
            assert table.size == 1000 and table.name == "numbers"
            s.barrier()


def test_snapshots_are_saved_and_loaded():
    with start() as s, contextlib.ExitStack() as stack:
        name = np.zeros(64, np.uint8).astype(np.int64)
        if s.is_master:
            made = stack.enter_context(tempfile.TemporaryDirectory())
            name[: len(made)] = list(made.encode())
        folder = bytes(s.broadcast(name).astype(np.uint8)).rstrip(b"\0").decode()
        table = s.array(5, name="w", updater="momentum")
        table.add(np.ones(5, np.float32))
        s.save(f"{folder}/once", step=3, notes={"epoch": "1"})
        before = table.get()
        s.barrier()
        table.add(np.ones(5, np.float32))
        assert s.load(f"{folder}/once") == {"step": 3, "notes": {"epoch": "1"}}
        np.testing.assert_array_equal(table.get(), before)
        snapshots = pleiad.Snapshots(s, f"{folder}/run", every_steps=2)
        assert snapshots.load_last() is None
        assert [snapshots.step(step) for step in (1, 2, 3)] == [False, True, False]
        snapshots.wait()
        assert snapshots.load_last()["step"] == 3  # the last step is saved, too
        with raises(pleiad.FileError, "nowhere"):
            s.load(f"{folder}/nowhere")
        s.barrier()


def test_a_stale_bounded_table_ticks():
    with start() as s:
        table = s.array(3, name="w", clock="ssp", staleness=1)
        for step in range(1, 6):
            table.add(np.ones(3, np.float32))
            table.tick()
            assert table.get()[0] >= step + (s.size - 1) * (step - 1)
        with raises(pleiad.StateError, "call tick only with clock = ssp"):
            s.array(3).tick()
        rounds = s.array(3, clock="sync", apply="round", backup=0.0)
        rounds.add(np.ones(3, np.float32))
        rounds.get()
        assert rounds.rounds == 1 and rounds.stats["dropped_adds"] == 0


def test_the_dtype_is_that_of_the_initial_values_unless_given():
    with start() as s:
        assert s.array(3, init=np.ones(3)).dtype == np.float64
        assert s.array(3).dtype == np.float32
        assert s.array(3, dtype=np.int64).dtype == np.int64
        assert s.array(3, dtype="float64").dtype == np.float64
        assert s.array(3, dtype=np.dtype("int32")).dtype == np.int32


def test_initial_values_are_those_of_one_rank():
    with start() as s:
        last = s.size - 1
        mine = np.full(5, s.rank + 1, np.float32)
        np.testing.assert_array_equal(s.array(5, init=mine).get(), 1)
        np.testing.assert_array_equal(s.array(5, init=mine, init_rank=last).get(), last + 1)
        only_there = mine if s.rank == last else None
        np.testing.assert_array_equal(s.array(5, init=only_there, init_rank=last).get(), last + 1)
        np.testing.assert_array_equal(s.matrix(2, 2, init=np.full((2, 2), s.rank + 7.0)).get(), 7)


def test_rows_by_any_iterable():
    with start() as s:
        table = s.matrix(100, 4)
        for rows in (
            [3, 99],
            (3, 99),
            np.array([3, 99], np.int32),
            np.array([3, 0, 99])[::2],
            iter([3, 99]),
            {3: 0, 99: 0},
        ):
            table.add(np.ones((2, 4), np.float32), rows=rows)
        s.barrier()
        whole = table.get()
        assert whole.shape == (100, 4)
        assert whole.sum() == whole[[3, 99]].sum() == 6 * 2 * 4 * s.size
        np.testing.assert_array_equal(table.get(rows=range(98, 100)), whole[98:])
        np.testing.assert_array_equal(table.get(rows=[99, 0, 99]), whole[[99, 0, 99]])
        assert table.get(rows=[]).shape == (0, 4)
        s.barrier()
        table.add(np.ones((2, 4), np.float32), rows=[7, 7])  # equal rows are summed first
        table.add(np.ones(4, np.float32), rows=[7])  # a single row may be flat
        s.barrier()
        np.testing.assert_array_equal(table.get(rows=[7]), np.full((1, 4), 3 * s.size))


def test_out_is_filled_and_returned():
    with start() as s:
        table = s.array(6, init=np.arange(6, dtype=np.float32))
        out = np.empty(6, np.float32)
        assert table.get(out=out) is out
        np.testing.assert_array_equal(out, np.arange(6))
        part = np.zeros((4, 6), np.float32)
        table.get(out=part[2])
        assert part.sum() == 15 and part[2].sum() == 15
        view = memoryview(bytearray(24)).cast("f")
        assert list(table.get(out=view)) == [0, 1, 2, 3, 4, 5]
        matrix = s.matrix(2, 3, init=np.arange(6, dtype=np.float32).reshape(2, 3))
        np.testing.assert_array_equal(matrix.get(out=np.empty((2, 3), np.float32)), [[0, 1, 2], [3, 4, 5]])
        flat = matrix.get(rows=[1], out=np.empty(3, np.float32))
        np.testing.assert_array_equal(flat, [3, 4, 5])


class Tensor:
    """An array with DLPack only, as PyTorch's tensors."""

    def __init__(self, values):
        self.values = values
        self.dtype, self.shape = values.dtype, values.shape

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_tensors_go_in_and_out_by_dlpack():
    with start() as s:
        table = s.array(6)
        table.add(Tensor(np.arange(6, dtype=np.float32)))
        s.barrier()
        out = Tensor(np.zeros((2, 3), np.float32))
        assert table.get(out=out) is out
        np.testing.assert_array_equal(out.values, np.arange(6).reshape(2, 3) * s.size)
        assert table.get_async(out=out).result() is out
        np.testing.assert_array_equal(s.array(2, init=Tensor(np.array([3, 4]))).get(), [3, 4])
        x = Tensor(np.ones(3))
        assert s.all_reduce(x) is x and x.values[0] == s.size
        np.testing.assert_array_equal(s.all_gather(Tensor(np.array([1, 2]))), [[1, 2]] * s.size)
        with raises(pleiad.InvalidArgument, "contiguous"):
            table.add(Tensor(np.ones((6, 2), np.float32)[:, 0]))
        strict = s.array(6, strict=True)
        with raises(pleiad.InvalidArgument, "holds float32", "received float64"):
            strict.add(Tensor(np.ones(6)))
        with raises(pleiad.InvalidArgument, "holds float32", "received float16"):
            strict.add(Tensor(np.ones(6, np.float16)))
        with raises(pleiad.InvalidArgument, "float16", "to_float32"):
            table.get(out=Tensor(np.ones(6, np.float16)))
        np.testing.assert_array_equal(pleiad.to_float32(Tensor(np.array([1.5], np.float16))), [1.5])
        half = Tensor(np.zeros(2, np.float16))
        pleiad.from_float32(np.array([0.5, 2], np.float32), out=half)
        np.testing.assert_array_equal(half.values, [0.5, 2])


class Secret(Tensor):
    def __dlpack__(self, **options):
        raise BufferError("it requires gradients")


def test_a_tensor_that_cannot_be_exported_names_the_reason():
    with start() as s:
        with raises(pleiad.InvalidArgument, "Secret of float32", "BufferError: it requires gradients"):
            s.array(2).add(Secret(np.ones(2, np.float32)))
        with raises(pleiad.InvalidArgument, "cannot write", "it requires gradients"):
            s.array(2).get(out=Secret(np.ones(2, np.float32)))


def test_new_arrays_are_aligned_and_their_own():
    with start() as s:
        for size in (1, 5, 1000, 100_000):
            table = s.array(size)
            one, two = table.get(), table.get()
            assert one.ctypes.data % 64 == two.ctypes.data % 64 == 0
            assert one.flags.writeable and not np.shares_memory(one, two)
            one += 1
            assert two.sum() == 0
            del one
            again = table.get()  # reused memory contains no old values
            assert again.sum() == 0
        assert s.matrix(3, 5).get().ctypes.data % 64 == 0


def test_futures_are_waited_for_or_dropped():
    with start() as s:
        table = s.array(100_000)
        adds = [table.add_async(np.ones(100_000, np.float32)) for _ in range(5)]
        table.add_async(np.ones(100_000, np.float32))
        for add in adds:
            add.wait(timeout=600)
            assert add.done() and add.result() is None
        s.barrier()
        future = table.get_async()
        values = future.result(timeout=600)
        assert future.result() is values and "done" in repr(future)
        np.testing.assert_array_equal(values, 6 * s.size)
        out = np.empty(100_000, np.float32)
        assert table.get_async(out=out).result() is out
        table.get_async()
        matrix = s.matrix(4, 2)
        matrix.add_async(np.ones((1, 2), np.float32), rows=[3]).result()
        s.barrier()
        np.testing.assert_array_equal(matrix.get_async(rows=[3]).result(), [[s.size] * 2])


def test_futures_are_awaited():
    async def train(s):
        table = s.array(1000, clock="sync")
        for step in range(1, 4):
            await table.add_async(np.ones(1000, np.float32))
            ticks = asyncio.create_task(asyncio.sleep(0))  # the loop runs meanwhile
            values = await table.get_async()
            await ticks
            np.testing.assert_array_equal(values, step * s.size)
        one, two = await asyncio.gather(s.array(2).get_async(), s.array(3).get_async())
        assert (one.size, two.size) == (2, 3)

    with start() as s:
        asyncio.run(train(s))


def test_a_future_that_is_not_complete_in_time_raises():
    with start() as s:
        table = s.array(10, clock="sync", name="slow")
        if s.size > 1 and s.rank == 1:
            s.receive(0, np.empty(1))
        table.add(np.ones(10, np.float32))
        future = table.get_async()
        if s.size > 1 and s.rank == 0:
            with raises(pleiad.TimeoutError, "slow", "0.05 s"):  # rank 1 has not added
                future.wait(timeout=0.05)
            s.send(1, np.zeros(1))
        np.testing.assert_array_equal(future.result(), s.size)


def test_settings_of_the_rule():
    with start() as s:
        one = np.ones(3, np.float32)
        sgd = s.array(3, updater={"rule": "sgd", "learning_rate": 0.5})
        sgd.add(one)
        s.barrier()
        np.testing.assert_allclose(sgd.get(), -0.5 * s.size)
        s.barrier()
        sgd.add(one, learning_rate=2)
        s.barrier()
        np.testing.assert_allclose(sgd.get(), -2.5 * s.size)
        momentum = s.array(
            3, updater=pleiad.Updater("momentum", learning_rate=1, momentum=0.5), clock="sync", apply="round"
        )
        momentum.add(one)
        momentum.add(one)
        np.testing.assert_allclose(momentum.get(), -2.5 * s.size)
        with raises(pleiad.InvalidArgument, "adma", "adam"):
            s.array(3, updater="adma")
        with raises(pleiad.InvalidArgument, "learn_rate", "known.*learning_rate"):
            s.array(3, updater={"rule": "sgd", "learn_rate": 1})


def test_synchronous_gets_are_bit_identical_on_all_ranks():
    with start() as s:
        random = np.random.default_rng(s.rank)
        table = s.array(5000, clock="sync", apply="round", ordered=True)
        each = s.array(5000, clock="sync")
        for step in range(5):
            for t in (table, each):
                t.add(random.standard_normal(5000, np.float32))
                values = t.get()
                all_values = s.all_gather(values)
                assert (all_values.view(np.uint32) == values.view(np.uint32)).all(), step


def test_a_step_of_all_ranks_is_read_in_place():
    with start() as s:
        table = s.array(100_000, updater=pleiad.Updater("sgd", learning_rate=0.5))
        mine = table.map()
        parts = [(10, np.full(40_000, s.rank + 1, np.float32)), (99_999, np.ones(1, np.float32))]
        table.step(parts)
        total = np.arange(1, s.size + 1).sum()
        assert mine[9] == 0 and (mine[10:40_010] == -total / 2).all() and (mine[40_010:-1] == 0).all()
        assert mine[-1] == -s.size / 2
        s.barrier()
        table.step(parts, learning_rate=0.0)
        assert mine[-1] == -s.size / 2
        s.barrier()
        table.add_parts(parts)  # returns without waiting
        s.barrier()
        assert mine[-1] == -s.size
        assert (s.all_gather(mine) == mine).all()


def test_collectives():
    with start() as s:
        ranks = np.arange(s.size)
        x = np.array([s.rank, -s.rank], np.float64)
        assert s.all_reduce(x) is x
        np.testing.assert_array_equal(x, [ranks.sum(), -ranks.sum()])
        np.testing.assert_array_equal(s.all_reduce(np.array([s.rank]), op="max"), [s.size - 1])
        np.testing.assert_array_equal(s.all_reduce(np.array([s.rank], np.int32), op="min"), [0])
        np.testing.assert_allclose(s.all_reduce(np.full(50_000, s.rank, np.float32), op="mean"), ranks.mean())
        np.testing.assert_array_equal(s.broadcast(np.array([s.rank + 5.0]), root=s.size - 1), [s.size + 4])
        np.testing.assert_array_equal(s.all_gather(np.array([[s.rank, 9]])), [[[r, 9]] for r in ranks])
        out = np.empty(s.size, np.float32)
        assert s.all_gather(np.array([s.rank], np.float32), out=out) is out
        whole = np.arange(2 * s.size, dtype=np.float32).reshape(2 * s.size, 1)
        part = s.reduce_scatter(whole)
        np.testing.assert_array_equal(part, whole[2 * s.rank : 2 * s.rank + 2] * s.size)
        s.send((s.rank + 1) % s.size, np.array([s.rank]), tag=3)
        got = s.receive((s.rank - 1) % s.size, np.empty(1, np.int64), tag=3)
        assert got[0] == (s.rank - 1) % s.size


def test_the_history_is_printed():
    with start() as s:
        table = s.array(10, name="weights")
        table.add(np.ones(10, np.float32))
        table.get()
        stats = s.metrics()["tables"]["0: weights"]
        assert stats["adds"] == stats["gets"] == 1 and stats["bytes_got"] == 40
        assert stats == table.stats
        s.barrier()
        s.all_reduce(np.ones(5))
        metrics = s.metrics()
        assert metrics["rank"] == s.rank
        assert metrics["collectives"]["calls"] == 2 and metrics["collectives"]["bytes"] == 40
        assert metrics["collectives"]["seconds"] > 0
        assert "weights" in s.stats()
        assert "rank" in s.report()
        begin, end = table.shard(0)
        assert begin == 0 and end >= 10 // s.size


def test_the_interpreter_runs_while_a_call_waits():
    with start() as s:
        table = s.array(10, clock="sync")
        count, over = 0, False

        def others_work():
            nonlocal count
            while not over:
                count += 1
                time.sleep(0.005)
                for other in range(1, s.size) if count in (15, 30) else ():
                    s.send(other, np.zeros(1))

        thread = threading.Thread(target=others_work)
        if s.rank != 0:
            # Sent by a thread of rank 0; it would never arrive if calls kept the interpreter's lock.
            s.receive(0, np.empty(1))
            s.barrier()
            s.receive(0, np.empty(1))
            table.add(np.ones(10, np.float32))
            table.get()
        else:
            thread.start()
            for call in (s.barrier, lambda: table.add(np.ones(10, np.float32)), table.get):
                call()
            if s.size > 1:
                assert count >= 30, count
            over = True
            thread.join()


def test_threads_share_an_asynchronous_table():
    with start() as s:
        table = s.array(1000)

        def work():
            for _ in range(50):
                table.add(np.ones(1000, np.float32))
                table.get()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        s.barrier()
        np.testing.assert_array_equal(table.get(), 200 * s.size)


def test_nothing_is_left_of_arrays_and_futures():
    with start() as s:
        small, large = s.array(1000), s.array(200_000)
        one = np.ones(1000, np.float32)

        def work(rounds):
            for _ in range(rounds):
                small.add_async(one)
                small.get()
                small.get_async().wait()
            for _ in range(rounds // 100):
                large.get()
                large.get_async()
            s.barrier()

        work(2000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(10_000)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert after - before < 4096, f"{before} kB became {after} kB"


def test_another_session_may_follow():
    for _ in range(3):
        s = start()
        assert s.array(3).id == 0
        s.shutdown()


def test_half_precision_goes_through_float32():
    halves = np.array([0.5, -1.5, 65504, np.inf, 6e-8], np.float16)
    with start() as s:
        table = s.array(5, init=pleiad.to_float32(halves))
        back = pleiad.from_float32(table.get())
        assert back.dtype == np.float16
        np.testing.assert_array_equal(back, halves)
        out = np.empty(5, np.float16)
        assert pleiad.from_float32(table.get(), out=out) is out
        np.testing.assert_array_equal(out, halves)


def test_info_prints_versions_engines_and_world():
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        info.main()
    said = text.getvalue()
    if said:  # rank 0
        for word in (pleiad.__version__, np.__version__, "engines    solo, mpi", "world", "us/add"):
            assert word in said, said


def test_tables_have_a_length_and_a_shape_and_become_arrays():
    with start() as s:
        array = s.array(3, init=np.arange(3, dtype=np.float32))
        matrix = s.matrix(2, 3, dtype="float64")
        assert (len(array), array.shape, len(matrix), matrix.shape) == (3, (3,), 2, (2, 3))
        np.testing.assert_array_equal(np.asarray(array), [0, 1, 2])
        assert np.asarray(array).dtype == np.float32 and np.array(array, dtype="float64").dtype == np.float64
        assert np.asarray(matrix).shape == (2, 3) and np.asarray(matrix).dtype == np.float64
        with raises(pleiad.InvalidArgument, "without a copy"):
            array.__array__(copy=False)


def test_snapshots_show_their_constructor():
    with start() as s, tempfile.TemporaryDirectory() as folder:
        shown = repr(pleiad.Snapshots(s, folder, every_steps=2))
        assert shown == f"Snapshots(folder={folder!r}, every_steps=2)"


run(globals())
