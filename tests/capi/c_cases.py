"""pleiad.h: what each function does, for any number of ranks."""

import os
import threading
import time
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_void_p, cast

from binding import (
    CTYPES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    MAX,
    MIN,
    OK,
    SET_LEARNING_RATE,
    SET_MOMENTUM,
    STATE,
    SUM,
    AddOptions,
    Session,
    TableInfo,
    TableStats,
    TakeRows,
    array,
    c,
    check,
    ids,
    last_error,
    text,
)
from runner import case, ranks_launched


def number(function, *arguments):
    out = c_int32(-99)
    check(function(*arguments, byref(out)))
    return out.value


@case()
def the_world_says_who_is_there():
    with Session() as s:
        w = s.world
        assert (w.size, w.workers, w.servers) == (ranks_launched(),) * 3
        assert (w.worker_id, w.server_id, w.hosts, w.host) == (w.rank, w.rank, 1, 0)
        for r in range(w.size):
            assert number(c.pleiad_session_worker_rank, s.handle, r) == r
            assert number(c.pleiad_session_server_rank, s.handle, r) == r
            assert number(c.pleiad_session_host_of, s.handle, r) == 0
            assert number(c.pleiad_session_alive, s.handle, r) == 1
            assert text(c.pleiad_session_host_name, s.handle, r) != ""
        assert text(c.pleiad_session_engine, s.handle) in ("solo", "mpi")
        s.barrier()


@case()
def roles_decide_who_works_and_who_serves():
    for role, expected in (("worker", (1, 0, 0, -1)), ("server", (0, 1, -1, 0)), ("none", (0, 0, -1, -1))):
        with Session(f"engine=solo, role={role}, log_level=off") as s:
            w = s.world
            assert (w.workers, w.servers, w.worker_id, w.server_id) == expected


@case()
def arrays_of_every_type_sum_exactly():
    with Session() as s:
        for dtype in CTYPES:
            initial = array(dtype, [100 + i for i in range(33)])
            table = s.array(33, dtype, "name=sums", initial if s.rank == 0 else None)
            assert table.get() == list(initial)
            s.barrier()
            delta = [(s.rank + 1) * i for i in range(33)]
            table.add(delta)
            pending = table.add_async(delta)
            check(c.pleiad_pending_wait(pending))
            c.pleiad_pending_free(pending)
            s.barrier()
            ranks = s.size * (s.size + 1) // 2
            expected = [100 + i + 2 * ranks * i for i in range(33)]
            assert table.get() == expected
            out = table.zeros()
            pending = table.get_async(out)
            check(c.pleiad_pending_wait(pending))
            check(c.pleiad_pending_wait(pending))
            c.pleiad_pending_free(pending)
            assert list(out) == expected
            s.barrier()
            c.pleiad_table_free(table.handle)


@case()
def an_initial_value_counts_on_its_rank_only():
    with Session() as s:
        last = s.size - 1
        table = s.array(4, INT32, f"init_rank={last}", array(INT32, [s.rank] * 4))
        assert table.get() == [last] * 4


@case()
def integers_beyond_the_floats_stay_exact():
    with Session() as s:
        table = s.array(2, INT64, None, array(INT64, [2**53, -(2**62)]))
        table.add([1, 1])
        s.barrier()
        assert table.get() == [2**53 + s.size, -(2**62) + s.size]


@case()
def sparse_tables_of_every_type_make_rows():
    with Session() as s:
        for dtype in CTYPES:
            table = s.sparse(2, dtype, "name=rows, track_changes=true")
            info, rows = TableInfo(), c_int64()
            check(c.pleiad_table_describe(table.handle, byref(info)))
            assert (info.rows, info.cols, info.dtype, info.matrix) == (0, 2, dtype, 2)
            table.add_rows([2**62, -5, 2**62], [1, 2, 3, 4, 5, 6])
            s.barrier()
            n = s.size
            assert table.get_rows(2**62, 7, -5) == [6 * n, 8 * n, 0, 0, 3 * n, 4 * n]
            check(c.pleiad_table_rows(table.handle, byref(rows)))
            assert rows.value == 2
            seen = {}

            def take(data, ids, count, values, seen=seen, dtype=dtype):
                numbers = cast(values, POINTER(CTYPES[dtype]))
                seen.update({ids[i]: [numbers[2 * i], numbers[2 * i + 1]] for i in range(count)})

            check(c.pleiad_table_get_changed(table.handle, TakeRows(take), None))
            assert seen == {2**62: [6 * n, 8 * n], -5: [3 * n, 4 * n]}
            seen.clear()
            check(c.pleiad_table_get_changed(table.handle, TakeRows(take), None))
            assert seen == {}
            s.barrier()


