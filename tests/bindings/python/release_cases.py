"""Tables that are closed, or dropped without close(), release their memory."""

import gc
import resource

import numpy as np
from cases import raises, run

import multiverso as mv
import pleiad
from multiverso.theano_ext.flat import FlatTable
from multiverso.theano_ext.param_manager import MVModelParamManager


class Variable:
    """The part of a shared variable that MVModelParamManager needs."""

    def __init__(self, value):
        self.value, self.dtype = value, value.dtype

    def get_value(self, borrow=False):
        return self.value

    def set_value(self, value, borrow=False):
        self.value = value


def shared_and_private_bytes():
    """The memory that this process has mapped and touched."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_a_thousand_managers_that_are_dropped_leave_memory_flat():
    mv.init(log_level="off")
    variable = Variable(np.ones(1 << 16, np.float32))  # 256 KB
    before = None
    for i in range(1000):
        manager = MVModelParamManager([variable])
        manager.sync_all_param()
        del manager
        if i == 50:
            gc.collect()
            before = shared_and_private_bytes()
    gc.collect()
    grown = shared_and_private_bytes() - before
    assert grown < 16 << 20, f"{grown >> 20} MB more after 950 managers of 256 KB"
    mv.barrier()
    mv.shutdown()


def test_every_kind_of_table_can_be_closed():
    with pleiad.init(timeout=600, log_level="off") as s:
        one = np.ones(1, np.float32)
        for table, add in (
            (s.array(1), lambda t: t.add(one)),
            (s.matrix(1, 1), lambda t: t.add(one)),
            (s.sparse(1), lambda t: t.add(one, rows=[5])),
            (s.key_value(), lambda t: t.add(one, keys=[5])),
            (s.array(1, clock="sync"), lambda t: t.add(one)),
        ):
            add(table)
            assert not table.closed
            table.close()
            table.close()
            assert table.closed
            with raises(pleiad.StateError, "was closed"):
                add(table)
        with s.array(1) as table:
            table.add(one)
        assert table.closed
        try:
            with s.array(1) as table:
                raise KeyError
        except KeyError:
            assert not table.closed  # the other ranks may not reach close()
        assert "tables" in s.metrics()
        s.barrier()


def test_mapped_memory_outlives_its_table():
    with pleiad.init(timeout=600, log_level="off") as s:
        table = s.array(100_000, np.arange(100_000, dtype=np.float32))
        values = table.map() if s.size == 1 else table.get()
        table.close()
        del table
        s.barrier()
        assert values[99_999] == 99_999


def test_handlers_and_managers_of_multiverso_can_be_closed():
    mv.init(log_level="off")
    with mv.ArrayTableHandler(3) as table:
        table.add([1, 2, 3])
    with raises(pleiad.StateError, "was closed"):
        table.get()
    matrix = mv.MatrixTableHandler(2, 2)
    matrix.close()
    with raises(pleiad.StateError, "was closed"):
        matrix.add(np.ones((2, 2)))
    with MVModelParamManager([Variable(np.ones(3))]) as manager:
        manager.sync_all_param()
    with raises(pleiad.StateError, "was closed"):
        manager.sync_all_param()
    mv.shutdown()


def test_a_table_that_is_started_again_has_the_masters_values():
    mv.init(log_level="off")
    flat = FlatTable([np.full(3, 1.0 + mv.worker_id())], name="flat", where="flat")
    flat.sync([np.full(3, 7.0)])
    assert flat.fits([np.zeros(3)]) and not flat.fits([np.zeros(4)])
    flat.start_again([np.full(3, 5.0 + mv.worker_id())])
    np.testing.assert_array_equal(flat.values[0], 5)
    mv.barrier()
    mv.shutdown()


def test_an_updater_that_does_not_exist_fails_at_init():
    for wrong in ("nope", {"rule": "momentum", "momentum": 2}, {"rule": "sgdd"}):
        with raises(pleiad.InvalidArgument):
            mv.init(updater=wrong, log_level="off")
    with raises(pleiad.InvalidArgument, "updater_type", "nope"):
        mv.init(flags=["-updater_type=nope"], log_level="off")
    mv.init(updater="sgd", log_level="off")  # a failed init leaves no open session
    mv.shutdown()


run(globals())
