"""pleiad.h: every invalid call returns its code and message and leaves its outputs unchanged, and the process
continues.
"""

import os
import re
import threading
import time
from ctypes import byref, c_char_p, c_int32, c_int64, c_void_p

from binding import (
    FLOAT32,
    FLOAT64,
    FUNCTIONS,
    INT32,
    INTERRUPTED,
    INVALID_ARGUMENT,
    MEMORY,
    ORDER,
    STATE,
    SUM,
    TIMEOUT,
    TRANSPORT,
    AddOptions,
    Failed,
    Interrupt,
    Session,
    TableInfo,
    TableStats,
    TakeRows,
    World,
    array,
    c,
    check,
    fails,
    ids,
    last_error,
    text,
)
from runner import case

UNTOUCHED = 1234.5


def calls(s, array_table, matrix, pending):
    """Every function that returns a code, with valid arguments. Collectives are called with zero elements."""
    floats, more_floats = array(FLOAT32, [UNTOUCHED] * 6), array(FLOAT32, [UNTOUCHED] * 6)
    number, out, name = c_int32(), c_void_p(), c_char_p()
    begin, end = c_int64(), c_int64()
    t, m, wanted = array_table.handle, matrix.handle, ids(0)
    return {
        "pleiad_session_world": [s.handle, byref(World())],
        "pleiad_session_worker_rank": [s.handle, 0, byref(number)],
        "pleiad_session_server_rank": [s.handle, 0, byref(number)],
        "pleiad_session_host_of": [s.handle, 0, byref(number)],
        "pleiad_session_alive": [s.handle, 0, byref(number)],
        "pleiad_session_host_name": [s.handle, 0, byref(name)],
        "pleiad_session_engine": [s.handle, byref(name)],
        "pleiad_session_stats": [s.handle, byref(name)],
        "pleiad_session_report": [s.handle, byref(name)],
        "pleiad_session_set_interrupt": [s.handle, Interrupt(), None],
        "pleiad_barrier": [s.handle],
        "pleiad_all_reduce": [s.handle, floats, 1, FLOAT32, SUM],
        "pleiad_broadcast": [s.handle, floats, 1, FLOAT32, 0],
        "pleiad_all_gather": [s.handle, floats, 1, FLOAT32, floats],
        "pleiad_reduce_scatter": [s.handle, floats, floats, 1, FLOAT32, SUM],
        "pleiad_send": [s.handle, s.rank, 1, floats, 1, FLOAT32],
        "pleiad_receive": [s.handle, s.rank, 1, floats, 1, FLOAT32],
        "pleiad_array_create": [s.handle, 3, FLOAT32, None, None, byref(out)],
        "pleiad_matrix_create": [s.handle, 3, 3, FLOAT32, None, None, byref(out)],
        "pleiad_sparse_create": [s.handle, 3, FLOAT32, None, byref(out)],
        "pleiad_key_value_create": [s.handle, 1, FLOAT32, None, byref(out)],
        "pleiad_table_refuse": [s.handle, b"a mistake"],
        "pleiad_table_rows": [m, byref(begin)],
        "pleiad_table_evict": [m, byref(begin)],
        "pleiad_table_get_changed": [m, TakeRows(lambda *_: None), None],
        "pleiad_table_close": [t],
        "pleiad_table_describe": [t, byref(TableInfo())],
        "pleiad_table_name": [t, byref(name)],
        "pleiad_table_shard": [t, 0, byref(begin), byref(end)],
        "pleiad_table_get_stats": [t, byref(TableStats())],
        "pleiad_table_get": [t, floats, 6, FLOAT32],
        "pleiad_table_add": [t, floats, 6, FLOAT32, None],
        "pleiad_table_add_get": [t, floats, more_floats, 6, FLOAT32, None],
        "pleiad_table_exchange": [t, floats, more_floats, 6, FLOAT32, None],
        "pleiad_table_get_rows": [m, wanted, 1, floats, 3, FLOAT32],
        "pleiad_table_add_rows": [m, wanted, 1, floats, 3, FLOAT32, None],
        "pleiad_table_get_async": [t, floats, 6, FLOAT32, byref(out)],
        "pleiad_table_add_async": [t, floats, 6, FLOAT32, None, byref(out)],
        "pleiad_table_get_rows_async": [m, wanted, 1, floats, 3, FLOAT32, byref(out)],
        "pleiad_table_add_rows_async": [m, wanted, 1, floats, 3, FLOAT32, None, byref(out)],
        "pleiad_pending_wait": [pending],
        "pleiad_pending_done": [pending, byref(number)],
        "pleiad_session_shutdown": [s.handle],
    }


