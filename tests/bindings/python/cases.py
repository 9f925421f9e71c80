"""Runs the cases of a script, which are its functions test_..., on every rank of the world in which it was started.

Each case starts its sessions itself. Rank 0 prints which cases have passed. A case that raises ends the job.
"""

import contextlib
import os
import re

import pleiad

# Set by mpirun and `pleiad launch`, torchrun, and srun. Read at once, because libraries change them.
_RANK = next((os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID") if name in os.environ), "0")


def first_rank():
    return _RANK == "0"


def run(namespace):
    for name, case in list(namespace.items()):
        if name.startswith("test_"):
            try:
                case()
            except BaseException:
                print(f"in case {name}:", flush=True)
                raise
            if first_rank():
                print(f"ok {name}", flush=True)


@contextlib.contextmanager
def raises(kind, *patterns):
    """Checks that the block raises `kind` with a message that matches each of the patterns."""
    try:
        yield
    except kind as problem:
        for pattern in patterns:
            assert re.search(pattern, str(problem)), f"{pattern!r} is not in: {problem}"
        assert isinstance(problem, pleiad.Error), f"{type(problem)} is none of Pleiad's"
    else:
        raise AssertionError(f"no {kind.__name__}")
