"""System limits of a process: the memory of its control group."""

import gzip
import os
import sys
from pathlib import Path

import pytest

MB = 1 << 20
TABLE = """
import os, sys
with open(sys.argv[1], "w") as members:
    members.write(str(os.getpid()))
import pleiad
with pleiad.init() as session:
    session.array(1000)  # small allocations succeed
    try:
        session.array(int(sys.argv[2]))
    except MemoryError as problem:
        print("refused:", problem)
"""


def own_memory_group():
    """Returns the folder of this control group and the name of its limit's file, of version 2 or 1."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if controllers == "" and "memory" in Path("/sys/fs/cgroup/cgroup.controllers").read_text().split():
            return Path("/sys/fs/cgroup" + path), "memory.max"
    raise OSError("no group limits memory here")


@pytest.fixture
def small_group():
    """Returns the file of members of a new control group that allows 300 MB."""
    folder = None
    try:
        own, limit = own_memory_group()
        folder = own / f"pleiad-test-{os.getpid()}"
        folder.mkdir()
        (folder / limit).write_text(str(300 * MB))
    except OSError as problem:
        if folder is not None and folder.exists():
            folder.rmdir()
        pytest.skip(f"a control group cannot be made here: {problem}")
    yield folder / "cgroup.procs"
    folder.rmdir()


def test_a_table_that_its_control_group_has_no_room_for_is_refused(run, python_env, small_group, tmp_path):
    script = tmp_path / "table.py"
    script.write_text(TABLE)
    done = run(sys.executable, script, small_group, 500 * MB // 4, timeout=60, env=python_env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused:" in done.stdout and "more than this process can get" in done.stdout, done.stdout


def test_a_packed_file_that_is_larger_than_the_memory_is_refused(run, pleiad, small_group, tmp_path):
    line = b"0,0,0,0,0,0,0,0\n"
    with gzip.open(tmp_path / "zeros.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(400):
            file.write(line * (MB // len(line)))
    assert (tmp_path / "zeros.csv.gz").stat().st_size < 20 * MB
    command = 'echo $$ >"$0" && exec "$@"'
    words = [pleiad, "convert", f"csv:{tmp_path}/zeros.csv.gz", f"kvfile:{tmp_path}/out.bin", "--shape", 7]
    done = run("sh", "-c", command, small_group, *words, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "zeros.csv.gz: unpacked, it is larger than half of the memory that is left" in done.stderr, done.stderr
    assert not (tmp_path / "out.bin").exists()
