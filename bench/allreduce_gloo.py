"""Compares all-reduce with PyTorch's gloo, alternating in the same processes. mpirun starts it; rank 0 prints JSON lines."""

import ctypes
import json
import os
import statistics
import sys
import time

import numpy as np
import torch
import torch.distributed as dist


def start_pleiad(build):
    library = ctypes.CDLL(os.path.join(build, "lib", "libpleiad.so"))
    library.pleiad_last_error.restype = ctypes.c_char_p
    library.pleiad_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
    session = ctypes.c_void_p()

    def check(code):
        if code != 0:
            sys.exit(f"allreduce_gloo: {library.pleiad_last_error().decode()}")

    check(library.pleiad_session_start(None, ctypes.byref(session)))
    return library, session, check


def main():
    build, rounds, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    library, session, check = start_pleiad(build)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=size)

    for count in (1_000, 100_000, 10_000_000):
        ours = np.ones(count, dtype=np.float32)
        theirs = torch.ones(count)
        address = ours.ctypes.data

        def our_turn():
            check(library.pleiad_all_reduce(session, address, count, 0, 0))

        def their_turn():
            dist.all_reduce(theirs)

        our_turn()
        their_turn()
        if ours[0] != size or theirs[-1].item() != size:
            sys.exit("allreduce_gloo: wrong result")
        ours[:] = 0
        theirs.zero_()

        def timed(turn, repeats):
            check(library.pleiad_barrier(session))
            start = time.perf_counter()
            for _ in range(repeats):
                turn()
            took = np.array([(time.perf_counter() - start) * 1e6 / repeats])
            check(library.pleiad_all_reduce(session, took.ctypes.data, 1, 1, 2))  # the slowest rank's time
            return float(took[0])

        repeats = {turn: max(1, int(30e3 / timed(turn, 3))) for turn in (our_turn, their_turn)}
        repeats = {turn: min(number, 5_000) for turn, number in repeats.items()}
        ours_us, theirs_us = [], []
        for _ in range(rounds):
            ours_us.append(timed(our_turn, repeats[our_turn]))
            theirs_us.append(timed(their_turn, repeats[their_turn]))
        if rank == 0:
            quartiles = statistics.quantiles(ours_us, n=4)
            median = statistics.median(ours_us)
            print(
                json.dumps(
                    {
                        "name": "allreduce_gloo",
                        "procs": size,
                        "size": count,
                        "median_us": round(median, 3),
                        "spread": round((quartiles[2] - quartiles[0]) / 2 / median, 3),
                        "peer_us": round(statistics.median(theirs_us), 3),
                        "ratio": round(statistics.median(b / a for a, b in zip(ours_us, theirs_us)), 3),
                    }
                ),
                flush=True,
            )

    dist.destroy_process_group()
    check(library.pleiad_session_shutdown(session))


main()