@case()
def key_value_tables_count_and_forget():
    with Session() as s:
        table = s.sparse(1, INT64, "max_rows=1, evict=true", "pleiad_key_value_create")
        info, gone = TableInfo(), c_int64()
        check(c.pleiad_table_describe(table.handle, byref(info)))
        assert info.matrix == 3
        s.barrier()
        if s.rank == 0:
            table.add_rows([4], [10])
            table.add_rows([9], [1])
            assert table.get_rows(4, 9) == [0, 1]
            check(c.pleiad_table_evict(table.handle, byref(gone)))
            assert gone.value == 1
            check(c.pleiad_table_evict(table.handle, None))
        s.barrier()


@case()
def matrices_of_every_type_take_rows_twice_and_none():
    with Session() as s:
        for dtype in CTYPES:
            table = s.matrix(9, 2, dtype)
            table.add_rows([8, 0, 8], [1, 2, 3, 4, 5, 6])
            table.add_rows([], [])
            delta, wanted = array(dtype, [10, 20]), ids(4)
            check(c.pleiad_table_add_rows_async(table.handle, wanted, 1, delta, 2, dtype, None, None))
            delta[0], wanted[0] = 77, 5  # both buffers may be reused now
            s.barrier()
            n = s.size
            assert table.get_rows(8, 4, 8, 1) == [6 * n, 8 * n, 10 * n, 20 * n, 6 * n, 8 * n, 0, 0]
            assert table.get_rows() == []
            out, pending = table.zeros(2), c_void_p()
            check(c.pleiad_table_get_rows_async(table.handle, ids(0), 1, out, 2, dtype, byref(pending)))
            check(c.pleiad_pending_wait(pending))
            c.pleiad_pending_free(pending)
            assert list(out) == [3 * n, 4 * n]
            whole = table.get()
            assert whole[16:] == [6 * n, 8 * n] and whole[:2] == [3 * n, 4 * n] and whole[10:12] == [0, 0]
            s.barrier()
            table.add([1] * 18)
            s.barrier()
            assert table.get() == [v + n for v in whole]
            s.barrier()


@case()
def options_of_a_table_choose_the_rule_and_those_of_an_add_its_rates():
    with Session() as s:
        table = s.array(2, FLOAT64, "updater=momentum, updater.learning_rate=0.5, momentum=0.25")
        velocity, value = 0.0, 0.0
        if s.rank == 0:
            table.add([8, 8])
            velocity = 0.25 * velocity + 8
            value -= 0.5 * velocity
            options = AddOptions(
                set=SET_LEARNING_RATE | SET_MOMENTUM, learning_rate=2, momentum=0.5, rho=-1, lambda_=-1
            )
            table.add([4, 4], byref(options))
            velocity = 0.5 * velocity + 4
            value -= 2 * velocity
            table.add([0, 0], byref(AddOptions()))  # no field is set, so the options of the table apply
            velocity = 0.25 * velocity
            value -= 0.5 * velocity
        s.barrier()
        s_value = array(FLOAT64, [value])
        check(c.pleiad_broadcast(s.handle, s_value, 1, FLOAT64, 0))
        assert table.get() == [s_value[0]] * 2 and s_value[0] != 0


@case()
def rounds_apply_the_rule_once_on_the_sum():
    with Session() as s:
        table = s.array(3, FLOAT32, "clock=sync, apply=round, ordered=true, updater=sgd, learning_rate=1")
        for round in range(1, 4):
            table.add([1, 2, 3])
            assert table.get() == [-round * s.size * v for v in (1, 2, 3)]


@case()
def an_add_and_a_get_in_one_call():
    with Session() as s:
        for dtype in (FLOAT32, FLOAT64, INT32, INT64):
            table = s.array(3, dtype, "clock=sync", array(dtype, [1, 2, 3]))
            delta, values, last = (array(dtype, [1, 1, 2]), array(dtype, [0] * 3), array(dtype, [0] * 3))
            check(c.pleiad_table_add_get(table.handle, delta, values, 3, dtype, None))
            expected = [1 + s.size, 2 + s.size, 3 + 2 * s.size]
            assert list(values) == expected
            last[:] = expected
            values[0] += 5
            check(c.pleiad_table_exchange(table.handle, values, last, 3, dtype, None))
            expected[0] += 5 * s.size
            assert list(values) == list(last) == expected


