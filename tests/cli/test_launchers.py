"""How the processes of a job form a world: under `pleiad launch`, torchrun and Slurm without MPI on one host. Where
they cannot, each of them raises an error instead of running as a world of one.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from conftest import processes_of
from jobs import Job, mpirun_words

TORCHRUN = Path(sys.executable).with_name("torchrun")

PRELUDE = """
import os, signal, sys, time
def out(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one write: ranks do not mix
"""


@pytest.fixture
def start(build_dir, python_env):
    """start(*command, env=None) returns a running job, which ends with the test. Python finds the packages of the build
    under test.
    """
    jobs = []

    def call(*command, env=None):
        jobs.append(Job(command, env={**python_env, **(env or {})}))
        return jobs[-1]

    yield call
    for job in jobs:
        job.close()


@pytest.fixture
def process(build_dir):
    return build_dir / "bin" / "process"


def script(tmp_path, body):
    file = tmp_path / "script.py"
    file.write_text(PRELUDE + body)
    return file


def said(job, key):
    return {line["rank"]: line[key] for line in job.objects() if key in line}


def shell_launcher(variables, ranks, command):
    """Returns the command of a launcher that sets variables for each process, as torchrun and Slurm do. {} is replaced
    by the rank.
    """
    one = " ".join(f"{name}={str(value).format('$r')}" for name, value in variables.items())
    return ["sh", "-c", f"for r in {' '.join(map(str, range(ranks)))}; do {one} {command} & done; wait"]


TORCH = {"RANK": "{}", "WORLD_SIZE": "2", "LOCAL_RANK": "{}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_PROCID": "{}"}  # fmt: skip

TRAIN = """
import numpy, multiverso as mv
mv.init()
table = mv.ArrayTableHandler(10)
for step in range(20): table.add(numpy.ones(10, "f4"), sync=True)
mv.barrier()
out("rank", mv.worker_id(), "of", mv.workers_num(), "has", table.get()[0])
mv.shutdown()
"""


CHILDREN = """
import multiprocessing, subprocess
import pleiad

def join(who):
    try:
        with pleiad.init(log_level="off") as s: out(who, "world of", s.size)
    except pleiad.StateError as problem:
        out(who, "StateError", *["spawned by a rank"] * ("spawned by a rank" in str(problem)))

if sys.argv[1:]:
    join(sys.argv[1])
elif __name__ == "__main__":
    with pleiad.init(log_level="off") as s:
        if os.fork() == 0:
            join("fork")
            os._exit(0)
        os.wait()
        child = multiprocessing.get_context("spawn").Process(target=join, args=("spawn",))
        child.start()
        child.join()
        again = [sys.executable, __file__]
        subprocess.run([*again, "inherited"], check=True)
        subprocess.run([*again, "copied"], env=dict(os.environ), check=True)
        subprocess.run([*again, "solo"], env={**os.environ, "PLEIAD_ENGINE": "solo"}, check=True)
        s.barrier()
        out("rank", s.rank, "goes on")
"""


# Worlds without MPI.


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_pleiad_launch_forms_a_world_without_mpi(start, pleiad, process, tmp_path, ranks):
    job = start(pleiad, "launch", "-n", ranks, process, "world", env={"PATH": str(tmp_path)})  # mpirun cannot be found
    assert job.finish() == 0, job.text()
    assert said(job, "engine") == dict.fromkeys(range(ranks), "local")
    assert said(job, "size") == dict.fromkeys(range(ranks), str(ranks))
    assert set(said(job, "libmpi").values()) == {"no"}
    assert job.left() == {}


def test_pleiad_launch_trains_a_python_script(start, pleiad, tmp_path):
    job = start(pleiad, "launch", "-n", 4, sys.executable, script(tmp_path, TRAIN))
    assert job.finish() == 0, job.text()
    assert sorted(job.out) == [f"rank {rank} of 4 has 80.0" for rank in range(4)]


def test_a_process_can_start_a_second_session(start, pleiad, process):
    job = start(pleiad, "launch", "-n", 2, process, "again")
    assert job.finish() == 0, job.text()
    assert said(job, "worked") == {0: "20", 1: "20"}


def test_mpirun_works_as_before(start, pleiad, process):
    job = start(pleiad, "launch", "-n", 2, "--mpi", process, "world")
    assert job.finish() == 0, job.text()
    assert said(job, "engine") == {0: "mpi", 1: "mpi"}


def test_torchrun_runs_a_program(start, process):
    job = start(TORCHRUN, "--nproc_per_node", 2, "--standalone", "--no-python", process, "world")
    assert job.finish(120) == 0, job.text()
    assert said(job, "size") == {0: "2", 1: "2"}, job.text()
    assert job.left() == {}


def test_torchrun_trains_a_python_script(start, tmp_path):
    job = start(TORCHRUN, "--nproc_per_node", 4, "--standalone", script(tmp_path, TRAIN))
    assert job.finish(120) == 0, job.text()
    assert sorted(job.out) == [f"rank {rank} of 4 has 80.0" for rank in range(4)]


def test_torchrun_restarts_into_a_new_world(start, tmp_path):
    body = "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os.environ['RANK'] == '1': os._exit(3)\n" + TRAIN
    job = start(TORCHRUN, "--nproc_per_node", 2, "--standalone", "--max-restarts", 1, script(tmp_path, body))
    assert job.finish(120) == 0, job.text()
    assert sorted(job.out) == ["rank 0 of 2 has 40.0", "rank 1 of 2 has 40.0"]


def test_torchrun_ends_a_job_whose_rank_dies_during_training(start, tmp_path):
    dies = "    if step == 10 and mv.worker_id() == 1: os.kill(os.getpid(), signal.SIGKILL)\n    table.add("
    job = start(TORCHRUN, "--nproc_per_node", 2, "--standalone", script(tmp_path, TRAIN.replace("range(20): table.add(", "range(20):\n" + dies)))  # fmt: skip
    assert job.finish(120) != 0
    assert job.out == [], job.text()
    assert job.left() == {}


@pytest.mark.parametrize("variables", [TORCH, SLURM], ids=["torch", "slurm"])
def test_variables_alone_form_a_world(start, process, variables):
    job = start(*shell_launcher(variables, 2, f"{process} world"))
    assert job.finish() == 0, job.text()
    assert said(job, "size") == {0: "2", 1: "2"}, job.text()


def test_scripts_between_the_launcher_and_the_ranks_do_not_matter(start, process):
    job = start(*shell_launcher(TORCH, 2, f"sh -c '{process} world; true'"))
    assert job.finish() == 0, job.text()
    assert said(job, "size") == {0: "2", 1: "2"}, job.text()


def test_two_jobs_with_the_same_variables_do_not_connect(start, process, tmp_path):
    # Both ranks 0 start first, so they could connect to the ranks 1 of the other job.
    wait = f"if [ $r = 1 ]; then while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; fi; exec {process} world"
    jobs = [start(*shell_launcher(TORCH, 2, f"r=$r sh -c '{wait}'")) for _ in range(2)]
    (tmp_path / "go").touch()
    for job in jobs:
        assert job.finish() == 0, job.text()
        assert said(job, "size") == {0: "2", 1: "2"}, job.text()


def test_a_launcher_inside_a_launcher_counts(start, pleiad, process):
    words = ["sh", "-c", f"[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0; {pleiad} launch -n 2 {process} world"]
    job = start(pleiad, "launch", "-n", 3, *words)
    assert job.finish() == 0, job.text()
    assert said(job, "size") == {0: "2", 1: "2"}, job.text()


NAMES = """
import pleiad
key = os.environ["PLEIAD_LAUNCH_KEY"]
with pleiad.init() as session:
    names = open("/proc/net/unix").read()
    parts = [key[i : i + 12] for i in range(len(key) - 11)]
    if session.rank == 0: out("sockets:", "@pleiad-" in names, "with parts of the key:", sum(part in names for part in parts))
    session.barrier()
"""


def test_the_names_of_sockets_do_not_reveal_the_key_of_pleiad_launch(start, pleiad, tmp_path):
    job = start(pleiad, "launch", "-n", 2, sys.executable, script(tmp_path, NAMES))
    assert job.finish(seconds=60) == 0, job.text()
    assert "sockets: True with parts of the key: 0\n" in job.text(), job.text()


# Processes that cannot form a world raise an error.


@pytest.mark.parametrize(
    "variables, named",
    [
        ({**TORCH, "RANK": "0", "LOCAL_WORLD_SIZE": "1"}, ["WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1"]),
        ({**TORCH, "RANK": "0", "MASTER_ADDR": "node1.example.org"}, ["WORLD_SIZE=2", "MASTER_ADDR=node1.example.org"]),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ["WORLD_SIZE=2"]),
        ({"RANK": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, ["RANK=2", "WORLD_SIZE=2"]),
        ({**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_NODES": "2"}, ["SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=2"]),
        ({"HOROVOD_SIZE": "4"}, ["HOROVOD_SIZE=4"]),
        ({"MV2_COMM_WORLD_SIZE": "4"}, ["MV2_COMM_WORLD_SIZE=4"]),
    ],
)  # fmt: skip
def test_processes_that_cannot_connect_get_an_error_that_names_the_variables(start, process, variables, named):
    job = start(process, "start", env={name: value.format(0) for name, value in variables.items()})
    assert job.finish() == 0, job.text()
    text = said(job, "start")[-1]
    assert text.startswith("state: [start] "), text
    for word in [*named, "pleiad launch -n", "mpirun -n", "engine = solo"]:
        assert word in text, text


def test_solo_is_solo_under_any_launcher(start, process):
    job = start(process, "world", env={"RANK": "0", "WORLD_SIZE": "2", "PLEIAD_ENGINE": "solo"})
    assert job.finish() == 0, job.text()
    assert said(job, "engine") == {0: "solo"}


def test_two_processes_of_one_rank_are_an_error(start, process):
    job = start(*shell_launcher({**TORCH, "WORLD_SIZE": "3", "RANK": "$((r > 1 ? 1 : r))"}, 3, f"{process} world"))
    job.finish()
    assert re.search(r"two processes claim to be rank 1: pid \d+ and pid \d+", job.text()), job.text()
    assert said(job, "size") == {}


ONE_RANK = """
import pleiad
try: pleiad.init()
except pleiad.StateError as problem: out(problem)
time.sleep(3600)
"""


@pytest.mark.parametrize("allocation", [{}, {"SLURM_JOB_ID": "7"}], ids=["alone", "in a batch job"])
def test_two_jobs_of_a_launcher_that_names_no_job_do_not_claim_ranks_from_each_other(start, tmp_path, allocation):
    """A launcher that is not Open MPI's may set PMI_SIZE and PMI_RANK alone, so its jobs have the same variables."""
    file = script(tmp_path, ONE_RANK)
    for _ in range(2):  # the first process still runs when the second one starts
        job = start(sys.executable, file, env={"PMI_SIZE": "2", "PMI_RANK": "0", **allocation})
        job.read_until(lambda job: job.out)
        assert "MPI reports 1" in job.out[0], job.text()


@pytest.mark.parametrize("launcher", ["launch", "torchrun", "mpirun"])
def test_a_child_of_a_rank_gets_an_error_at_once(start, pleiad, tmp_path, launcher):
    """A child that Python starts with a copy of its environment has the launcher's variables, but no mark of a rank."""
    file = script(tmp_path, CHILDREN)
    commands = {
        "launch": [pleiad, "launch", "-n", 2, "--", sys.executable, file],
        "torchrun": [TORCHRUN, "--standalone", "--nproc-per-node", 2, file],
        "mpirun": [*mpirun_words(2), sys.executable, file],
    }
    job = start(*commands[launcher], env={"PLEIAD_TIMEOUT": "1800"})
    assert job.finish() == 0, job.text()
    for child in ("fork", "spawn", "inherited", "copied"):
        found = [line for line in job.out if line.startswith(f"{child} ")]
        assert len(found) == 2 and all(line.startswith(f"{child} StateError") for line in found), job.text()
    for child in ("spawn", "inherited", "copied"):
        assert job.out.count(f"{child} StateError spawned by a rank") == 2, job.text()
    assert job.out.count("solo world of 1") == 2, job.text()
    assert {"rank 0 goes on", "rank 1 goes on"} <= set(job.out), job.text()


def test_a_program_that_calls_mpi_itself_gets_an_error_that_names_mpirun(start, pleiad, tmp_path):
    file = script(
        tmp_path, "from mpi4py import MPI\nimport pleiad\ntry: pleiad.init()\nexcept Exception as e: out(e)\n"
    )
    job = start(pleiad, "launch", "-n", 2, sys.executable, file)
    assert job.finish(60) == 0, job.text()
    assert len(job.out) == 2 and all("pleiad launch --mpi" in line and "reports 1" in line for line in job.out), (
        job.text()
    )


def test_ranks_without_mpi_must_share_memory(start, process):
    job = start(*shell_launcher({**TORCH, "PLEIAD_SPLIT_HOSTS": "2"}, 2, f"{process} start"))
    job.finish()
    errors = [line["start"] for line in job.objects()]
    assert len(errors) == 2 and all("must share memory" in text and "--mpi" in text for text in errors), job.text()


# Ranks that die during the start.


def test_a_rank_that_dies_while_it_waits_in_start_is_named(start, pleiad, process, tmp_path):
    job = start(pleiad, "launch", "-n", 4, "--grace", 300, process, "late-start", tmp_path / "never")
    # Ranks 1 and 2 wait for rank 3, connected to rank 0.
    victim = None
    deadline = time.monotonic() + 300
    while victim is None and time.monotonic() < deadline:
        for pid, words in processes_of(job.process.pid).items():
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if words[0] == str(process) else []
            links = os.listdir(f"/proc/{pid}/fd") if b"PLEIAD_LAUNCH_RANK=2" in environ else []
            if len(links) > 3:  # it has opened a socket
                victim = pid
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(victim, signal.SIGKILL)
    job.read_until(lambda job: len(job.objects()) == 2)
    for line in job.objects():
        assert f"rank 2 (pid {victim}) ended before all ranks of the job were connected" in line["uncaught"], job.text()
    (tmp_path / "never").touch()  # rank 3 finds no job to join
    job.process.send_signal(signal.SIGTERM)
    assert job.finish() != 0
    assert job.left() == {}


def test_a_rank_that_dies_before_start_ends_the_job(start, pleiad, process):
    words = ["sh", "-c", f"[ $OMPI_COMM_WORLD_RANK != 1 ] || exit 9; exec {process} world"]
    job = start(pleiad, "launch", "-n", 4, "--grace", "0.5", *words)
    assert job.finish() == 9, job.text()
    assert "rank 1 exited with code 9" in job.err[-1]
    assert job.left() == {}


# Ctrl-C and SIGTERM reach the ranks first.

SAVES = """
import signal
def ask(number, frame): raise KeyboardInterrupt
if "handle" in sys.argv: signal.signal(signal.SIGTERM, ask)
try:
    out("up")
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)
    out("saved")
"""


@pytest.mark.parametrize("mpi", [[], ["--mpi"]], ids=["local", "mpirun"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_ranks_can_save_before_they_end(start, pleiad, tmp_path, name, mpi):
    job = start(pleiad, "launch", "-n", 3, *mpi, sys.executable, script(tmp_path, SAVES), "handle")
    job.read_until(lambda job: job.out.count("up") == 3)
    job.process.send_signal(signal.Signals[name])
    assert job.finish() == 128 + signal.Signals[name], job.text()
    assert job.out.count("saved") == 3, job.text()
    assert f"ended by {name}" in job.err[-1]
    assert job.left() == {}


@pytest.mark.parametrize("mpi", [[], ["--mpi"]], ids=["local", "mpirun"])
def test_ranks_that_do_not_end_are_ended_at_the_deadline(start, pleiad, tmp_path, mpi):
    body = "for name in ('SIGINT', 'SIGTERM'): signal.signal(signal.Signals[name], signal.SIG_IGN)\nout('up')\ntime.sleep(600)"
    job = start(pleiad, "launch", "-n", 2, *mpi, "--stop-timeout", "0.3", sys.executable, script(tmp_path, body))
    job.read_until(lambda job: job.out.count("up") == 2)
    job.process.send_signal(signal.SIGINT)
    assert job.finish() == 128 + signal.SIGINT, job.text()
    assert any("0.3 s after SIGINT: ending ranks 0, 1" in line for line in job.err), job.text()
    assert job.left() == {}
