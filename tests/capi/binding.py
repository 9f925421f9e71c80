"""ctypes bindings of libpleiad and libmultiverso. The tests see only what the libraries export."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

LIB = Path(os.environ["PLEIAD_BUILD"]) / "lib"

OK, INVALID_ARGUMENT, STATE, ORDER, TRANSPORT, TIMEOUT, MEMORY, INTERRUPTED, INTERNAL, FILE = range(10)
FLOAT32, FLOAT64, INT32, INT64 = range(4)
SUM, MIN, MAX = range(3)
CTYPES = {FLOAT32: c_float, FLOAT64: c_double, INT32: c_int32, INT64: c_int64}
SET_LEARNING_RATE, SET_MOMENTUM, SET_RHO, SET_LAMBDA = 1, 2, 4, 8


class World(ctypes.Structure):
    _fields_ = [(n, c_int32) for n in ["rank", "size", "workers", "servers", "worker_id", "server_id", "hosts", "host"]]


class TableInfo(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("cols", c_int64), ("dtype", c_int32), ("matrix", c_int32), ("id", c_uint32)]


class TableStats(ctypes.Structure):
    _fields_ = [
        *((n, c_uint64) for n in ["adds", "gets", "bytes_added", "bytes_got"]),
        *((n, c_double) for n in ["add_seconds", "get_seconds", "wait_seconds"]),
        ("torn_stripes", c_uint64),
    ]


class AddOptions(ctypes.Structure):
    _fields_ = [("set", c_uint32), *((n, c_double) for n in ["learning_rate", "momentum", "rho", "lambda_"])]


TakeRows = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_int64), c_int64, c_void_p)
Interrupt = ctypes.CFUNCTYPE(c_int, c_void_p)

SESSION = TABLE = PENDING = BUFFER = c_void_p
OUT = POINTER(c_void_p)
NUMBER = POINTER(c_int32)
TEXT = POINTER(c_char_p)
IDS = POINTER(c_int64)
OPTIONS = POINTER(AddOptions)

# The result and the argument types of each function of pleiad.h.
FUNCTIONS = {
    "pleiad_version": (c_char_p, []),
    "pleiad_last_error": (c_char_p, []),
    "pleiad_last_error_code": (c_int, []),
    "pleiad_clear_error": (None, []),
    "pleiad_session_start": (c_int, [c_char_p, OUT]),
    "pleiad_session_shutdown": (c_int, [SESSION]),
    "pleiad_session_free": (None, [SESSION]),
    "pleiad_session_world": (c_int, [SESSION, POINTER(World)]),
    "pleiad_session_worker_rank": (c_int, [SESSION, c_int32, NUMBER]),
    "pleiad_session_server_rank": (c_int, [SESSION, c_int32, NUMBER]),
    "pleiad_session_host_of": (c_int, [SESSION, c_int32, NUMBER]),
    "pleiad_session_alive": (c_int, [SESSION, c_int32, NUMBER]),
    "pleiad_session_host_name": (c_int, [SESSION, c_int32, TEXT]),
    "pleiad_session_engine": (c_int, [SESSION, TEXT]),
    "pleiad_session_stats": (c_int, [SESSION, TEXT]),
    "pleiad_session_report": (c_int, [SESSION, TEXT]),
    "pleiad_session_set_interrupt": (c_int, [SESSION, Interrupt, c_void_p]),
    "pleiad_barrier": (c_int, [SESSION]),
    "pleiad_all_reduce": (c_int, [SESSION, BUFFER, c_int64, c_int, c_int]),
    "pleiad_broadcast": (c_int, [SESSION, BUFFER, c_int64, c_int, c_int32]),
    "pleiad_all_gather": (c_int, [SESSION, BUFFER, c_int64, c_int, BUFFER]),
    "pleiad_reduce_scatter": (c_int, [SESSION, BUFFER, BUFFER, c_int64, c_int, c_int]),
    "pleiad_send": (c_int, [SESSION, c_int32, c_uint32, BUFFER, c_int64, c_int]),
    "pleiad_receive": (c_int, [SESSION, c_int32, c_uint32, BUFFER, c_int64, c_int]),
    "pleiad_array_create": (c_int, [SESSION, c_int64, c_int, c_char_p, BUFFER, OUT]),
    "pleiad_matrix_create": (c_int, [SESSION, c_int64, c_int64, c_int, c_char_p, BUFFER, OUT]),
    "pleiad_sparse_create": (c_int, [SESSION, c_int64, c_int, c_char_p, OUT]),
    "pleiad_key_value_create": (c_int, [SESSION, c_int64, c_int, c_char_p, OUT]),
    "pleiad_table_refuse": (c_int, [SESSION, c_char_p]),
    "pleiad_table_rows": (c_int, [TABLE, IDS]),
    "pleiad_table_evict": (c_int, [TABLE, IDS]),
    "pleiad_table_get_changed": (c_int, [TABLE, TakeRows, c_void_p]),
    "pleiad_table_free": (None, [TABLE]),
    "pleiad_table_close": (c_int, [TABLE]),
    "pleiad_updater_check": (c_int, [c_char_p]),
    "pleiad_table_describe": (c_int, [TABLE, POINTER(TableInfo)]),
    "pleiad_table_name": (c_int, [TABLE, TEXT]),
    "pleiad_table_shard": (c_int, [TABLE, c_int32, IDS, IDS]),
    "pleiad_table_get_stats": (c_int, [TABLE, POINTER(TableStats)]),
    "pleiad_table_get": (c_int, [TABLE, BUFFER, c_int64, c_int]),
    "pleiad_table_add": (c_int, [TABLE, BUFFER, c_int64, c_int, OPTIONS]),
    "pleiad_table_add_get": (c_int, [TABLE, BUFFER, BUFFER, c_int64, c_int, OPTIONS]),
    "pleiad_table_exchange": (c_int, [TABLE, BUFFER, BUFFER, c_int64, c_int, OPTIONS]),
    "pleiad_table_get_rows": (c_int, [TABLE, IDS, c_int64, BUFFER, c_int64, c_int]),
    "pleiad_table_add_rows": (c_int, [TABLE, IDS, c_int64, BUFFER, c_int64, c_int, OPTIONS]),
    "pleiad_table_get_async": (c_int, [TABLE, BUFFER, c_int64, c_int, OUT]),
    "pleiad_table_add_async": (c_int, [TABLE, BUFFER, c_int64, c_int, OPTIONS, OUT]),
    "pleiad_table_get_rows_async": (c_int, [TABLE, IDS, c_int64, BUFFER, c_int64, c_int, OUT]),
    "pleiad_table_add_rows_async": (c_int, [TABLE, IDS, c_int64, BUFFER, c_int64, c_int, OPTIONS, OUT]),
    "pleiad_pending_wait": (c_int, [PENDING]),
    "pleiad_pending_done": (c_int, [PENDING, NUMBER]),
    "pleiad_pending_free": (None, [PENDING]),
}

FLOATS = POINTER(c_float)
INTS = POINTER(c_int)
HANDLE = c_void_p

# The functions of multiverso/c_api.h.
MV_FUNCTIONS = {
    "MV_Init": (None, [INTS, POINTER(c_char_p)]),
    "MV_ShutDown": (None, []),
    "MV_Barrier": (None, []),
    "MV_NumWorkers": (c_int, []),
    "MV_WorkerId": (c_int, []),
    "MV_ServerId": (c_int, []),
    "MV_NewArrayTable": (None, [c_int, OUT]),
    "MV_GetArrayTable": (None, [HANDLE, FLOATS, c_int]),
    "MV_AddArrayTable": (None, [HANDLE, FLOATS, c_int]),
    "MV_AddAsyncArrayTable": (None, [HANDLE, FLOATS, c_int]),
    "MV_NewMatrixTable": (None, [c_int, c_int, OUT]),
    "MV_GetMatrixTableAll": (None, [HANDLE, FLOATS, c_int]),
    "MV_AddMatrixTableAll": (None, [HANDLE, FLOATS, c_int]),
    "MV_AddAsyncMatrixTableAll": (None, [HANDLE, FLOATS, c_int]),
    "MV_GetMatrixTableByRows": (None, [HANDLE, FLOATS, c_int, INTS, c_int]),
    "MV_AddMatrixTableByRows": (None, [HANDLE, FLOATS, c_int, INTS, c_int]),
    "MV_AddAsyncMatrixTableByRows": (None, [HANDLE, FLOATS, c_int, INTS, c_int]),
}


def load(name, functions):
    library = ctypes.CDLL(str(LIB / name))
    for function, (result, arguments) in functions.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


c = load("libpleiad.so", FUNCTIONS)
mv = load("libmultiverso.so", MV_FUNCTIONS)


def last_error():
    return c.pleiad_last_error().decode()


class Failed(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}: {last_error()}")
        self.code = code


def check(code):
    if code != OK:
        raise Failed(code)


def fails(code, returned, *words):
    """Checks that a call returned `code` and that its message contains each of these texts."""
    assert returned == code, f"expected code {code}, received {returned}: {last_error() if returned else 'success'}"
    assert c.pleiad_last_error_code() == code
    for word in words:
        assert word in last_error(), f"expected {word!r} in {last_error()!r}"


def array(dtype, values):
    values = list(values)
    return (CTYPES[dtype] * len(values))(*values)


def ids(*numbers):
    return (c_int64 * len(numbers))(*numbers)


class Table:
    """A table of pleiad.h. Its methods raise Failed."""

    def __init__(self, handle, dtype, rows, cols):
        self.handle, self.dtype, self.rows, self.cols = handle, dtype, rows, cols
        self.size = rows * cols

    def zeros(self, count=None):
        return (CTYPES[self.dtype] * (self.size if count is None else count))()

    def get(self):
        out = self.zeros()
        check(c.pleiad_table_get(self.handle, out, len(out), self.dtype))
        return list(out)

    def add(self, values, options=None):
        delta = array(self.dtype, values)
        check(c.pleiad_table_add(self.handle, delta, len(delta), self.dtype, options))

    def get_rows(self, *rows):
        out = self.zeros(len(rows) * self.cols)
        check(c.pleiad_table_get_rows(self.handle, ids(*rows), len(rows), out, len(out), self.dtype))
        return list(out)

    def add_rows(self, rows, values, options=None):
        delta = array(self.dtype, values)
        check(c.pleiad_table_add_rows(self.handle, ids(*rows), len(rows), delta, len(delta), self.dtype, options))

    def get_async(self, out):
        pending = c_void_p()
        check(c.pleiad_table_get_async(self.handle, out, len(out), self.dtype, byref(pending)))
        return pending

    def add_async(self, values, options=None):
        delta, pending = array(self.dtype, values), c_void_p()
        check(c.pleiad_table_add_async(self.handle, delta, len(delta), self.dtype, options, byref(pending)))
        return pending


def text(function, *arguments):
    out = c_char_p()
    check(function(*arguments, byref(out)))
    return out.value.decode()


class Session:
    """A session of pleiad.h. If an exception leaves its block, the rank counts as dead, so no other rank waits for it."""

    open = []

    def __init__(self, options="timeout=600, log_level=off"):
        self.handle = c_void_p()
        check(c.pleiad_session_start(options.encode(), byref(self.handle)))
        Session.open.append(self)
        self.world = World()
        check(c.pleiad_session_world(self.handle, byref(self.world)))
        self.rank, self.size = self.world.rank, self.world.size

    def array(self, size, dtype=FLOAT32, options=None, initial=None):
        handle = c_void_p()
        check(c.pleiad_array_create(self.handle, size, dtype, options and options.encode(), initial, byref(handle)))
        return Table(handle, dtype, 1, size)

    def matrix(self, rows, cols, dtype=FLOAT32, options=None, initial=None):
        handle = c_void_p()
        options = options and options.encode()
        check(c.pleiad_matrix_create(self.handle, rows, cols, dtype, options, initial, byref(handle)))
        return Table(handle, dtype, rows, cols)

    def sparse(self, cols, dtype=FLOAT32, options=None, create="pleiad_sparse_create"):
        handle = c_void_p()
        check(getattr(c, create)(self.handle, cols, dtype, options and options.encode(), byref(handle)))
        return Table(handle, dtype, 0, cols)

    def barrier(self):
        check(c.pleiad_barrier(self.handle))

    def shutdown(self):
        check(c.pleiad_session_shutdown(self.handle))

    def __enter__(self):
        return self

    def free(self):
        Session.open.remove(self)
        c.pleiad_session_free(self.handle)

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and c.pleiad_session_world(self.handle, byref(World())) == OK:
                self.shutdown()
        finally:
            self.free()


def mv_init(*flags):
    """Calls MV_Init with these arguments and returns those that it left."""
    words = [b"program", *(flag.encode() for flag in flags)]
    argv = (c_char_p * len(words))(*words)
    argc = c_int(len(words))
    mv.MV_Init(byref(argc), argv)
    assert sorted(argv) == sorted(words), "what was taken stands behind what is left"
    return [word.decode() for word in argv[1 : argc.value]]


def mv_error():
    """Returns the code and the message of the last failed call, and clears them."""
    code, words = c.pleiad_last_error_code(), last_error()
    c.pleiad_clear_error()
    return code, words


def mv_fine():
    code, words = mv_error()
    assert code == OK, f"code {code}: {words}"


def mv_fails(code, *words):
    received, text = mv_error()
    assert received == code, f"expected code {code}, received {received}: {text}"
    for word in words:
        assert word in text, f"expected {word!r} in {text!r}"