@case()
def collectives_of_every_type():
    with Session() as s:
        n = s.size
        for dtype in CTYPES:
            data = array(dtype, [s.rank + 1, -s.rank])
            check(c.pleiad_all_reduce(s.handle, data, 2, dtype, SUM))
            assert list(data) == [n * (n + 1) / 2, -n * (n - 1) / 2]
            for op, expected in ((MIN, 0), (MAX, n - 1)):
                data = array(dtype, [s.rank])
                check(c.pleiad_all_reduce(s.handle, data, 1, dtype, op))
                assert list(data) == [expected]
            data = array(dtype, [s.rank * 5 + 1])
            check(c.pleiad_broadcast(s.handle, data, 1, dtype, n - 1))
            assert list(data) == [(n - 1) * 5 + 1]
            out = (CTYPES[dtype] * (2 * n))()
            check(c.pleiad_all_gather(s.handle, array(dtype, [s.rank, 7]), 2, dtype, out))
            assert list(out) == [v for r in range(n) for v in (r, 7)]
            out = (CTYPES[dtype] * 2)()
            blocks = array(dtype, [10 * r + s.rank for r in range(n) for _ in range(2)])
            check(c.pleiad_reduce_scatter(s.handle, blocks, out, 2, dtype, SUM))
            assert list(out) == [10 * s.rank * n + n * (n - 1) / 2] * 2
        check(c.pleiad_all_reduce(s.handle, None, 0, FLOAT32, SUM))  # no elements are valid, too


@case()
def messages_arrive_in_order_by_tag():
    with Session() as s:
        to, source = (s.rank + 1) % s.size, (s.rank - 1) % s.size
        for tag, value in ((1, 10), (2, 20), (1, 11)):
            check(c.pleiad_send(s.handle, to, tag, array(INT64, [value + 100 * s.rank]), 1, INT64))
        for tag, value in ((2, 20), (1, 10), (1, 11)):
            out = (c_int64 * 1)()
            check(c.pleiad_receive(s.handle, source, tag, out, 1, INT64))
            assert out[0] == value + 100 * source
        s.barrier()


@case()
def a_table_describes_itself():
    with Session() as s:
        array_table, matrix = s.array(10, FLOAT64, "name=weights"), s.matrix(7, 3, INT32)
        info = TableInfo()
        check(c.pleiad_table_describe(matrix.handle, byref(info)))
        assert (info.rows, info.cols, info.dtype, info.matrix, info.id) == (7, 3, INT32, 1, 1)
        check(c.pleiad_table_describe(array_table.handle, byref(info)))
        assert (info.rows, info.cols, info.dtype, info.matrix, info.id) == (1, 10, FLOAT64, 0, 0)
        assert text(c.pleiad_table_name, array_table.handle) == "weights"
        assert text(c.pleiad_table_name, matrix.handle) == "table 1"
        covered = []
        for server in range(s.size):
            begin, end = c_int64(), c_int64()
            check(c.pleiad_table_shard(matrix.handle, server, byref(begin), byref(end)))
            covered += range(begin.value, end.value)
        assert covered == list(range(7))
        matrix.get(), matrix.get_rows(1, 2), array_table.add([1] * 10)
        stats = TableStats()
        check(c.pleiad_table_get_stats(matrix.handle, byref(stats)))
        assert (stats.gets, stats.adds, stats.bytes_got, stats.torn_stripes) == (2, 0, 84 + 24, 0)
        check(c.pleiad_table_get_stats(array_table.handle, byref(stats)))
        assert (stats.gets, stats.adds, stats.bytes_added) == (0, 1, 80) and stats.add_seconds > 0
        assert "weights" in text(c.pleiad_session_stats, s.handle)
        assert f"rank {s.rank}" in text(c.pleiad_session_report, s.handle)
        s.barrier()


@case()
def a_handle_can_be_freed_before_the_operation_is_done():
    with Session() as s:
        big = s.array(1 << 20)
        out = big.zeros()
        for _ in range(20):
            c.pleiad_pending_free(big.get_async(out))
        out[0] = 5
        time.sleep(0.05)
        assert out[0] == 5, "a freed get leaves its buffer alone"
        table = s.array(8, INT64, "clock=sync")
        for _ in range(50):
            c.pleiad_pending_free(table.add_async([1] * 8))
        check(c.pleiad_table_add_async(table.handle, array(INT64, [1] * 8), 8, INT64, None, None))
        assert table.get() == [51 * s.size] * 8


