"""`pleiad launch`: the output and status of a job that succeeds, of one in which a rank dies, and of one that is ended."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PATIENCE, kill_session, processes_of

RANK = "$OMPI_COMM_WORLD_RANK"


@pytest.fixture
def launch(run, pleiad):
    """launch(*arguments, timeout=30, ...) returns the finished job."""
    return lambda *arguments, timeout=30, **more: run(pleiad, "launch", *arguments, timeout=timeout, **more)


class Started:
    """A job that runs while the test observes it. `lines` holds its output so far, of both streams."""

    def __init__(self, command, **more):
        self.lines = []
        self.rest = b""
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **more,
        )

    def read_until(self, enough, seconds=30):
        """Reads lines until enough(lines) is true or the output ends, for at most PATIENCE times this many seconds."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        while not enough(self.lines):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                pytest.fail(f"no more after {seconds} s: {self.lines}", pytrace=False)
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return
            *lines, self.rest = (self.rest + data).split(b"\n")
            self.lines += [line.decode(errors="replace").rstrip("\r") for line in lines]

    def wait_for(self, text, count=1):
        self.read_until(lambda lines: sum(text in line for line in lines) >= count)
        assert sum(text in line for line in self.lines) >= count, self.lines

    def finish(self):
        """Returns the exit code, after the last line."""
        self.read_until(lambda lines: False)
        return self.process.wait(timeout=300)

    def running(self):
        """Returns the processes of the job: {pid: words}."""
        return processes_of(self.process.pid)

    def left(self):
        """Returns the processes that do not end. Some may still be about to end."""
        return stay(self.process.pid)


