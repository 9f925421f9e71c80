"""Fixtures that all tests share. Tests start their own processes, also as root and with more ranks than cores, and
every process has a deadline.
"""

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Deadlines catch processes that hang. The tests name times that are ample on a current machine; a slow or busy one gets
# this many times as long.
PATIENCE = 10

pytest.register_assert_rewrite("singa_root")  # tests import it and use its fixtures


def pytest_configure(config):
    # A shell starts background processes with Ctrl-C ignored, and all processes of the tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "quick: runs in `make check` too")
    config.addinivalue_line("markers", "full: too long for `make test`; `make test-full` runs it")


# Test files whose cases take seconds and need no framework.
QUICK = {
    "test_bench_plots",
    "test_capi",
    "test_cases",
    "test_cli_pages",
    "test_convert",
    "test_docs",
    "test_durations",
    "test_example_pages",
    "test_generate",
    "test_glossary",
    "test_layout",
    "test_messages",
    "test_plot",
    "test_promises",
    "test_prose",
    "test_release",
    "test_safetensors",
    "test_site",
}


def pytest_collection_modifyitems(items):
    for item in items:
        # The acceptance suites take several minutes, so only `make test-full` runs them.
        if item.path.parent.name == "acceptance":
            item.add_marker("full")
        if item.path.stem in QUICK:
            item.add_marker("quick")


def _processor_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@pytest.fixture(autouse=True)
def processor_seconds(request):
    """Records the processor time of the case and of its child processes, for tools/durations.py."""
    before = _processor_seconds()
    yield
    request.node.user_properties.append(("processor_seconds", round(_processor_seconds() - before, 2)))


def processes_of(session):
    """Returns the live processes of a session (see setsid) with their command lines: {pid: words}."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # the process ended meanwhile
        state, session_id = fields[0], int(fields[3])
        if session_id == session and state not in "ZX":
            found[int(entry.name)] = words
    return found


def kill_session(session):
    """Ends every process of a session. mpirun gives each rank a process group of its own, but not a session."""
    deadline = time.monotonic() + 120
    while left := processes_of(session):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            pytest.fail(f"these processes survive SIGKILL: {left}")
        time.sleep(0.01)


def run_with_deadline(command, *, timeout, env=None, input=None, cwd=None):
    """Calls subprocess.run with text output. After PATIENCE times `timeout`, ends all processes and fails the test with
    the output so far.
    """
    timeout *= PATIENCE
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(input, timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_session(process.pid)
        out, err = process.communicate(timeout=120)
        pytest.fail(f"no end after {timeout} s: {process.args}\n--- stdout\n{out}\n--- stderr\n{err}", pytrace=False)
    finally:
        kill_session(process.pid)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def build_dir():
    """The build under test: $PLEIAD_BUILD, or build/release."""
    folder = Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release")).resolve()
    if not (folder / "bin").is_dir():
        pytest.fail(f"{folder}/bin does not exist: build first (make), or set PLEIAD_BUILD", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def pleiad(build_dir):
    """The command `pleiad` of the build under test."""
    return build_dir / "bin" / "pleiad"


@pytest.fixture(scope="session")
def run():
    """run(*command, timeout=60, env=None, input=None, cwd=None) returns a CompletedProcess with text."""

    def call(*command, timeout=60, env=None, input=None, cwd=None):
        return run_with_deadline(command, timeout=timeout, env=env, input=input, cwd=cwd)

    return call


@pytest.fixture(scope="session")
def mpirun():
    """mpirun(n, *command, recovery=False, env=None, timeout=60, input=None, outputs=None) runs n ranks under Debian's
    Open MPI and returns a CompletedProcess. With recovery, mpirun lets the other ranks live when one dies. In the
    folder `outputs` it also stores the output of each rank: 1/rank.0/stdout, 1/rank.0/stderr, ...
    """
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if program is None:
        pytest.fail("mpirun is not on the PATH; tools/setup.sh base installs it", pytrace=False)

    def call(n, *command, recovery=False, env=None, timeout=60, input=None, outputs=None):
        flags = ["-n", n, "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            flags.append("--allow-run-as-root")
        if recovery:
            flags.append("--enable-recovery")
        if outputs is not None:
            flags += ["--output-filename", outputs]
        return run_with_deadline([program, *flags, *command], timeout=timeout, env=env, input=input)

    return call


@pytest.fixture(scope="session")
def python_env(build_dir):
    """The environment in which Python finds the packages of the build under test."""
    if not list((build_dir / "python" / "pleiad").glob("_core.*.so")):
        pytest.fail(f"{build_dir}/python has no extension module: tools/setup.sh base, then build", pytrace=False)
    # Without cached bytecode every process compiles the frameworks again, which takes longer than most tests.
    cache = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(build_dir / "pycache")}
    return {"PYTHONPATH": str(build_dir / "python"), **cache}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, worker_id):
    """The self-contained wheel: $PLEIAD_WHEEL, or one built once a run by whichever of its processes needs it first."""
    if "PLEIAD_WHEEL" in os.environ:
        return Path(os.environ["PLEIAD_WHEEL"]).resolve()
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            done = run_with_deadline([sys.executable, ROOT / "tools" / "wheel.py", "--folder", folder], timeout=1200)
            assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def python_job(run, mpirun, python_env):
    """python_job(world, script, *arguments) returns a finished job whose ranks ran the script. `world` is a number of
    ranks, or "alone" for a process that no launcher started.
    """

    def call(world, *words, env=None, timeout=60, recovery=False, outputs=None):
        command = [sys.executable, *words]
        env = {**python_env, **(env or {})}
        if world == "alone":
            return run(*command, timeout=timeout, env=env)
        return mpirun(world, *command, timeout=timeout, env=env, recovery=recovery, outputs=outputs)

    return call