@case()
def several_operations_are_outstanding_at_once():
    with Session() as s:
        table = s.array(300_000)
        table.add([1] * table.size)
        s.barrier()
        outs = [table.zeros() for _ in range(4)]
        pendings = [table.get_async(out) for out in outs]
        done = c_int32(-1)
        check(c.pleiad_pending_done(pendings[0], byref(done)))
        assert done.value in (0, 1)
        for pending in reversed(pendings):
            check(c.pleiad_pending_wait(pending))
            check(c.pleiad_pending_done(pending, byref(done)))
            assert done.value == 1
            c.pleiad_pending_free(pending)
        assert all(out[0] == out[299_999] == s.size for out in outs)


@case()
def a_pending_operation_survives_its_session():
    s = Session()
    table, big = s.array(4, INT64, "clock=sync"), s.array(1 << 20)
    pendings = [table.add_async([1] * 4) for _ in range(10)]
    out = big.zeros()
    pendings.append(big.get_async(out))
    s.shutdown()
    s.free()
    done = c_int32()
    for pending in pendings:
        check(c.pleiad_pending_done(pending, byref(done)))
        assert done.value == 1
        check(c.pleiad_pending_wait(pending))
        c.pleiad_pending_free(pending)
    assert c.pleiad_table_get(table.handle, table.zeros(), 4, INT64) == STATE
    c.pleiad_table_free(table.handle)


@case()
def sessions_follow_each_other_whatever_is_left_of_the_last():
    kept = []
    for round in range(3):
        s = Session()
        table = s.array(5, INT32)
        table.add([round] * 5)
        s.barrier()
        assert table.get() == [round * s.size] * 5
        s.barrier()
        s.shutdown()
        kept.append((s, table))
    for s, table in kept:
        c.pleiad_table_free(table.handle)
        s.free()


@case()
def many_threads_call_one_table():
    with Session() as s:
        array_table, matrix = s.array(1000, INT64), s.matrix(50, 4, FLOAT64)
        problems = []

        def work(k):
            try:
                for i in range(50):
                    array_table.add([1] * 1000)
                    matrix.add_rows([k, (k + i) % 50], [1] * 8)
                    assert min(array_table.get()) >= i + 1
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        s.barrier()
        assert array_table.get() == [200 * s.size] * 1000
        assert sum(matrix.get()) == 4 * 50 * 8 * s.size


@case()
def errors_belong_to_a_thread_and_stay_until_the_next():
    assert c.pleiad_barrier(None) != OK
    words = last_error()
    assert words != ""
    seen = []
    thread = threading.Thread(target=lambda: seen.append((last_error(), c.pleiad_last_error_code())))
    thread.start()
    thread.join()
    assert seen == [("", OK)]
    with Session() as s:
        s.barrier()
        assert last_error() == words, "success leaves it alone"
    c.pleiad_clear_error()
    assert (last_error(), c.pleiad_last_error_code()) == ("", OK)


@case()
def rows_beyond_two_to_the_31():
    with Session() as s:
        rows = 3_000_000_000
        table = s.matrix(rows, 1, INT32, "reserve_only=true")
        table.add_rows([rows - 1, 2**31, 1], [1, 2, 3])
        s.barrier()
        assert table.get_rows(1, 2**31, rows - 1, rows - 2) == [3 * s.size, 2 * s.size, s.size, 0]
        s.barrier()


@case()
def asynchronous_adds_leave_the_memory_flat():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    with Session() as s:
        table = s.array(16)
        delta, count = (c_float * 16)(*[1] * 16), 100_000
        before = 0
        for i in range(count):
            check(c.pleiad_table_add_async(table.handle, delta, 16, FLOAT32, None, None))
            if i == 1000:
                before = resident()
        assert resident() - before < 4_000_000
        s.barrier()
        assert table.get() == [min(count * s.size, 1 << 24)] * 16
        s.barrier()


@case()
def the_environment_wins_over_the_options():
    os.environ["PLEIAD_ROLE"] = "server"
    try:
        with Session("engine=solo, role=worker, log_level=off") as s:
            assert (s.world.worker_id, s.world.server_id) == (-1, 0)
    finally:
        del os.environ["PLEIAD_ROLE"]