# Null pointers that are valid: no options, no initial values, no callback data, an add without a handle.
MAY_BE_NULL = {
    "pleiad_session_start": {0},
    "pleiad_session_set_interrupt": {1, 2},
    "pleiad_array_create": {3, 4},
    "pleiad_matrix_create": {4, 5},
    "pleiad_sparse_create": {3},
    "pleiad_key_value_create": {3},
    "pleiad_table_evict": {1},
    "pleiad_table_get_changed": {2},
    "pleiad_table_add": {4},
    "pleiad_table_add_get": {5},
    "pleiad_table_exchange": {5},
    "pleiad_table_add_rows": {6},
    "pleiad_table_add_async": {4, 5},
    "pleiad_table_add_rows_async": {6, 7},
}


def points(kind):
    return kind in (c_void_p, c_char_p, Interrupt, TakeRows) or hasattr(kind, "contents")


@case()
def a_null_pointer_is_an_error_in_every_function():
    fails(INVALID_ARGUMENT, c.pleiad_session_start(None, None), "null")
    without_session = {"pleiad_session_start", "pleiad_updater_check"}
    with Session() as s:
        array_table, matrix = s.array(6), s.matrix(2, 3)
        pending = array_table.add_async([0] * 6)
        tried = 0
        good = calls(s, array_table, matrix, pending)
        assert set(good) | without_session == {name for name, (result, args) in FUNCTIONS.items() if result and args}
        for name, arguments in good.items():
            for at, kind in enumerate(FUNCTIONS[name][1]):
                if points(kind) and at not in MAY_BE_NULL.get(name, ()):
                    null = TakeRows() if kind is TakeRows else None
                    wrong = [null if i == at else a for i, a in enumerate(arguments)]
                    fails(INVALID_ARGUMENT, getattr(c, name)(*wrong), "null")
                    tried += 1
        assert tried > 50
        for free in (c.pleiad_session_free, c.pleiad_table_free, c.pleiad_pending_free):
            free(None)
        c.pleiad_pending_free(pending)
        s.barrier()
        assert array_table.get() == [0] * 6


@case()
def after_the_shutdown_every_function_says_so():
    s = Session()
    array_table, matrix = s.array(6), s.matrix(2, 3)
    pending = array_table.add_async([0] * 6)
    s.shutdown()
    for name, arguments in calls(s, array_table, matrix, pending).items():
        if name.startswith("pleiad_pending"):
            check(getattr(c, name)(*arguments))
        else:
            fails(STATE, getattr(c, name)(*arguments), "shut down")
    c.pleiad_pending_free(pending)
    c.pleiad_table_free(matrix.handle)
    s.free()
    fails(STATE, c.pleiad_table_get(array_table.handle, array_table.zeros(), 6, FLOAT32), "shut down")
    c.pleiad_table_free(array_table.handle)


@case()
def a_forked_child_is_refused_by_every_function():
    s = Session()
    array_table, matrix = s.array(6), s.matrix(2, 3)
    pending = array_table.add_async([0] * 6)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for name, arguments in calls(s, array_table, matrix, pending).items():
                fails(STATE, getattr(c, name)(*arguments), "forked")
            c.pleiad_pending_free(pending)
            c.pleiad_table_free(matrix.handle)
            c.pleiad_session_free(s.handle)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    s.barrier()
    assert array_table.get() == [0] * 6
    s.shutdown()
    s.free()


