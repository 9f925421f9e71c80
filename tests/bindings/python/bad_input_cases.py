"""Invalid calls raise an exception that names the received value, in a world of any size. The session stays usable."""

import pickle
import time

import numpy as np
from cases import raises, run

import multiverso as mv
import pleiad

Bad = pleiad.InvalidArgument


def start():
    return pleiad.init(timeout=600, log_level="off")


def test_before_init_and_after_shutdown():
    with raises(pleiad.StateError, "pleiad.init"):
        pleiad.session()
    s = start()
    table = s.array(3)
    with raises(pleiad.StateError, "already open"):
        pleiad.init()
    s.shutdown()
    one = np.ones(3, np.float32)
    for call in (table.get, lambda: table.add(one), table.get_async, lambda: table.add_async(one)):
        with raises(pleiad.StateError, "shut ?down"):
            call()
    for call in (s.barrier, lambda: s.array(3), lambda: s.all_reduce(one), s.shutdown, lambda: s.send(0, one)):
        with raises(pleiad.StateError, "shut ?down"):
            call()
    with raises(pleiad.StateError):
        pleiad.session()


def test_multiverso_before_init_and_after_shutdown():
    def check():
        calls = (mv.barrier, mv.workers_num, mv.worker_id, mv.server_id, mv.is_master_worker, mv.shutdown)
        for call in (*calls, lambda: mv.ArrayTableHandler(3), lambda: mv.MatrixTableHandler(3, 3)):
            with raises(pleiad.StateError, r"multiverso.init\(\)"):
                call()

    check()
    mv.init(log_level="off")
    table = mv.ArrayTableHandler(3)
    with raises(pleiad.StateError, "already open"):
        mv.init()
    assert mv.workers_num() >= 1
    mv.shutdown()
    check()
    with raises(pleiad.StateError):
        table.add([1, 2, 3])
    with raises(pleiad.StateError):
        table.get()


def test_element_types():
    with start() as s:
        table = s.array(4, name="w", strict=True)
        for dtype in (np.float64, np.int32, np.int64, np.float16, np.int8, np.uint32, np.bool_):
            with raises(Bad, '"w"', "holds float32", f"received {np.dtype(dtype).name}"):
                table.add(np.ones(4, dtype))
        for dtype in (np.float64, np.int32, np.int64):
            with raises(Bad, "holds float32", f"received {np.dtype(dtype).name}"):
                table.get(out=np.ones(4, dtype))
        for dtype in (np.float16, np.int8, np.uint32, np.bool_, np.complex64, ">f4", "S4", object):
            with raises(Bad, "expected float32, float64, int32 or int64|cannot read"):
                table.get(out=np.zeros(4, dtype))
        with raises(Bad, "float16", "to_float32"):
            table.get(out=np.ones(4, np.float16))
        for dtype in (np.complex64, "S4", object):
            with raises(Bad, '"loose"', "expected integers or floating-point numbers; received"):
                s.array(4, name="loose").add(np.zeros(4, dtype))
        with raises(Bad, "float16", "to_float32"):
            s.array(4, dtype=np.float16)
        with raises(Bad, "dtype", "uint8"):
            s.array(4, dtype=np.uint8)
        with raises(Bad, "dtype"):
            s.array(4, dtype="flaot32")
        with raises(Bad, "from_float32", "float64"):
            pleiad.from_float32(np.ones(3))
        with raises(Bad, "to_float32", "float32"):
            pleiad.to_float32(np.ones(3, np.float32))


def test_what_is_no_array():
    with start() as s:
        table = s.array(3)
        for value in ([1.0, 2.0, 3.0], 1.0, None, "abc", {}, object()):
            with raises(Bad, "expected an array", type(value).__name__):
                table.add(value)
        with raises(Bad, "uint8"):
            table.add(b"abc")
        with raises(Bad, "uint8"):
            table.get(out=bytearray(12))
        with raises(Bad, "expected an array"):
            s.all_reduce(3.0)


def test_sizes_and_shapes():
    with start() as s:
        table = s.array(10, name="w")
        for size in (0, 9, 11):
            with raises(Bad, '"w"', "10", str(size)):
                table.add(np.ones(size, np.float32))
            with raises(Bad, "10", str(size)):
                table.get(out=np.ones(size, np.float32))
        matrix = s.matrix(3, 5)
        for shape in ((5, 3), (3, 4), (2, 5), (14,), (1, 3, 5)):
            with raises(Bad, r"\(3, 5\)", str(shape).replace("(", r"\(").replace(")", r"\)")):
                matrix.add(np.ones(shape, np.float32))
            with raises(Bad, r"\(3, 5\)"):
                matrix.get(out=np.ones(shape, np.float32))
        with raises(Bad, r"\(2, 5\)", r"\(3, 5\)"):
            matrix.add(np.ones((3, 5), np.float32), rows=[0, 1])
        with raises(Bad, "ranks|size|blocks"):
            s.all_gather(np.ones(3, np.float32), out=np.ones(3 * s.size + 1, np.float32))


