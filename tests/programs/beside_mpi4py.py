"""A rank that uses mpi4py and, through the C API, Pleiad. Arguments: libpleiad.so, and which one starts first: mpi4py
or pleiad.
"""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])
lib.pleiad_last_error.restype = ctypes.c_char_p
INT32, SUM = 2, 0


def check(code):
    assert code == 0, lib.pleiad_last_error().decode()


def sum_by_mpi():
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1)


def sum_by_pleiad():
    session, table = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.pleiad_session_start(b"timeout=600", ctypes.byref(session)))
    check(lib.pleiad_array_create(session, ctypes.c_int64(3), INT32, b"name=sums", None, ctypes.byref(table)))
    ones = (ctypes.c_int32 * 3)(1, 1, 1)
    check(lib.pleiad_table_add(table, ones, ctypes.c_int64(3), INT32, None))
    between = sum_by_mpi()  # the session is open; after this all ranks have added
    out = (ctypes.c_int32 * 3)()
    check(lib.pleiad_table_get(table, out, ctypes.c_int64(3), INT32))
    check(lib.pleiad_session_shutdown(session))
    lib.pleiad_table_free(table)
    lib.pleiad_session_free(session)
    return out[2], between


words = [sum_by_mpi()] if sys.argv[2] == "mpi4py" else []
words += [*sum_by_pleiad(), sum_by_mpi(), *sum_by_pleiad(), sum_by_mpi()]
sys.stdout.write(" ".join(map(str, words)) + "\n")
