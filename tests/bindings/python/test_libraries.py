"""Trainer of transformers, accelerate and Lightning over Pleiad, under every launcher and on several hosts."""

import os
import sys
from pathlib import Path

import pytest
from hosts import Network, need_root
from job_of_cases import check_suites

full = pytest.mark.full
TORCHRUN = Path(sys.executable).with_name("torchrun")


@pytest.mark.parametrize("world", [2, pytest.param("alone", marks=full), pytest.param(3, marks=full)])
def test_trainer_and_accelerate(python_job, world):
    check_suites(python_job, ["libraries_cases.py"], world)


@full
@pytest.mark.parametrize("world", ["alone", 2, 3])
def test_lightning(python_job, world):
    check_suites(python_job, ["lightning_cases.py"], world)


def srun(ranks, *words):
    """The variables that tasks of srun on one host get from Slurm."""
    variables = {"JOB_ID": 7, "STEP_ID": 0, "STEP_NUM_TASKS": ranks, "NTASKS": ranks, "NTASKS_PER_NODE": ranks}
    variables |= {"STEP_NUM_NODES": 1, "NNODES": 1, "NODEID": 0, "JOB_NAME": "train", "PROCID": "$r", "LOCALID": "$r"}
    told = " ".join(f"SLURM_{name}={value}" for name, value in variables.items())
    command = " ".join(f"'{word}'" for word in words)
    tasks = f'for r in {" ".join(map(str, range(ranks)))}; do {told} {command} & pids="$pids $!"; done'
    return ["sh", "-c", f"{tasks}; for pid in $pids; do wait $pid || exit 1; done"]


# Each process runs one suite of a library that reads the launcher's variables.
@full
@pytest.mark.parametrize("suites", [["process_group_cases.py", "libraries_cases.py"], ["lightning_cases.py"]], ids=["ddp", "lightning"])  # fmt: skip
@pytest.mark.parametrize("launcher", ["launch", "torchrun", "srun"])
def test_libraries_under_other_launchers(run, pleiad, python_env, suites, launcher):
    def job(world, *words, timeout):
        commands = {
            "launch": [pleiad, "launch", "-n", world, "--", sys.executable, *words],
            "torchrun": [TORCHRUN, "--nproc-per-node", world, "--standalone", *words],
            "srun": srun(world, sys.executable, *words),
        }
        return run(*commands[launcher], timeout=timeout, env=python_env)

    check_suites(job, suites, 2)


@full
@pytest.mark.parametrize("suites", [["process_group_cases.py", "libraries_cases.py"], ["lightning_cases.py"]], ids=["ddp", "lightning"])  # fmt: skip
def test_libraries_on_ranks_without_shared_memory(python_job, suites):
    check_suites(python_job, suites, 2, env={"PLEIAD_SHARED_MEMORY": "false"})


@full
def test_libraries_on_two_hosts(tmp_path, python_env):
    need_root()
    network = Network(2, tmp_path)

    def job(world, *words, timeout):
        env = [f"{name}={value}" for name, value in {**python_env, "GLOO_SOCKET_IFNAME": "net"}.items()]
        return network.run(world, "env", *env, "OMP_NUM_THREADS=1", f"PATH={os.environ['PATH']}", sys.executable, *words, timeout=timeout)  # fmt: skip

    try:
        check_suites(job, ["process_group_cases.py", "libraries_cases.py"], 2)
    finally:
        network.remove()