def test_memory_that_does_not_lie_in_order():
    with start() as s:
        table = s.array(4)
        with raises(Bad, "contiguous", r"strides \(2,\)", "ascontiguousarray"):
            table.add(np.ones(8, np.float32)[::2])
        with raises(Bad, "contiguous"):
            table.add(np.ones(4, np.float32)[::-1])
        with raises(Bad, "contiguous"):
            table.get(out=np.ones((4, 2), np.float32)[:, 0])
        with raises(Bad, "contiguous"):
            s.matrix(4, 2).add(np.ones((2, 4), np.float32).T)
        broadcast = np.broadcast_to(np.float32(1), (4,))
        with raises(Bad, "contiguous"):
            table.add(broadcast)


def test_memory_that_must_not_be_written():
    with start() as s:
        table = s.array(4)
        fixed = np.ones(4, np.float32)
        fixed.flags.writeable = False
        table.add(fixed)
        for call in (table.get, table.get_async, s.all_reduce, s.broadcast):
            with raises(Bad, "read-only"):
                call(fixed)
        with raises(Bad, "read-only"):
            s.receive(0, fixed)


def test_numbers_that_are_not_finite():
    with start() as s:
        table = s.array(4, check_finite=True, name="w")
        for value in (np.nan, np.inf, -np.inf):
            delta = np.ones(4, np.float32)
            delta[2] = value
            with raises(Bad, '"w"', "2", "nan|inf"):
                table.add(delta)
        s.barrier()
        assert table.get().sum() == 0
        free = s.array(4)
        free.add(np.full(4, np.nan, np.float32))
        s.barrier()
        assert np.isnan(free.get()).all()


def test_row_ids():
    with start() as s:
        table = s.matrix(10, 2, name="rows")
        one = np.ones((1, 2), np.float32)
        for row in (-1, 10, 2**40, -(2**63)):
            with raises(Bad, "rows", str(row) if abs(row) < 100 else r"[\d,-]+"):
                table.get(rows=[row])
            with raises(Bad, "rows"):
                table.add(one, rows=[row])
        for rows, word in (([2**70], str(2**70)), (np.array([2**63], np.uint64), str(2**63))):
            with raises(Bad, word, "64 bits"):
                table.get(rows=rows)
        for rows, word in (([1.5], "float64"), ("ab", "U1"), ([True], "bool"), ([[1], [2]], "shape"), (5, "int 5")):
            with raises(Bad, word):
                table.get(rows=rows)
        s.barrier()
        assert table.get().sum() == 0


def test_sizes_of_tables():
    with start() as s:
        for size in (-1, -(2**63)):
            with raises(Bad):
                s.array(size)
        with raises(Bad, "64 bits"):
            s.array(2**64)
        with raises((Bad, pleiad.MemoryError)):
            s.array(2**62)
        with raises((Bad, pleiad.MemoryError)):
            s.matrix(2**40, 2**40)
        for size in (3.0, "3", None):
            with raises(Bad, "expected an integer"):
                s.array(size)
        assert s.array(np.int64(3)).size == 3


def test_options():
    with raises(Bad, "timeuot", "timeout"):
        pleiad.init(timeuot=3)
    with raises(Bad, "timeout", "soon"):
        pleiad.init(timeout="soon")
    with raises(Bad, "timeout", "-1"):
        pleiad.init(timeout=-1)
    with raises(Bad, "-snyc=true", "-sync"):
        mv.init(flags=["-snyc=true"])
    with raises(Bad, "updater_type", "adma"):
        mv.init(flags=["-updater_type=adma"])
    with start() as s:
        with raises(Bad, "clock", "snyc"):
            s.array(3, clock="snyc")
        with raises(Bad, "apply"):
            s.array(3, apply="often")
        with raises(Bad, "init_rank", "99"):
            s.array(3, init_rank=99)
        with raises(Bad, "updater", "int"):
            s.array(3, updater=3)
        with raises(Bad, "operation", "median", "sum, min, max, mean"):
            s.all_reduce(np.ones(1), op="median")
        with raises(Bad, "mean", "floating-point", "int32"):
            s.all_reduce(np.ones(1, np.int32), op="mean")
        table = s.array(10, name="w")
        for change in (table.add_parts, table.step):
            with raises(Bad, "w", "10 values", "6 at 5"):
                change([(5, np.ones(6, np.float32))])
            with raises(Bad, "ends at 6"):
                change([(0, np.ones(6, np.float32)), (4, np.ones(6, np.float32))])
            with raises(Bad, "float32", "complex128"):
                change([(0, np.ones(6, np.complex128))])
            with raises(Bad, "contiguous"):
                change([(0, np.ones(6, np.float32)[::2])])
        with raises(Bad, "tag"):
            s.send(0, np.ones(1), tag=-1)
        with raises(Bad, "99"):
            s.send(99, np.ones(1))
        with raises(Bad, "divisible by"):
            s.reduce_scatter(np.float64(1).reshape(()))
        try:
            s.array(3, clokc="sync")
        except TypeError as problem:
            assert "clokc" in str(problem)


