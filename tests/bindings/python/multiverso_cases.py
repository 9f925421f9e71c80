"""The package multiverso in a world of any size."""

import numpy as np
from cases import raises, run

import multiverso as mv
import pleiad
from multiverso import api


def start(*sync, **options):
    mv.init(*sync, timeout=600, log_level="error", **options)


def test_the_world_is_numbered():
    start()
    assert 0 <= mv.worker_id() < mv.workers_num()
    assert mv.server_id() == mv.worker_id()
    assert mv.is_master_worker() == (mv.worker_id() == 0)
    assert api._session() is pleiad.session()
    mv.shutdown()


def test_after_a_barrier_all_see_the_same():
    start()
    table = mv.ArrayTableHandler(1000)
    for i in range(1, 20):
        table.add(np.full(1000, mv.worker_id() + 1, np.float32))
        mv.barrier()
        values = table.get(sync=True)
        expected = i * mv.workers_num() * (mv.workers_num() + 1) / 2
        np.testing.assert_array_equal(values, expected)
        mv.barrier()
    mv.shutdown()


def test_synchronous_gets_are_bit_identical_on_all_ranks():
    start(True)
    random = np.random.default_rng(mv.worker_id())
    array = mv.ArrayTableHandler(3000)
    matrix = mv.MatrixTableHandler(30, 100)
    for i in range(10):
        array.add(random.standard_normal(3000, np.float32), sync=i % 2 == 0)
        matrix.add(random.standard_normal((2, 100), np.float32), row_ids=[i, 29])
        for values in (array.get(), matrix.get(), matrix.get([29, i])):
            everywhere = api._session().all_gather(values)
            assert (everywhere.view(np.uint32) == values.view(np.uint32)).all()
    mv.shutdown()


def test_the_masters_values_start_the_table():
    for sync in (False, True):
        start(sync)
        mine = np.arange(6, dtype=np.float32) * (mv.worker_id() + 1)
        np.testing.assert_array_equal(mv.ArrayTableHandler(6, mine).get(), np.arange(6))
        np.testing.assert_array_equal(mv.MatrixTableHandler(2, 3, mine).get(), [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(mv.MatrixTableHandler(2, 3, mine.reshape(2, 3)).get([1]), [[3, 4, 5]])
        only_the_masters = mine if mv.is_master_worker() else None
        np.testing.assert_array_equal(mv.ArrayTableHandler(6, only_the_masters).get(), np.arange(6))
        mv.shutdown()


def test_other_element_types_and_out():
    start()
    for dtype in (np.float64, np.int32, np.int64):
        table = mv.ArrayTableHandler(3, [1, 2, 3], dtype=dtype)
        out = np.empty(3, dtype)
        assert table.get(out=out) is out
        np.testing.assert_array_equal(out, [1, 2, 3])
        assert table.get().dtype == table.dtype == dtype
    big = mv.ArrayTableHandler(1, dtype=np.float64)
    big.add([16777217.0], sync=True)
    mv.barrier()
    assert big.get()[0] == 16777217 * mv.workers_num()
    mv.shutdown()


def test_a_get_that_is_started():
    start()
    table = mv.MatrixTableHandler(4, 2, np.arange(8))
    future = table.get([3, 0], sync=False)
    np.testing.assert_array_equal(future.result(), [[6, 7], [0, 1]])
    np.testing.assert_array_equal(mv.ArrayTableHandler(2, [1, 2]).get(sync=False).result(), [1, 2])
    mv.shutdown()


def check_rule(expected, **options):
    start(**options)
    table = mv.ArrayTableHandler(2, [1, 1])
    if mv.is_master_worker():
        table.add([0.5, 0.5], sync=True)
    mv.barrier()
    np.testing.assert_allclose(table.get(), expected, rtol=1e-6)
    whole = mv.ArrayTableHandler(2, dtype=np.int32)  # integers are always summed
    whole.add([1, 1], sync=True)
    mv.barrier()
    np.testing.assert_array_equal(whole.get(), mv.workers_num())
    mv.shutdown()


def test_updaters_that_the_original_could_not_pass():
    check_rule(1.5)
    check_rule(0.5, updater="sgd")
    check_rule(0.5, flags=["-updater_type=sgd"])
    check_rule(0.5, flags="-updater_type=sgd")
    check_rule(1 - 0.1 * 0.5, updater={"rule": "momentum_sgd", "momentum": 0.9})
    check_rule(1 - 0.1 * 0.5, flags=["-updater_type=momentum_sgd", "-updater.momentum=0.9"])
    check_rule(1 - 0.1 * 0.5, updater=pleiad.Updater("momentum_sgd", momentum=0.9))
    with raises(pleiad.InvalidArgument, "unknown.*momentun"):
        start(updater={"rule": "sgd", "momentun": 1})


def test_a_table_has_options_of_its_own():
    start()
    table = mv.ArrayTableHandler(2, name="own", clock="sync", check_finite=True, updater="sgd")
    assert table.table.name == "own"
    with raises(pleiad.InvalidArgument, "own", "nan"):
        table.add([np.nan, 1], sync=True)
    table.add([1, 1], sync=True)
    np.testing.assert_array_equal(table.get(), -mv.workers_num())
    mv.shutdown()


def test_flags_of_the_session():
    mv.init(flags=["-timeout=17", "-log_level=error", "-omp_threads=4", "-sync=true"])
    assert api._session().options["timeout"] == "17"
    mv.shutdown()


run(globals())