@case()
def numbers_that_mean_nothing_are_refused():
    with Session() as s:
        floats, table = array(FLOAT32, [UNTOUCHED] * 8), s.array(8)
        for dtype in (-1, 4, 99):
            fails(INVALID_ARGUMENT, c.pleiad_all_reduce(s.handle, floats, 1, dtype, SUM), str(dtype), "float32")
            fails(INVALID_ARGUMENT, c.pleiad_table_get(table.handle, floats, 8, dtype), str(dtype))
            fails(
                INVALID_ARGUMENT, c.pleiad_array_create(s.handle, 3, dtype, None, None, byref(c_void_p())), str(dtype)
            )
        for op in (-1, 4):
            fails(INVALID_ARGUMENT, c.pleiad_all_reduce(s.handle, floats, 1, FLOAT32, op), str(op), "max")
            fails(INVALID_ARGUMENT, c.pleiad_reduce_scatter(s.handle, floats, floats, 1, FLOAT32, op), str(op))
        fails(INVALID_ARGUMENT, c.pleiad_broadcast(s.handle, floats, -1, FLOAT32, 0), "-1")
        fails(INVALID_ARGUMENT, c.pleiad_all_gather(s.handle, floats, 2**62, FLOAT32, floats), str(2**62))
        for rank in (-1, s.size):
            fails(INVALID_ARGUMENT, c.pleiad_broadcast(s.handle, floats, 1, FLOAT32, rank), str(rank))
            fails(INVALID_ARGUMENT, c.pleiad_send(s.handle, rank, 0, floats, 1, FLOAT32), str(rank))
            fails(INVALID_ARGUMENT, c.pleiad_receive(s.handle, rank, 0, floats, 1, FLOAT32), str(rank))
            for name in ("worker_rank", "server_rank", "host_of", "alive"):
                number = c_int32(7)
                fails(INVALID_ARGUMENT, getattr(c, f"pleiad_session_{name}")(s.handle, rank, byref(number)), str(rank))
                assert number.value == 7
            begin, end = c_int64(7), c_int64(8)
            fails(INVALID_ARGUMENT, c.pleiad_table_shard(table.handle, rank, byref(begin), byref(end)), str(rank))
            assert (begin.value, end.value) == (7, 8)
        assert list(floats) == [UNTOUCHED] * 8


@case()
def a_wrong_size_type_or_row_is_refused_and_changes_nothing():
    with Session() as s:
        table, matrix = s.array(6, FLOAT32, "name=weights"), s.matrix(2, 3, FLOAT32, "name=rows")
        floats = array(FLOAT32, [UNTOUCHED] * 9)
        doubles = array(FLOAT64, [UNTOUCHED] * 6)
        for count in (0, 5, 7):
            fails(
                INVALID_ARGUMENT, c.pleiad_table_get(table.handle, floats, count, FLOAT32), "weights", "6", str(count)
            )
            fails(INVALID_ARGUMENT, c.pleiad_table_add(table.handle, floats, count, FLOAT32, None), "weights")
        fails(INVALID_ARGUMENT, c.pleiad_table_get(table.handle, doubles, 6, FLOAT64), "float32", "float64")
        fails(INVALID_ARGUMENT, c.pleiad_table_add(table.handle, doubles, 6, FLOAT64, None), "float32", "float64")
        for row in (-1, 2, 2**40, -(2**63)):
            for call in (c.pleiad_table_get_rows, c.pleiad_table_add_rows):
                more = [None] if call is c.pleiad_table_add_rows else []
                fails(
                    INVALID_ARGUMENT, call(matrix.handle, ids(0, row), 2, floats, 6, FLOAT32, *more), "rows", str(row)
                )
            out = c_void_p()
            returned = c.pleiad_table_get_rows_async(matrix.handle, ids(row), 1, floats, 3, FLOAT32, byref(out))
            fails(INVALID_ARGUMENT, returned, str(row))
            returned = c.pleiad_table_add_rows_async(matrix.handle, ids(row), 1, floats, 3, FLOAT32, None, byref(out))
            fails(INVALID_ARGUMENT, returned, str(row))
            assert out.value is None
        fails(INVALID_ARGUMENT, c.pleiad_table_get_rows(matrix.handle, ids(0, 1), 2, floats, 5, FLOAT32), "6", "5")
        fails(INVALID_ARGUMENT, c.pleiad_table_get_rows(matrix.handle, ids(0), -1, floats, 3, FLOAT32), "-1")
        fails(INVALID_ARGUMENT, c.pleiad_table_get_rows(table.handle, ids(0), 1, floats, 6, FLOAT32), "no rows")
        fails(INVALID_ARGUMENT, c.pleiad_table_add_rows(table.handle, ids(0), 1, floats, 6, FLOAT32, None), "no rows")
        for call in (c.pleiad_table_add_get, c.pleiad_table_exchange):
            fails(INVALID_ARGUMENT, call(matrix.handle, floats, doubles, 6, FLOAT32, None), "expected an array")
            fails(INVALID_ARGUMENT, call(table.handle, floats, doubles, 9, FLOAT32, None), "weights", "6", "9")
        fails(INVALID_ARGUMENT, c.pleiad_table_exchange(table.handle, floats, floats, 6, FLOAT32, None), "overlap")
        options = AddOptions(set=16)
        fails(INVALID_ARGUMENT, c.pleiad_table_add(table.handle, floats, 6, FLOAT32, byref(options)), "0x10")
        assert list(floats) == [UNTOUCHED] * 9 and list(doubles) == [UNTOUCHED] * 6
        s.barrier()
        assert table.get() == [0] * 6 and matrix.get() == [0] * 6
        s.barrier()
        table.add([1] * 6)
        s.barrier()
        assert table.get() == [s.size] * 6