def test_initial_values():
    with start() as s:
        with raises(Bad, "10", "9"):
            s.array(10, init=np.ones(9, np.float32))
        with raises(Bad, "float32", "float64"):
            s.array(10, init=np.ones(10), dtype=np.float32, strict=True)
        with raises(Bad, "int32", "float64"):
            s.array(10, init=np.ones(10), dtype=np.int32)


def test_tables_that_differ_between_the_ranks():
    with start() as s:
        if s.size > 1:
            with raises(pleiad.OrderError, "different tables", "rank 0", "rank 1"):
                s.array(10 if s.rank == 0 else 20)
        assert s.array(5).get().shape == (5,)


def test_calls_that_differ_between_the_ranks():
    with start() as s:
        table = s.array(10, clock="sync", name="weights")
        if s.size > 1:
            with raises(pleiad.OrderError, "weights|every rank waits|get|add"):
                for _ in range(1000):
                    table.get() if s.rank == 0 else table.add(np.ones(10, np.float32))
                    time.sleep(0.01)


def test_masked_arrays():
    with start() as s:
        table = s.array(3, name="w")
        for dtype in (np.float32, np.float64):
            with raises(Bad, '"w"', "without a mask", "filled"):
                table.add(np.ma.array([1, 2, 3], mask=[0, 1, 0], dtype=dtype))
        assert (table.get() == 0).all()


def test_multiverso_element_types():
    mv.init(log_level="off")
    strict = mv.ArrayTableHandler(2, strict=True)
    with raises(Bad, "float32", "float64"):
        strict.add(np.array([1.0, 2.0]))
    table = mv.ArrayTableHandler(2)
    with raises(Bad, "1e\\+300"):
        table.add([1.0, 1e300])
    whole = mv.ArrayTableHandler(2, dtype=np.int32)
    for data in (np.array([1.0, 1.5]), np.array([1.0, 2.0]), [1.0, 1.5]):
        with raises(Bad, "int32", "float64"):
            whole.add(data)
    with raises(Bad, "int32", "int64"):
        whole.add(np.array([3, 4]))
    with raises(Bad, "int32", str(2**40)):
        whole.add([2**40, 1])
    for data in ([[1], [2, 3]], "ab", [None, 1], 7):
        with raises(Bad, "ArrayTableHandler.add"):
            table.add(data)
    mv.barrier()
    assert not table.get().any() and not whole.get().any()
    mv.barrier()
    table.add(np.array([0.5, 2.0]))
    table.add([0.1, 1])
    whole.add(np.array([3, 4], np.int16))
    mv.barrier()
    np.testing.assert_allclose(table.get(), np.float32([0.6, 3.0]) * mv.workers_num())
    np.testing.assert_array_equal(whole.get(), np.array([3, 4]) * mv.workers_num())
    mv.shutdown()


def test_multiverso_sizes_and_rows():
    mv.init(log_level="off")
    matrix = mv.MatrixTableHandler(4, 3)
    for call in (
        lambda: mv.ArrayTableHandler(3).add([1, 2]),
        lambda: matrix.add(range(11)),
        lambda: matrix.add([[1, 2, 3]], [4]),
        lambda: matrix.add([[1, 2, 3]], [-1]),
        lambda: matrix.add([[1, 2, 3]], [0, 1]),
        lambda: matrix.get([2**70]),
        lambda: matrix.get([0.5]),
        lambda: matrix.add(),
        lambda: matrix.add(np.array(["a"])),
        lambda: mv.ArrayTableHandler(3, [1, 2]) if mv.is_master_worker() and mv.workers_num() == 1 else matrix.add(),
        lambda: mv.ArrayTableHandler("3"),
        lambda: mv.ArrayTableHandler(3, clokc="sync"),
    ):
        with raises(Bad):
            call()
    assert matrix.get([]).shape == (0, 3)
    mv.shutdown()


def test_what_belongs_to_a_process_is_not_pickled():
    with start() as s:
        for thing in (s, s.array(3), s.matrix(3, 3)):
            try:
                pickle.dumps(thing)
            except TypeError as problem:
                assert "pickle" in str(problem)
            else:
                raise AssertionError("it was pickled")


run(globals())
