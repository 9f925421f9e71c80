"""Programs whose ranks end, fork or are interrupted in some way: python endings.py NAME. tests/bindings/python/test_endings.py
starts them.
"""

import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np

import multiverso as mv
import pleiad

ONES = np.ones(1000, np.float32)


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def start():
    return pleiad.init(timeout=600, log_level="off")


def raises():
    """The last rank raises while the others wait for it."""
    s = start()
    table = s.array(1000, clock="sync")
    for step in range(1000):
        if s.rank == s.size - 1 and step == 3:
            raise ValueError(f"no batch {step}")
        table.add(ONES)
        try:
            table.get()
        except pleiad.TransportError as problem:
            say(f"rank {s.rank} heard: {problem}")
            raise


def raises_in_a_with_block():
    with start() as s:
        if s.rank == s.size - 1:
            raise ValueError("no data")
        try:
            s.barrier()
        except pleiad.TransportError as problem:
            say(f"rank {s.rank} heard: {problem}")
            raise


def interrupted_in_init():
    """Rank 0 is interrupted while it waits for rank 1, which comes late."""
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        time.sleep(600)
    try:
        say("pid", os.getpid())
        start()
    except KeyboardInterrupt:
        say("KeyboardInterrupt")


ENDS = {
    "sys.exit(7)": lambda: sys.exit(7),
    "SystemExit(1)": lambda: throw(SystemExit(1)),
    "SystemExit('no data')": lambda: throw(SystemExit("no data")),
    "sys.exit(0)": lambda: sys.exit(0),
    "SystemExit()": lambda: throw(SystemExit()),
}


def throw(problem):
    raise problem


def exits_early():
    """The last rank ends during synchronous training, in the named way."""
    s = start()
    table = s.array(1000, clock="sync")
    try:
        for step in range(1000):
            if s.rank == s.size - 1 and step == 3:
                ENDS[sys.argv[2]]()
            table.add(ONES)
            table.get()
    except pleiad.Error as problem:
        say(f"rank {s.rank} heard: {type(problem).__name__} {problem}")
        raise


def forgets_shutdown():
    s = start()
    for failure in ("sys.exit(7)", "SystemExit(1)"):
        try:
            ENDS[failure]()
        except SystemExit as caught:  # a SystemExit that is caught ends nothing
            assert caught.code
    table = s.array(1000)
    table.add_async(ONES)
    s.barrier()
    say("sum", int(table.get()[0]))


def forgets_multiverso_shutdown():
    mv.init(log_level="off")
    table = mv.ArrayTableHandler(10)
    table.add(range(10))
    mv.barrier()
    say("sum", int(table.get()[1]))


def interrupted():
    """Rank 0 waits for the other rank, which is busy until rank 0 has ended."""
    s = start()
    table = s.array(10, clock="sync")
    if s.rank != 0:
        say("other")
        deadline = time.monotonic() + 600
        while s.alive(0) and time.monotonic() < deadline:
            time.sleep(0.02)
        try:
            s.barrier()
        except pleiad.Error as problem:
            say(f"rank {s.rank} heard: {problem}")
        os._exit(0)
    try:
        say("pid", os.getpid())
        if sys.argv[2] == "barrier":
            s.barrier()
        elif sys.argv[2] == "future":
            table.add_async(ONES[:10])
            table.get_async().wait()
        elif sys.argv[2] == "timed":
            table.add_async(ONES[:10])
            table.get_async().wait(timeout=600)
        else:
            s.receive(1, np.empty(1))
    except KeyboardInterrupt:
        say("KeyboardInterrupt")
        raise


def in_child(table):
    words = []
    for call in (table.get, lambda: table.add(ONES), pleiad.session().barrier, lambda: pleiad.session().array(3)):
        try:
            call()
            words.append("no error")
        except pleiad.StateError as problem:
            words.append("forked" if "fork" in str(problem) else str(problem))
    return words


def forks():
    s = start()
    table = s.array(1000)
    table.add_async(ONES)  # the thread of this add runs only in the parent
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, " ".join(in_child(table)).encode())
        sys.exit(0)  # Python's own exit: destructors of inherited objects must not act
    os.close(write)
    say("child:", os.read(read, 10000).decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    s.barrier()
    say("parent:", int(table.get()[0]))
    s.shutdown()


def pool_task(number):
    try:
        pleiad.session()
        return "session"
    except pleiad.StateError:
        pass
    try:
        pleiad.init(log_level="off")
        return "init"
    except pleiad.StateError as problem:
        return "not a rank" if "rank" in str(problem) else str(problem)


def forked_task(number):
    return " ".join(sorted(set(in_child(TABLE))))


TABLE = None


def pools():
    """Children of multiprocessing, forked and spawned, run beside the tables and are not ranks."""
    global TABLE
    s = start()
    TABLE = s.array(1000)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        say("fork:", *set(pool.map(forked_task, range(4))))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        say("spawn:", *set(pool.map(pool_task, range(1))))
    TABLE.add(ONES)
    s.barrier()
    say("parent:", int(TABLE.get()[0]))
    s.shutdown()


def starts_a_process():
    s = start()
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import endings; print(endings.pool_task(0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    say("child:", done.stdout.strip(), done.stderr.strip())
    s.shutdown()


def mpi4py_first():
    from mpi4py import MPI

    with_mpi4py(MPI)


def mpi4py_later():
    mv.init(log_level="off")
    from mpi4py import MPI

    with_mpi4py(MPI)


def with_mpi4py(MPI):
    if pleiad.sessions._current is None:
        mv.init(log_level="off")
    table = mv.ArrayTableHandler(10)
    for _ in range(5):
        table.add(range(10))
        total = MPI.COMM_WORLD.allreduce(mv.worker_id())
        mv.barrier()
    say("sum", total, int(table.get()[1]), MPI.COMM_WORLD.Get_rank() == mv.worker_id())
    mv.shutdown()
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.Get_size()  # MPI still works without our session


def gpu_recipe():
    """One GPU per worker: the worker's number is known before theano is imported."""
    import multiverso as mv

    mv.init()
    worker_id = mv.worker_id()
    if "THEANO_FLAGS" not in os.environ:
        os.environ["THEANO_FLAGS"] = "floatX=float32,device=gpu%d,lib.cnmem=1" % worker_id  # noqa: UP031
    assert "theano" not in sys.modules
    say(os.environ["THEANO_FLAGS"])
    mv.shutdown()


def times_out():
    """Both ranks are running before they start the session: the imports of one may take longer than the timeout of the
    other.
    """
    folder, rank = sys.argv[2], os.environ["OMPI_COMM_WORLD_RANK"]
    open(os.path.join(folder, rank), "w").close()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.01)
    s = pleiad.init(timeout=5, log_level="off")
    if s.rank == 0:
        try:
            s.barrier()
        except pleiad.TimeoutError as problem:
            say("timeout", isinstance(problem, TimeoutError), "rank 1" in str(problem))
    else:
        while s.alive(0):
            time.sleep(0.01)
    os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
