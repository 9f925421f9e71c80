"""multiverso/c_api.h: the tests of Multiverso itself, its weak points, and its flags."""

import math
import os
import threading
import time
from ctypes import byref, c_char_p, c_float, c_int, c_void_p

from binding import INVALID_ARGUMENT, ORDER, STATE, c, mv, mv_error, mv_fails, mv_fine, mv_init
from runner import case, ranks_launched

QUIET = ("-log_level=off", "-timeout=600")
UNTOUCHED = 1234.5


def floats(values):
    values = list(values)
    return (c_float * len(values))(*values)


def rows(*numbers):
    return (c_int * len(numbers))(*numbers)


def new_array(size):
    handle = c_void_p()
    mv.MV_NewArrayTable(size, byref(handle))
    mv_fine()
    return handle


def new_matrix(num_row, num_col):
    handle = c_void_p()
    mv.MV_NewMatrixTable(num_row, num_col, byref(handle))
    mv_fine()
    return handle


def get_array(table, size):
    out = (c_float * size)()
    mv.MV_GetArrayTable(table, out, size)
    mv_fine()
    return list(out)


class Multiverso:
    """Calls MV_Init before a case and MV_ShutDown after it."""

    def __init__(self, *flags):
        c.pleiad_clear_error()
        self.left = mv_init(*QUIET, *flags)
        mv_fine()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        mv.MV_ShutDown()
        if kind is None:
            mv_fine()


# The cases of Multiverso's own tests.


def array_test(*flags):
    size = 10_000
    with Multiverso(*flags):
        workers, table = mv.MV_NumWorkers(), new_array(size)
        delta = floats(i + 1 for i in range(size))
        for j in range(100):
            mv.MV_AddAsyncArrayTable(table, delta, size)
            mv.MV_AddAsyncArrayTable(table, delta, size)
            mv.MV_Barrier()
            assert get_array(table, size) == [(j + 1) * (i + 1) * 2 * workers for i in range(size)], f"round {j}"
            mv.MV_Barrier()
        mv_fine()