@case()
def options_that_do_not_exist_are_refused_with_the_nearest():
    out = c_void_p()
    fails(INVALID_ARGUMENT, c.pleiad_session_start(b"timeuot=3", byref(out)), "timeuot", 'did you mean "timeout"')
    fails(INVALID_ARGUMENT, c.pleiad_session_start(b"timeout=soon", byref(out)), "timeout", "soon")
    fails(INVALID_ARGUMENT, c.pleiad_session_start(b"timeout=0", byref(out)), "timeout")
    fails(INVALID_ARGUMENT, c.pleiad_session_start(b"timeout", byref(out)), "name=value")
    fails(INVALID_ARGUMENT, c.pleiad_session_start(b"engine=mpj", byref(out)), "mpj", "solo")
    assert out.value is None
    with Session() as s:
        for options, words in (
            (b"clok=sync", ("clok", 'did you mean "clock"')),
            (b"clock=snyc", ("snyc", "sync")),
            (b"updater=adma", ("adma", 'did you mean "adam"')),
            (b"updater.momentum=fast", ("momentum", "fast")),
            (b"dtype=int64", ("float32", "int64")),
            (b"apply=round", ("round", "sync")),
            (b"init_rank=99", ("99",)),
        ):
            fails(INVALID_ARGUMENT, c.pleiad_array_create(s.handle, 3, FLOAT32, options, None, byref(out)), *words)
        fails(INVALID_ARGUMENT, c.pleiad_array_create(s.handle, 0, FLOAT32, None, None, byref(out)), "0")
        fails(INVALID_ARGUMENT, c.pleiad_matrix_create(s.handle, 3, -2, FLOAT32, None, None, byref(out)), "-2")
        fails(
            INVALID_ARGUMENT,
            c.pleiad_array_create(s.handle, 3, INT32, b"updater=adam", None, byref(out)),
            "int32",
            "sum",
        )
        assert out.value is None
        assert s.array(3).get() == [0] * 3, "a table that was refused takes no number"


@case()
def not_a_number_is_refused_where_asked_for():
    with Session() as s:
        table = s.array(3, FLOAT64, "check_finite=true")
        for bad in (float("nan"), float("inf"), float("-inf")):
            fails(
                INVALID_ARGUMENT,
                c.pleiad_table_add(table.handle, array(FLOAT64, [1, bad, 1]), 3, FLOAT64, None),
                "position 1",
            )
        s.barrier()
        assert table.get() == [0] * 3


@case()
def no_memory_is_an_error_on_every_rank():
    with Session() as s:
        out = c_void_p()
        fails(MEMORY, c.pleiad_array_create(s.handle, 2**50, FLOAT64, None, None, byref(out)))
        assert out.value is None
        assert s.array(3).get() == [0] * 3


@case(at_least=2)
def different_tables_are_an_order_error_on_every_rank():
    with Session() as s:
        out = c_void_p()
        size = 5 if s.rank == 1 else 4
        fails(ORDER, c.pleiad_array_create(s.handle, size, FLOAT32, b"name=w", None, byref(out)), "rank 1", '"w"')
        assert s.array(3).get() == [0] * 3


