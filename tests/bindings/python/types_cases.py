"""One rule for element types: a floating-point table converts every array of numbers, an integer table accepts integer
types that it can hold without loss, whatever the values are, and strict=True accepts only the exact type.
"""

import array

import numpy as np
from cases import raises, run

import multiverso as mv
import pleiad

Bad = pleiad.InvalidArgument
NUMBERS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FITS = {
    "int32": ("int8", "int16", "int32", "uint8", "uint16"),
    "int64": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
}


def start(**options):
    return pleiad.init(timeout=600, log_level="off", **options)


def kinds(s, dtype, **more):
    """Each kind of table, and a function that adds an array of a type to it."""
    yield "array", s.array(4, dtype=dtype, **more), lambda t, x: t.add(x)
    yield "parts", s.array(4, dtype=dtype, **more), lambda t, x: t.add_parts([(0, x)])
    yield "add_get", s.array(4, dtype=dtype, **more), lambda t, x: t.add_get(x)
    yield "async", s.array(4, dtype=dtype, **more), lambda t, x: t.add_async(x).wait()
    yield "matrix", s.matrix(2, 2, dtype=dtype, **more), lambda t, x: t.add(x.reshape(2, 2))
    yield "rows", s.matrix(9, 2, dtype=dtype, **more), lambda t, x: t.add(x.reshape(2, 2), rows=[3, 1])
    yield "sparse", s.sparse(2, dtype=dtype, **more), lambda t, x: t.add(x.reshape(2, 2), rows=[-7, 2**40])
    yield "key_value", s.key_value(dtype=dtype, **more), lambda t, x: t.add(x, keys=[1, 2, 3, 4])


def total(kind, table):
    if kind in ("sparse", "key_value"):
        return table.items()[1].sum()
    return table.get().sum()


def test_a_floating_point_table_converts_every_array_of_numbers():
    with start() as s:
        for dtype in ("float32", "float64"):
            for kind, table, add in kinds(s, dtype):
                for given in NUMBERS:
                    add(table, np.ones(4, given))
                s.barrier()
                assert total(kind, table) == 4 * len(NUMBERS) * s.size, (kind, dtype)
                s.barrier()


def test_values_do_not_decide_what_a_floating_point_table_accepts():
    with start() as s:
        table = s.array(3)
        exact, rounded = np.array([1.0, 2.0, 3.0]), np.array([0.1, 16777217.0, 1e-300])
        table.add(exact)
        table.add(rounded)
        s.barrier()
        expected = np.float32(0)
        for _ in range(s.size):
            expected = expected + np.float32(1) + np.float32(0.1)
        np.testing.assert_allclose(table.get()[0], expected, rtol=1e-6)
        assert table.get()[1] == np.float32(s.size * (2 + 16777216))


def test_an_integer_table_accepts_integer_types_that_fit_whatever_the_values_are():
    with start() as s:
        for dtype, fits in FITS.items():
            for kind, table, add in kinds(s, dtype):
                for given in NUMBERS:
                    if given in fits:
                        add(table, np.ones(4, given))
                        continue
                    with raises(Bad, f"holds {dtype}", f"received {given}"):
                        add(table, np.ones(4, given))  # 1 fits any type, so only the type decides
                s.barrier()
                assert total(kind, table) == 4 * len(fits) * s.size, (kind, dtype)
                s.barrier()


def test_strict_accepts_the_exact_type_only():
    with start() as s:
        for dtype in ("float32", "int64"):
            for kind, table, add in kinds(s, dtype, strict=True):
                for given in NUMBERS:
                    if given == dtype:
                        add(table, np.ones(4, given))
                        continue
                    with raises(Bad, f"holds {dtype}", "strict", f"received {given}"):
                        add(table, np.ones(4, given))
                s.barrier()
                assert total(kind, table) == 4 * s.size
                s.barrier()


def test_buffers_and_other_byte_orders_are_converted():
    with start() as s:
        table = s.array(2)
        table.add(array.array("d", [1, 2]))
        table.add(memoryview(array.array("i", [1, 2])))
        table.add(np.ones(2, ">f8"))
        s.barrier()
        np.testing.assert_array_equal(table.get(), [3 * s.size, 5 * s.size])


def test_set_follows_the_same_rule():
    with start() as s:
        table = s.array(2)
        table.set(np.array([1.5, 2.5]))
        np.testing.assert_array_equal(table.get(), [1.5, 2.5])
        s.barrier()


def test_multiverso_follows_the_same_rule():
    mv.init(log_level="off")
    table = mv.ArrayTableHandler(2)
    for given in NUMBERS:
        table.add(np.ones(2, given), sync=True)
    table.add([0.1, 16777217], sync=True)
    # Values that decided between refusal and acceptance in earlier versions.
    table.add(np.array([0.1, 1e-300]), sync=True)
    whole = mv.MatrixTableHandler(2, 2, dtype=np.int64)
    whole.add(np.ones((2, 2), np.int32), sync=True)
    whole.add([[1, 2], [3, 4]], sync=True)
    for wrong in (np.ones((2, 2)), np.ones((2, 2), np.uint64), np.ones((2, 2), np.float32)):
        with raises(Bad, "holds int64", f"received {wrong.dtype}"):
            whole.add(wrong)
    with raises(Bad, "holds int64", "float64"):
        whole.add([[1.0, 2], [3, 4]])
    narrow = mv.ArrayTableHandler(1, dtype=np.int32)
    with raises(Bad, "holds int32", "received int64"):
        narrow.add(np.array([1]))
    with raises(Bad, "holds int32", str(2**31)):
        narrow.add([2**31])
    strict = mv.ArrayTableHandler(2, strict=True)
    with raises(Bad, "strict"):
        strict.add(np.ones(2))
    strict.add(np.ones(2, np.float32))
    mv.barrier()
    np.testing.assert_array_equal(whole.get(), np.array([[2, 3], [4, 5]]) * mv.workers_num())
    mv.shutdown()


def test_a_wrong_initial_value_on_one_rank_raises_on_all():
    with start() as s:
        for odd in range(s.size):
            mine = s.rank == odd
            wrong = (
                np.zeros(4, np.complex64),
                np.zeros(5, np.float32),
                np.zeros((8, 2), np.float32)[::2, 0],
                "four",
            )
            for value in wrong:
                with raises(Bad):
                    s.array(4, value if mine else np.zeros(4, np.float32), dtype="float32")
            with raises(Bad):
                s.array(4, np.zeros(4) if mine else np.zeros(4, np.int64), dtype="int64")
            with raises(Bad):
                s.matrix(2, 2, np.zeros((4, 1), np.float32) if mine else None, dtype="float32")
            with raises(Bad, "flaot"):
                s.array(4, dtype="flaot" if mine else "float32")
        # The session is still usable.
        np.testing.assert_array_equal(s.array(2, np.ones(2), dtype="float32").get(), [1, 1])
        s.barrier()


def test_a_wrong_init_value_of_one_worker_raises_on_all():
    mv.init(log_level="off")
    for odd in range(mv.workers_num()):
        mine = mv.worker_id() == odd
        for value in ([1, 2], ["a", "b", "c"], [[1], [2, 3]], np.ones(3, np.complex64)):
            with raises(Bad):
                mv.ArrayTableHandler(3, value if mine else [1, 2, 3])
        with raises(Bad):
            mv.ArrayTableHandler(3, np.ones(3) if mine else None, dtype=np.int32)
    np.testing.assert_array_equal(mv.ArrayTableHandler(3, [1, 2, 3]).get(), [1, 2, 3])
    mv.barrier()
    mv.shutdown()


run(globals())