def matrix_test(*flags):
    num_row, num_col = 11, 10
    size, wanted = num_row * num_col, rows(0, 1, 5, 10)
    with Multiverso(*flags):
        workers, table = mv.MV_NumWorkers(), new_matrix(num_row, num_col)
        delta = floats(range(size))
        by_rows = floats(row * num_col + col for row in wanted for col in range(num_col))
        for count in range(1, 21):
            mv.MV_AddMatrixTableAll(table, delta, size)
            mv.MV_AddAsyncMatrixTableByRows(table, by_rows, 4 * num_col, wanted, 4)
            mv.MV_AddMatrixTableByRows(table, by_rows, 4 * num_col, wanted, 4)
            mv.MV_AddAsyncMatrixTableAll(table, delta, size)
            mv.MV_Barrier()
            out = (c_float * size)()
            mv.MV_GetMatrixTableAll(table, out, size)
            times = {row: 4 if row in (0, 1, 5, 10) else 2 for row in range(num_row)}
            assert list(out) == [i * count * times[i // num_col] * workers for i in range(size)]
            out = (c_float * (4 * num_col))()
            mv.MV_GetMatrixTableByRows(table, out, 4 * num_col, wanted, 4)
            assert list(out) == [v * count * 4 * workers for v in by_rows]
            mv.MV_Barrier()
        mv_fine()


@case()
def the_original_array_test_asynchronous():
    array_test()


@case()
def the_original_array_test_synchronous():
    array_test("-sync=true")


@case()
def the_original_matrix_test_asynchronous():
    matrix_test()


@case()
def the_original_matrix_test_synchronous():
    matrix_test("-sync=true")


# Weak points of the original.


@case()
def a_row_asked_for_twice_comes_twice_and_no_rows_are_fine():
    for flags in ((), ("-sync=true",)):
        with Multiverso(*flags):
            table = new_matrix(6, 2)
            mv.MV_AddMatrixTableByRows(table, floats([1, 2, 3, 4, 5, 6]), 6, rows(4, 4, 2), 3)
            mv.MV_AddMatrixTableByRows(table, None, 0, None, 0)
            mv.MV_Barrier()
            out, n = floats([0] * 6), mv.MV_NumWorkers()
            mv.MV_GetMatrixTableByRows(table, out, 6, rows(4, 2, 4), 3)
            assert list(out) == [4 * n, 6 * n, 5 * n, 6 * n, 4 * n, 6 * n]
            mv.MV_GetMatrixTableByRows(table, out, 0, rows(), 0)
            assert out[0] == 4 * n
            mv_fine()


@case()
def a_row_that_does_not_exist_is_refused():
    with Multiverso():
        table = new_matrix(6, 2)
        for bad in (6, -1, 1000, -(2**31)):
            out = floats([UNTOUCHED] * 4)
            for call in (mv.MV_GetMatrixTableByRows, mv.MV_AddMatrixTableByRows, mv.MV_AddAsyncMatrixTableByRows):
                call(table, out, 4, rows(0, bad), 2)
                mv_fails(INVALID_ARGUMENT, "0 to 5", str(bad))
            assert list(out) == [UNTOUCHED] * 4
        mv.MV_Barrier()
        out = floats([1] * 12)
        mv.MV_GetMatrixTableAll(table, out, 12)
        assert list(out) == [0] * 12, "nothing was added"
        mv_fine()


@case()
def a_wrong_size_is_refused():
    with Multiverso():
        table, matrix = new_array(10), new_matrix(5, 2)
        out = floats([UNTOUCHED] * 20)
        for size in (9, 11, 0, -1):
            for call in (mv.MV_GetArrayTable, mv.MV_AddArrayTable, mv.MV_AddAsyncArrayTable):
                call(table, out, size)
                mv_fails(INVALID_ARGUMENT, str(size))
            for call in (mv.MV_GetMatrixTableAll, mv.MV_AddMatrixTableAll, mv.MV_AddAsyncMatrixTableAll):
                call(matrix, out, size)
                mv_fails(INVALID_ARGUMENT, str(size))
            mv.MV_GetMatrixTableByRows(matrix, out, size, rows(0, 1), 2)
            mv_fails(INVALID_ARGUMENT, str(size))
        mv.MV_GetMatrixTableByRows(matrix, out, 2, rows(0), -1)
        mv_fails(INVALID_ARGUMENT, "-1")
        for size in (0, -5):
            handle = c_void_p(77)
            mv.MV_NewArrayTable(size, byref(handle))
            mv_fails(INVALID_ARGUMENT, str(size))
            assert handle.value == 77
        mv.MV_NewMatrixTable(3, 0, byref(handle))
        mv_fails(INVALID_ARGUMENT, "3 x 0")
        assert list(out) == [UNTOUCHED] * 20
        mv.MV_Barrier()
        assert get_array(table, 10) == [0] * 10


@case()
def what_is_no_table_is_refused():
    with Multiverso():
        table, matrix, out = new_array(4), new_matrix(2, 2), floats([UNTOUCHED] * 4)
        for handle in (None, c_void_p(8), c_void_p(table.value + 8)):
            mv.MV_GetArrayTable(handle, out, 4)
            mv_fails(INVALID_ARGUMENT, "null" if handle is None else "not a table")
            mv.MV_AddAsyncMatrixTableByRows(handle, out, 2, rows(0), 1)
            mv_fails(INVALID_ARGUMENT)
        mv.MV_GetArrayTable(matrix, out, 4)
        mv_fails(INVALID_ARGUMENT, "matrix")
        mv.MV_GetMatrixTableAll(table, out, 4)
        mv_fails(INVALID_ARGUMENT, "array")
        mv.MV_GetArrayTable(table, None, 4)
        mv_fails(INVALID_ARGUMENT, "null")
        mv.MV_GetMatrixTableByRows(matrix, out, 2, None, 1)
        mv_fails(INVALID_ARGUMENT, "null")
        mv.MV_NewArrayTable(4, None)
        mv_fails(INVALID_ARGUMENT, "null")
        assert list(out) == [UNTOUCHED] * 4


@case()
def a_table_may_be_smaller_than_the_number_of_servers():
    for flags in ((), ("-sync=true",)):
        with Multiverso(*flags):
            table, matrix, n = new_array(1), new_matrix(1, 3), mv.MV_NumWorkers()
            mv.MV_AddArrayTable(table, floats([5]), 1)
            mv.MV_AddMatrixTableByRows(matrix, floats([1, 2, 3]), 3, rows(0), 1)
            mv.MV_Barrier()
            assert get_array(table, 1) == [5 * n]
            out = floats([0] * 3)
            mv.MV_GetMatrixTableAll(matrix, out, 3)
            assert list(out) == [n, 2 * n, 3 * n]


@case()
def a_second_init_fails_and_the_session_goes_on():
    with Multiverso():
        table = new_array(3)
        argv, argc = (c_char_p * 2)(b"program", b"-sync=true"), c_int(2)
        mv.MV_Init(byref(argc), argv)
        mv_fails(STATE, "MV_ShutDown")
        assert argc.value == 2 and list(argv) == [b"program", b"-sync=true"]
        mv.MV_AddArrayTable(table, floats([1, 2, 3]), 3)
        mv.MV_Barrier()
        assert get_array(table, 3) == [mv.MV_NumWorkers() * v for v in (1, 2, 3)]


@case()
def without_a_session_every_call_fails():
    c.pleiad_clear_error()
    old = c_void_p()
    for when in ("before", "after"):
        out, handle = floats([UNTOUCHED] * 4), c_void_p(77)
        for call in (mv.MV_ShutDown, mv.MV_Barrier):
            call()
            mv_fails(STATE, "MV_Init")
        for call in (mv.MV_NumWorkers, mv.MV_WorkerId, mv.MV_ServerId):
            assert call() == -1
            mv_fails(STATE, "MV_Init")
        mv.MV_NewArrayTable(4, byref(handle))
        mv_fails(STATE, "MV_Init")
        mv.MV_NewMatrixTable(2, 2, byref(handle))
        mv_fails(STATE, "MV_Init")
        for call in (mv.MV_GetArrayTable, mv.MV_AddArrayTable, mv.MV_AddAsyncArrayTable):
            call(old, out, 4)
            mv_fails(STATE if when == "after" else INVALID_ARGUMENT)
        assert handle.value == 77 and list(out) == [UNTOUCHED] * 4
        if when == "before":
            with Multiverso():
                old = new_array(4)
    with Multiverso():
        young = new_array(4)
        mv.MV_GetArrayTable(old, out, 4)
        mv_fails(STATE, "shut down")
        assert get_array(young, 4) == [0] * 4


@case()
def init_and_shutdown_follow_each_other():
    for round in range(4):
        with Multiverso(*(("-sync=true",) if round % 2 else ())):
            table = new_array(5)
            mv.MV_AddArrayTable(table, floats([round] * 5), 5)
            mv.MV_Barrier()
            assert get_array(table, 5) == [round * mv.MV_NumWorkers()] * 5


@case()
def two_threads_call_one_table():
    with Multiverso():
        table, matrix = new_array(500), new_matrix(20, 5)
        problems = []

        def work(k):
            try:
                for _ in range(100):
                    mv.MV_AddAsyncArrayTable(table, floats([1] * 500), 500)
                    mv.MV_AddMatrixTableByRows(matrix, floats([1] * 10), 10, rows(k, 19), 2)
                    assert min(get_array(table, 500)) > 0
                mv_fine()
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        mv.MV_Barrier()
        n = mv.MV_NumWorkers()
        assert get_array(table, 500) == [200 * n] * 500
        out = floats([0] * 100)
        mv.MV_GetMatrixTableAll(matrix, out, 100)
        assert list(out) == [100 * n] * 10 + [0] * 85 + [200 * n] * 5


@case(at_least=2)
def a_wrong_order_of_synchronous_calls_is_told_to_every_rank():
    c.pleiad_clear_error()
    mv_init(*QUIET, "-sync=true")
    table = new_array(3)
    out = floats([UNTOUCHED] * 3)
    if mv.MV_WorkerId() == 0:
        mv.MV_AddArrayTable(table, out, 3)
    for _ in range(4):
        mv.MV_AddArrayTable(table, floats([1] * 3), 3)
        mv.MV_GetArrayTable(table, out, 3)
    mv_fails(ORDER, "table 0")
    mv.MV_ShutDown()
    c.pleiad_clear_error()


@case()
def the_buffer_of_an_asynchronous_add_is_free_again():
    for flags in ((), ("-sync=true",)):
        with Multiverso(*flags):
            table, delta = new_array(1000), floats([1] * 1000)
            for _ in range(10):
                mv.MV_AddAsyncArrayTable(table, delta, 1000)
                for i in range(1000):
                    delta[i] = 1000
                for i in range(1000):
                    delta[i] = 1
            mv.MV_Barrier()
            assert get_array(table, 1000) == [10 * mv.MV_NumWorkers()] * 1000


@case()
def asynchronous_adds_leave_the_memory_flat():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    with Multiverso():
        table, delta, before = new_array(100), floats([1] * 100), 0
        for i in range(200_000):
            mv.MV_AddAsyncArrayTable(table, delta, 100)
            if i == 1000:
                before = resident()
        assert resident() - before < 4_000_000
        mv.MV_Barrier()
        assert get_array(table, 100) == [200_000 * mv.MV_NumWorkers()] * 100


# Flags.


def follow(rule, deltas, lr=0.01, momentum=0.0, rho=0.1, lam=0.1):
    """Applies one of Multiverso's updaters to one element in double precision."""
    w = s = g2 = ms = shadow = 0.0
    for d in deltas:
        if rule == "default":
            w += d
        elif rule == "sgd":
            w -= d
        elif rule == "momentum_sgd":
            s = momentum * s + (1 - momentum) * d
            w -= s
        elif rule == "adagrad":
            g2 += (d / lr) ** 2
            w -= rho / math.sqrt(g2 + 1e-6) * d / lr
        else:
            g = d / lr
            factor = lam
            if rule == "dcasgda":
                ms = momentum * ms + (1 - momentum) * g * g
                factor = lam / math.sqrt(ms + 1e-7)
            w -= lr * (g + factor * g * g * (w - shadow))
            shadow = w
    return w


@case()
def the_flag_updater_type_chooses_the_formula():
    deltas = [0.5, -0.25, 0.125]
    for rule in ("default", "sgd", "momentum_sgd", "adagrad", "dcasgd", "dcasgda"):
        for sync in ("false", "true"):
            momentum = 0.75 if rule in ("momentum_sgd", "dcasgda") else 0.0
            given = ("-updater.momentum=0.75",) if momentum else ()
            with Multiverso(f"-updater_type={rule}", f"-sync={sync}", *given):
                table, first = new_array(3), mv.MV_WorkerId() == 0
                for d in deltas:
                    if first or sync == "true":
                        mv.MV_AddArrayTable(table, floats([d if first else 0.0] * 3), 3)
                    mv.MV_Barrier()
                if mv.MV_NumWorkers() > 1 and sync == "true" and momentum:
                    continue  # adds of zero count as steps, too, and their order among the others is not defined
                expected = follow(rule, deltas, momentum=momentum)
                for value in get_array(table, 3):
                    assert abs(value - expected) <= 2e-5 * max(1, abs(expected)), (rule, sync, value, expected)
                mv.MV_Barrier()


@case()
def flags_are_taken_out_of_argv():
    with Multiverso(
        "train", "-sync=TRUE", "-x", "-backup_worker_ratio=20", "-mine=3", "-omp_threads=4", "a=b", "--y=1"
    ) as m:
        assert m.left == ["train", "-x", "-mine=3", "a=b", "--y=1"]
    for idle in ("logtostderr=true", "machine_file=a,b", "port=1", "allocator_type=smart", "allocator_alignment=16"):
        with Multiverso(f"-{idle}") as m:
            assert m.left == []
    argc = c_int(1)
    for arguments in ((None, None), (byref(argc), None), (None, (c_char_p * 1)(b"x"))):
        mv.MV_Init(*arguments)
        mv_fine()
        mv.MV_ShutDown()
        mv_fine()


@case()
def a_flag_with_a_wrong_value_is_an_error_and_starts_nothing():
    for flag, words in (
        ("-sync=maybe", ("sync", "maybe")),
        ("-updater_type=adagard", ("adagard", 'did you mean "adagrad"')),
        ("-ps_role=boss", ("boss", "worker")),
        ("-timeout=soon", ("timeout", "soon")),
        ("-updater.momentun=0.9", ("momentun", 'did you mean "momentum"')),
        ("-table.check_finite=perhaps", ("check_finite", "perhaps")),
        ("-updater.rho=1,2", ("comma",)),
    ):
        left = mv_init(flag, "more")
        mv_fails(INVALID_ARGUMENT, *words)
        assert left == [flag, "more"]
        assert mv.MV_WorkerId() == -1
        mv_error()
    with Multiverso():
        assert mv.MV_WorkerId() >= 0


@case()
def options_of_tables_can_be_given_as_flags():
    with Multiverso("-table.check_finite=true"):
        table = new_array(2)
        mv.MV_AddArrayTable(table, floats([1, float("nan")]), 2)
        mv_fails(INVALID_ARGUMENT, "position 1")


@case()
def model_averaging_has_no_servers_and_no_tables():
    with Multiverso("-ma=true"):
        assert (mv.MV_NumWorkers(), mv.MV_ServerId()) == (ranks_launched(), -1)
        handle = c_void_p(77)
        mv.MV_NewArrayTable(3, byref(handle))
        mv_fails(STATE, "-ma=true")
        assert handle.value == 77
        mv.MV_Barrier()


@case(at_least=2)
def a_server_alone_holds_the_table_and_workers_use_it():
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    for flags in ((), ("-sync=true",)):
        with Multiverso("-ps_role=server" if rank == 0 else "-ps_role=worker", *flags):
            assert mv.MV_NumWorkers() == ranks_launched() - 1
            assert (mv.MV_WorkerId(), mv.MV_ServerId()) == ((-1, 0) if rank == 0 else (rank - 1, -1))
            table = new_array(10)
            assert (table.value is None) == (rank == 0)
            if rank > 0:
                mv.MV_AddArrayTable(table, floats([2] * 10), 10)
            mv.MV_Barrier()
            if rank > 0:
                assert get_array(table, 10) == [2 * mv.MV_NumWorkers()] * 10
            mv.MV_Barrier()


@case(at_least=2)
def a_slow_worker_is_waited_for():
    with Multiverso("-sync=true"):
        table = new_array(2)
        if mv.MV_WorkerId() == 1:
            time.sleep(0.3)
        mv.MV_AddArrayTable(table, floats([1, 2]), 2)
        assert get_array(table, 2) == [mv.MV_NumWorkers(), 2 * mv.MV_NumWorkers()]