@case(at_least=2)
def a_mistake_of_one_rank_is_told_to_all_who_create():
    with Session() as s:
        for mistake in (b"updater=adma", b"clock=snyc"):
            options = mistake if s.rank == 1 else b"updater=adam"
            code = c.pleiad_array_create(s.handle, 4, FLOAT32, options, None, byref(c_void_p()))
            fails(INVALID_ARGUMENT, code, mistake.decode().partition("=")[2])
        code = c.pleiad_array_create(s.handle, 4, 7 if s.rank == 1 else FLOAT32, None, None, byref(c_void_p()))
        fails(INVALID_ARGUMENT, code, "unknown dtype 7")
        if s.rank == 1:
            code = c.pleiad_table_refuse(s.handle, b"the values do not fit")
        else:
            code = c.pleiad_array_create(s.handle, 4, FLOAT32, None, None, byref(c_void_p()))
        fails(INVALID_ARGUMENT, code, "the values do not fit")
        assert s.array(3).get() == [0] * 3


@case(at_least=2)
def different_collectives_are_an_order_error():
    s = Session()
    number = array(INT32, [1])
    code = c.pleiad_barrier(s.handle) if s.rank == 0 else c.pleiad_all_reduce(s.handle, number, 1, INT32, SUM)
    fails(ORDER, code, "barrier", "all_reduce")
    c.pleiad_session_shutdown(s.handle)
    s.free()


@case(at_least=2)
def a_wrong_order_on_a_synchronous_table_is_an_error_on_every_rank():
    s = Session()
    table = s.array(3, FLOAT32, "name=w, clock=sync")
    try:
        if s.rank == 0:
            table.add([1, 1, 1])
        for _ in range(4):
            table.add([1, 1, 1])
            table.get()
        raise AssertionError("nobody noticed")
    except Failed as error:
        assert error.code == ORDER and "w" in str(error), error
    c.pleiad_session_shutdown(s.handle)
    s.free()


@case(at_least=2)
def a_second_thread_on_a_synchronous_table_is_refused():
    with Session() as s:
        table = s.array(3, FLOAT32, "clock=sync")
        if s.rank == 0:
            table.add([1, 1, 1])
            waiting = threading.Thread(target=table.get)  # the other ranks have not added yet
            waiting.start()
            while not re.search(r"^rank 0 .*: get\(.*, waiting", text(c.pleiad_session_report, s.handle), re.M):
                time.sleep(0.01)
            fails(STATE, c.pleiad_table_get(table.handle, table.zeros(), 3, FLOAT32), "another thread")
            for other in range(1, s.size):
                check(c.pleiad_send(s.handle, other, 1, array(FLOAT32, [0]), 1, FLOAT32))
            waiting.join()
        else:
            check(c.pleiad_receive(s.handle, 0, 1, array(FLOAT32, [0]), 1, FLOAT32))
            table.add([1, 1, 1])
            table.get()


def stay_until_gone(s, rank):
    """Waits until that rank has left the session."""
    alive = c_int32(1)
    while alive.value:
        check(c.pleiad_session_alive(s.handle, rank, byref(alive)))
        time.sleep(0.01)


@case(at_least=2)
def a_late_rank_is_a_timeout():
    s = Session("timeout=5, log_level=off")
    if s.rank == 0:
        fails(TIMEOUT, c.pleiad_barrier(s.handle), "rank 1")
        assert float(re.search(r"barrier waited (\d+\.\d) s", last_error())[1]) >= 5
    else:
        stay_until_gone(s, 0)
    s.free()


@case(at_least=2)
def an_interrupt_ends_a_wait_on_the_thread_that_waits():
    s = Session()
    asked = []

    @Interrupt
    def interrupt(data):
        asked.append((threading.get_ident(), data))
        return int(len(asked) >= 3)

    check(c.pleiad_session_set_interrupt(s.handle, interrupt, 0x1234))
    if s.rank == 0:
        fails(INTERRUPTED, c.pleiad_barrier(s.handle), "rank 1")
        assert asked == [(threading.get_ident(), 0x1234)] * 3
    else:
        stay_until_gone(s, 0)
    check(c.pleiad_session_set_interrupt(s.handle, Interrupt(), None))
    s.free()