def stay(session):
    deadline = time.monotonic() + 60
    while (left := processes_of(session)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def state(pid):
    """Returns the state of a process: "S" sleeping, "R" running, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def start(pleiad):
    """start(*arguments) returns a running job, which ends with the test."""
    jobs = []

    def call(*arguments, **more):
        jobs.append(Started([pleiad, "launch", *arguments], **more))
        return jobs[-1]

    yield call
    for job in jobs:
        kill_session(job.process.pid)
        job.process.wait(timeout=120)
        job.process.stdout.close()


PRELUDE = """
import os, signal, sys, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
def print(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one write: ranks do not mix
"""


def script(body):
    """Returns the command that runs Python code in each rank."""
    return [sys.executable, "-c", PRELUDE + body]


def appears(path):
    """Returns Python code that waits until the file exists."""
    return f"while not os.path.exists({str(path)!r}): time.sleep(0.01)\n"


# Jobs that succeed.


def test_every_rank_runs_the_command(launch):
    job = launch("-n", 3, "sh", "-c", f"echo I am {RANK} of $OMPI_COMM_WORLD_SIZE")
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == ["I am 0 of 3", "I am 1 of 3", "I am 2 of 3"]
    assert job.stderr == ""


def test_more_ranks_than_cores(launch):
    ranks = len(os.sched_getaffinity(0)) + 1
    job = launch("-n", ranks, "sh", "-c", f"echo {RANK}")
    assert job.returncode == 0, job.stderr
    assert sorted(map(int, job.stdout.split())) == list(range(ranks))


def test_the_command_keeps_its_own_options(launch):
    words = ["-n", "7", "--timeout", "x", "--help", "--", "info", ""]
    job = launch("-n", 1, *script("print(sys.argv[1:])"), *words)
    assert job.stdout.strip() == repr(words), job.stderr


def test_a_double_dash_may_stand_before_the_command(launch):
    job = launch("-n", 2, "--", "echo", "--", "-n")
    assert job.stdout.splitlines() == ["-- -n"] * 2, job.stderr


def test_stdin_goes_to_rank_0(launch):
    job = launch("-n", 2, *script("print(rank, sys.stdin.read().split())"), input="one\ntwo\n")
    assert sorted(job.stdout.splitlines()) == ["0 ['one', 'two']", "1 []"], job.stderr


def test_mpi_works_inside(launch):
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.size, c.allreduce(c.rank))"
    job = launch("-n", 4, "--mpi", *script(code), timeout=60)
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines() == ["4 6"] * 4


def test_output_can_be_tagged(launch):
    job = launch("-n", 2, "--tag-output", "sh", "-c", f"echo from {RANK}")
    assert sorted(job.stdout.splitlines()) == ["[1,0]<stdout>:from 0", "[1,1]<stdout>:from 1"]


def test_the_environment_of_a_rank_has_nothing_of_the_wrapper(launch):
    job = launch("-n", 1, "env")
    assert "OMPI_COMM_WORLD_RANK=0" in job.stdout
    assert "PLEIAD_LAUNCHER" not in job.stdout


# Ranks that fail.


def test_a_rank_that_exits_is_named_and_gives_its_code(launch):
    body = "if rank == 1: sys.exit(3)\ntime.sleep(1.6)\nprint('alive', rank)"
    job = launch("-n", 3, "--grace", 300, *script(body))
    assert job.returncode == 3
    assert re.search(r"^pleiad: rank 1 \(pid \d+ on host \S+\) exited with code 3 after \d+\.\d s$", job.stderr, re.M)
    assert sorted(job.stdout.splitlines()) == ["alive 0", "alive 2"], "the others had the time to go on"
    last = job.stderr.splitlines()[-1]
    assert re.fullmatch(r"pleiad: the job failed after \d+\.\d s: rank 1 exited with code 3; exit code 3", last)


def test_a_killed_rank_is_named_and_the_others_get_their_grace(launch, tmp_path):
    body = f"""
print("pid", rank, os.getpid())
open({str(tmp_path)!r} + f"/{{rank}}", "w").close()
if rank == 2:
    while len(os.listdir({str(tmp_path)!r})) < 4: time.sleep(0.01)
    print("dies at", time.monotonic())
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    time.sleep(0.1)
    print("lived", rank, time.monotonic())
"""
    job = launch("-n", 4, "--grace", 5, *script(body))
    assert job.returncode == 128 + signal.SIGKILL
    pid = re.search(r"pid 2 (\d+)", job.stdout).group(1)
    assert re.search(rf"^pleiad: rank 2 \(pid {pid} on host \S+\) died of SIGKILL \(Killed\) after", job.stderr, re.M)
    assert "pleiad: 5 s after the failure of rank 2: ending ranks 0, 1, 3" in job.stderr
    died = float(re.search(r"dies at (\S+)", job.stdout).group(1))
    for rank in (0, 1, 3):
        lived = max(float(seconds) for seconds in re.findall(rf"lived {rank} (\S+)", job.stdout)) - died
        assert 1 <= lived < 60


def test_the_first_failure_gives_the_code_and_later_ones_are_listed(start, tmp_path):
    told, go = tmp_path / "told", tmp_path / "go"
    body = f"""
if rank == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if os.fork() == 0:  # the wrapper of a rank ends the rank's child processes after it has reported the failure
        signal.sigwait([signal.SIGTERM])
        open({str(told)!r}, "w").close()
        os._exit(0)
else:
    {appears(go)}
sys.exit(10 + rank)
"""
    job = start("-n", 2, "--grace", 6000, *script(body))
    deadline = time.monotonic() + 600
    # The launcher sleeps only after it has read all reports.
    while not told.exists() or state(job.process.pid) != "S":
        assert time.monotonic() < deadline, job.lines
        time.sleep(0.01)
    go.touch()
    assert job.finish() == 10
    assert "rank 0 exited with code 10, then rank 1 failed; exit code 10" in job.lines[-1]


def test_a_rank_that_dies_inside_mpi_leaves_the_others_time_to_report(launch):
    body = """
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
if rank == 1: os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(1)
print("rank", rank, "reports")
os._exit(4)
"""
    job = launch("-n", 3, "--mpi", "--grace", 300, *script(body), timeout=60)
    assert job.returncode == 128 + signal.SIGSEGV
    assert "died of SIGSEGV (Segmentation fault" in job.stderr
    assert sorted(job.stdout.splitlines()) == ["rank 0 reports", "rank 2 reports"]


def test_mpi_abort_gives_its_code(launch):
    body = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nif rank == 1: MPI.COMM_WORLD.Abort(5)\ntime.sleep(600)"
    job = launch("-n", 3, "--mpi", *script(body), timeout=60)
    assert job.returncode == 5, job.stderr
    assert job.stderr.splitlines()[-1].endswith("; exit code 5")


def test_a_rank_that_ignores_sigterm_ends_too(start):
    body = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if rank == 0: sys.exit(3)
if os.fork() == 0: time.sleep(600)
os.setpgid(os.fork(), 0) if rank == 1 else None
time.sleep(600)
"""
    job = start("-n", 3, "--grace", "0.5", *script(body))
    assert job.finish() == 3, job.lines
    assert job.left() == {}


def test_a_lost_wrapper_takes_its_command_with_it_and_is_named(start, tmp_path):
    body = f"""
if rank == 0: open({str(tmp_path / "up")!r}, "w").close()
if rank == 1:
    {appears(tmp_path / "up")}
    os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""
    job = start("-n", 2, *script(body))
    assert job.finish() == 128 + signal.SIGKILL, job.lines
    assert "rank 1 was lost because its wrapper was killed" in job.lines[-1]
    assert job.left() == {}


def test_a_wrapper_far_from_its_launcher_holds_for_the_grace_period(mpirun, pleiad):
    body = "if rank == 1: sys.exit(3)\ntime.sleep(1.6)\nprint('alive', rank)\ntime.sleep(600)"
    job = mpirun(3, pleiad, "rank", "--grace", "10", "--", *script(body))
    assert job.returncode == 3
    assert "exited with code 3" in job.stderr
    assert sorted(job.stdout.splitlines()) == ["alive 0", "alive 2"]


def test_a_command_that_does_not_exist(launch):
    job = launch("-n", 2, "no-such-program")
    assert job.returncode == 127
    assert job.stderr == 'pleiad: program "no-such-program" was not found\n'


def test_a_command_that_cannot_be_run(launch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    job = launch("-n", 2, broken)
    assert job.returncode == 127
    assert f"rank 0 on host {os.uname().nodename} cannot start {broken}: No such file or directory" in job.stderr


# Jobs that are ended.


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_the_launcher_leaves_no_process(start, how):
    job = start("-n", 3, *script("print('up')\ntime.sleep(600)"))
    job.wait_for("up", 3)
    job.process.send_signal(signal.Signals[how])
    assert job.finish() == 128 + signal.Signals[how], job.lines
    assert job.left() == {}
    assert f"ended by {how}; exit code" in job.lines[-1]
    assert not any("died of" in line for line in job.lines), "what was asked for is no failure"


def test_a_signal_to_the_whole_group_leaves_no_process(start):
    job = start("-n", 3, *script("print('up')\ntime.sleep(600)"))
    job.wait_for("up", 3)
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.finish() == 128 + signal.SIGINT, job.lines
    assert job.left() == {}


def test_an_impatient_second_signal_leaves_no_process(start):
    job = start("-n", 2, *script("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\ntime.sleep(600)"))
    job.wait_for("up", 2)
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    job.process.send_signal(signal.SIGINT)
    assert job.finish() == 128 + signal.SIGINT, job.lines
    assert job.left() == {}


def test_ctrl_c_on_a_terminal_leaves_no_process(pleiad):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(pleiad, [str(pleiad), "launch", "-n", "3", *script("print('up')\ntime.sleep(600)")])
    try:
        output = b""
        deadline = time.monotonic() + 300
        asked = False
        while True:
            ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no end: {output}"
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the last process has released the terminal
                break
            if not data:
                break
            output += data
            if not asked and output.count(b"up") == 3:
                os.write(terminal, b"\x03")
                asked = True
        _, status = os.waitpid(pid, 0)
        assert asked, output
        assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT, output
        assert stay(pid) == {}
    finally:
        kill_session(pid)
        os.close(terminal)


def test_a_killed_launcher_leaves_no_process(start):
    job = start("-n", 3, *script("print('up')\ntime.sleep(600)"))
    job.wait_for("up", 3)
    job.process.kill()
    assert job.left() == {}


def test_a_killed_mpirun_leaves_no_process(start):
    job = start("-n", 3, "--mpi", *script("print('up')\ntime.sleep(600)"))
    job.wait_for("up", 3)
    (mpirun,) = (pid for pid, words in job.running().items() if "mpirun" in os.path.basename(words[0]))
    os.kill(mpirun, signal.SIGKILL)
    assert job.finish() == 128 + signal.SIGKILL, job.lines
    assert "mpirun died of SIGKILL" in job.lines[-1]
    assert job.left() == {}


def test_the_timeout_ends_the_job(start, tmp_path):
    for seconds in (2, 8, 32, 128):  # until the timeout is longer than mpirun needs to start the ranks
        folder = tmp_path / str(seconds)
        folder.mkdir()
        job = start("-n", 2, "--timeout", seconds, "sh", "-c", f"touch {folder}/{RANK}; sleep 600")
        assert job.finish() == 124, job.lines
        assert job.left() == {}
        if len(list(folder.iterdir())) == 2:
            break
    assert f"pleiad: timeout of {seconds} s expired; ending ranks 0, 1" in job.lines


# Signals for the ranks.

HANDLERS = """
def handler(number, frame): print(rank, "got", signal.Signals(number).name)
for name in ("SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT", "SIGHUP"): signal.signal(signal.Signals[name], handler)
print("up")
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
"""


def test_user_signals_to_the_launcher_reach_every_rank_once(start, tmp_path):
    stop = tmp_path / "stop"
    job = start("-n", "3", *script(HANDLERS), stop)
    job.wait_for("up", 3)
    for name in ("SIGUSR1", "SIGUSR2"):
        job.process.send_signal(signal.Signals[name])
        job.wait_for(f"got {name}", 3)
    time.sleep(0.3)  # time for a second copy of the signal, which must not come
    stop.touch()
    assert job.finish() == 0
    got = [line for line in job.lines if "got" in line]
    assert sorted(got) == sorted(f"{rank} got {name}" for rank in range(3) for name in ("SIGUSR1", "SIGUSR2"))


def test_ranks_of_a_launcher_that_a_shell_script_starts_with_an_ampersand_get_sigint(start):
    """Such a shell ignores SIGINT in its children, and Python keeps a signal ignored that was ignored at its start."""
    body = "try:\n  print('up')\n  time.sleep(600)\nexcept KeyboardInterrupt: print('saved')\n"
    job = start("-n", 2, *script(body), preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    job.wait_for("up", 2)
    job.process.send_signal(signal.SIGINT)
    assert job.finish() == 128 + signal.SIGINT, job.lines
    assert job.lines.count("saved") == 2, job.lines


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_to_the_wrapper_reaches_its_command_once(start, tmp_path, name):
    stop = tmp_path / "stop"
    job = start("-n", "2", *script(HANDLERS), stop)
    job.wait_for("up", 2)
    wrapper = min(pid for pid, words in job.running().items() if words[1:2] == ["rank"])
    os.kill(wrapper, signal.Signals[name])
    job.wait_for(f"got {name}")
    time.sleep(0.3)
    stop.touch()
    assert job.finish() == 0
    assert sum("got" in line for line in job.lines) == 1


# Invalid arguments.


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--ranks is required"),
        (["-n", 2], "no command to run"),
        (["-n", 0, "true"], "expected a number of ranks, 1 or more; received 0"),
        (["-n", -1, "true"], "expected a number of ranks, 1 or more; received -1"),
        (["-n", "many", "true"], "expected a number of ranks, 1 or more; received many"),
        (["-n", 2, "--tiemout", 5, "true"], 'unknown option "--tiemout" (did you mean "--timeout"?)'),
        (["-n", 2, "--timeout", "soon", "true"], "expected seconds, 0 or more; received soon"),
        (["-n", 2, "--grace", -1, "true"], "expected seconds, 0 or more; received -1"),
        (["-n", 2, "--bind", "socket", "true"], "socket not in {core,none}"),
        (["-n", 2, "--hostfile", "no-such-file", "true"], "File does not exist: no-such-file"),
    ],
)
def test_an_invalid_call_names_the_problem(launch, arguments, message):
    job = launch(*arguments)
    assert job.returncode == 2
    assert job.stderr.startswith("pleiad launch: ")
    assert message in job.stderr
    assert 'try "pleiad launch --help"' in job.stderr


def test_binding_needs_a_core_for_each_rank(launch):
    job = launch("-n", 1000, "--bind", "core", "true")
    assert job.returncode == 1
    assert "--bind core needs a core for each rank; 1000 ranks" in job.stderr


def test_a_rank_can_be_bound_to_a_core(launch):
    job = launch("-n", 1, "--bind", "core", *script("print(len(os.sched_getaffinity(0)))"))
    assert job.stdout.strip() in ("1", "2"), job.stderr  # a core has one hardware thread or two


def test_a_missing_mpirun_names_the_package(launch, tmp_path):
    job = launch("-n", 2, "--mpi", "/bin/true", env={"PATH": str(tmp_path)})
    assert job.returncode == 1
    assert "mpirun is not on the PATH" in job.stderr
    assert "openmpi-bin" in job.stderr


def test_another_mpi_is_refused(launch, tmp_path):
    other = tmp_path / "mpirun"
    other.write_text("#!/bin/sh\necho HYDRA build details:\n")
    other.chmod(0o755)
    job = launch("-n", 2, "--mpi", "/bin/true", env={"PLEIAD_MPIRUN": str(other)})
    assert job.returncode == 1
    assert "is not Open MPI's" in job.stderr


def test_a_start_that_mpirun_refuses_is_explained(launch, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    job = launch("-n", 3, "--hostfile", hosts, "true")
    assert job.returncode != 0
    assert "before a rank started" in job.stderr
    assert "slots" in job.stderr, "mpirun's own words are shown where there is a hostfile"


def test_a_hostfile_of_this_host_works(launch, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=3\n")
    job = launch("-n", 3, "--hostfile", hosts, "sh", "-c", f"echo {RANK}; [ {RANK} != 1 ] || exit 6")
    assert job.returncode == 6, job.stderr
    assert sorted(job.stdout.split()) == ["0", "1", "2"]


# The other subcommands.


def test_version(run, pleiad):
    assert re.fullmatch(r"pleiad \d+\.\d+\.\d+\n", run(pleiad, "--version").stdout)


def test_info_describes_the_machine(run, pleiad):
    facts = dict(line.split(None, 1) for line in run(pleiad, "info").stdout.splitlines())
    assert set(facts) == {"version", "host", "cores", "cpu", "memory", "mpirun"}
    assert facts["cores"].startswith(str(len(os.sched_getaffinity(0)))) or "usable" in facts["cores"]
    assert "mpirun" in facts["mpirun"] and re.search(r"\d+\.\d+\.\d+", facts["mpirun"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "expected a subcommand: completion, convert, explain, export, generate, help, import, info"),
        (
            ["lunch"],
            'unknown subcommand "lunch"; known: completion, convert, explain, export, generate, help, import, info, inspect, launch, options, run (did you mean "launch"?)',
        ),
        (["--verion"], 'unknown option "--verion" (did you mean "--version"?)'),
        (["info", "more"], 'unexpected argument "more"'),
    ],
)
def test_an_invalid_subcommand_names_the_problem(run, pleiad, arguments, message):
    result = run(pleiad, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