@case(at_least=2)
def the_interrupt_is_not_asked_on_threads_of_the_session():
    with Session() as s:
        table = s.array(3, FLOAT32, "clock=sync")
        asked = []

        @Interrupt
        def interrupt(data):
            asked.append(threading.get_ident())
            return 0

        check(c.pleiad_session_set_interrupt(s.handle, interrupt, None))
        if s.rank == 0:
            table.add([1, 1, 1])
            asked.clear()
            out = table.zeros()
            pending = table.get_async(out)  # a thread of the session waits for the adds of the other ranks
            time.sleep(0.3)
            assert asked == []

            def let_go():  # after this rank's own wait has begun
                while not asked:
                    time.sleep(0.01)
                for other in range(1, s.size):
                    check(c.pleiad_send(s.handle, other, 1, array(FLOAT32, [0]), 1, FLOAT32))

            helper = threading.Thread(target=let_go)
            helper.start()
            check(c.pleiad_pending_wait(pending))
            helper.join()
            assert set(asked) == {threading.get_ident()}, "now this one waits"
            c.pleiad_pending_free(pending)
            assert list(out) == [s.size] * 3
        else:
            check(c.pleiad_receive(s.handle, 0, 1, array(FLOAT32, [0]), 1, FLOAT32))
            table.add([1, 1, 1])
            table.get()
        check(c.pleiad_session_set_interrupt(s.handle, Interrupt(), None))


@case(at_least=2)
def a_session_freed_without_shutdown_is_dead_to_the_others():
    s = Session()
    table = s.array(10)
    s.barrier()
    if s.rank == 1:
        s.free()
        fails(STATE, c.pleiad_table_get(table.handle, table.zeros(), 10, FLOAT32))
        return
    fails(TRANSPORT, c.pleiad_barrier(s.handle), "rank 1", "died")
    alive = c_int32(-1)
    check(c.pleiad_session_alive(s.handle, 1, byref(alive)))
    assert alive.value == 0
    table.add([1] * 10)  # the shards of the table still exist
    fails(TRANSPORT, c.pleiad_session_shutdown(s.handle), "rank 1")
    fails(STATE, c.pleiad_barrier(s.handle))
    s.free()


@case(at_least=2)
def a_session_freed_with_operations_under_way_ends_at_once():
    s = Session()
    table = s.array(10, FLOAT32, "clock=sync")
    begin = time.monotonic()
    if s.rank == 0:
        table.add([1] * 10)
        out = table.zeros()
        pending = table.get_async(out)  # rank 1 never adds
        s.free()
        fails(STATE, c.pleiad_pending_wait(pending), "before the operation was complete")
        c.pleiad_pending_free(pending)
        assert list(out) == [0] * 10
    else:
        stay_until_gone(s, 0)
        s.free()
    assert time.monotonic() - begin < 60


@case()
def a_closed_table_refuses_calls_and_the_others_go_on():
    with Session() as s:
        closed, kept = s.array(3), s.array(3)
        check(c.pleiad_table_close(closed.handle))
        out = array(FLOAT32, [7] * 3)
        fails(STATE, c.pleiad_table_get(closed.handle, out, 3, FLOAT32), "the table was closed")
        fails(STATE, c.pleiad_table_add(closed.handle, out, 3, FLOAT32, None), "the table was closed")
        fails(STATE, c.pleiad_table_close(closed.handle), "the table was closed")
        assert list(out) == [7] * 3
        check(c.pleiad_table_add(kept.handle, out, 3, FLOAT32, None))
        s.barrier()
        assert list(kept.get()) == [7 * s.size] * 3


@case()
def a_second_session_in_a_launched_world_is_refused():
    with Session() as s:
        engine = c_char_p()
        check(c.pleiad_session_engine(s.handle, byref(engine)))
        if engine.value == b"mpi":
            fails(STATE, c.pleiad_session_start(None, byref(c_void_p())), "already")
        with Session("engine=solo, log_level=off") as other:
            assert other.size == 1
        s.barrier()
