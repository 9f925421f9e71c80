"""The C API and Multiverso's functions, through ctypes: every case of tests/capi/ alone and in worlds of 1, 2 and 4
ranks.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = Path(__file__).resolve().parent
MODULES = ["c_cases", "c_error_cases", "mv_cases"]
WORLDS = ["alone", 1, 2, 4]


def cases_in(module):
    """Returns the names of cases and the ranks they need. Parses the text, because an import would load the libraries
    into pytest.
    """
    source = (FOLDER / f"{module}.py").read_text()
    found = re.findall(r"^@case\((?:at_least=(\d+))?\)\ndef (\w+)", source, re.M)
    assert len(found) == source.count("\n@case(") > 5
    return {name: int(at_least or 1) for at_least, name in found}


@pytest.fixture(scope="session")
def outcomes(build_dir, run, mpirun):
    """outcomes(module, world) returns the outcome of each case on each rank. A world runs all cases of a module at
    once.
    """
    known = {}

    def call(module, world):
        if (module, world) not in known:
            command = [sys.executable, FOLDER / "runner.py", module]
            env = {"PLEIAD_BUILD": str(build_dir), "PYTHONDONTWRITEBYTECODE": "1"}
            job = (
                run(*command, timeout=120, env=env)
                if world == "alone"
                else mpirun(world, *command, timeout=180, env=env)
            )
            said = {}
            for line in job.stdout.splitlines():
                outcome = json.loads(line)
                said.setdefault(outcome["case"], {})[outcome["rank"]] = outcome["problem"]
            known[module, world] = (said, f"exit code {job.returncode}\n{job.stdout[-2000:]}\n{job.stderr[-4000:]}")
        return known[module, world]

    return call


@pytest.mark.parametrize(
    ("module", "name", "world"),
    [
        pytest.param(module, name, world, id=f"{name}-{world}")
        for module in MODULES
        for name, at_least in cases_in(module).items()
        for world in WORLDS
        if (1 if world == "alone" else world) >= at_least
    ],
)
def test_case(outcomes, module, name, world):
    said, output = outcomes(module, world)
    ranks = 1 if world == "alone" else world
    assert sorted(said.get(name, {})) == list(range(ranks)), f"not every rank came to the end of it: {output}"
    problems = "\n".join(f"rank {rank}: {problem}" for rank, problem in sorted(said[name].items()) if problem)
    assert not problems, f"{problems}\n{output}"


# The exported symbols of the libraries.


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in lines.splitlines()}


def declared(header, pattern):
    return set(re.findall(pattern, (ROOT / "include" / header).read_text()))


@pytest.fixture(scope="session")
def binding(build_dir):
    """The functions that the ctypes binding of the tests declares, without and with the prefix MV_."""
    code = "import binding, json; print(json.dumps([list(binding.FUNCTIONS), list(binding.MV_FUNCTIONS)]))"
    env = {**os.environ, "PLEIAD_BUILD": str(build_dir)}
    out = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, env=env, capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, out.stderr
    functions, mv_functions = json.loads(out.stdout)
    return set(functions), set(mv_functions)


def test_every_function_of_the_header_is_exported_and_tested(build_dir, binding):
    in_header = declared("pleiad/pleiad.h", r"PLEIAD_API[^;(]*?\b(pleiad_\w+)\(")
    assert len(in_header) > 40
    assert in_header == binding[0]
    c_names = {name for name in exported(build_dir / "lib" / "libpleiad.so") if name.startswith("pleiad_")}
    assert c_names == in_header


def test_libmultiverso_exports_the_symbols_of_the_original_and_its_c_plus_plus_namespace(build_dir, binding):
    names = exported(build_dir / "lib" / "libmultiverso.so")
    plain = {name for name in names if not name.startswith("_Z")}
    assert len(plain) == 17
    assert plain == binding[1] == declared("multiverso/c_api.h", r"PLEIAD_API[^;(]*?\b(MV_\w+)\(")
    foreign = {name for name in names - plain if not re.match(r"_Z(N|NK|TI|TS|TV|TIN|TSN|TVN)+10multiverso", name)}
    assert foreign == set()


def test_the_headers_are_c99_and_need_no_other_library(tmp_path):
    source = tmp_path / "all.c"
    source.write_text('#include "pleiad/pleiad.h"\n#include "pleiad/multiverso.h"\n#include "multiverso/c_api.h"\n')
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run(["gcc", *flags, "-fsyntax-only", source], check=True, timeout=600)
    for header in (ROOT / "include").rglob("*.h*"):
        assert not re.search(r"fmt|spdlog|mpi\.h", header.read_text()), header


# Cases that need processes of their own.

PRELUDE = "from binding import *\nfrom mv_cases import *\nimport os, sys\n"


@pytest.fixture(scope="session")
def script(build_dir, run, mpirun):
    """script(world, code) returns a finished job whose ranks ran this Python code."""

    def call(world, code, **more):
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n{PRELUDE}{code}"]
        more["env"] = {"PLEIAD_BUILD": str(build_dir), "PYTHONDONTWRITEBYTECODE": "1"}
        return run(*command, timeout=60, **more) if world == "alone" else mpirun(world, *command, timeout=60, **more)

    return call


OPEN = """
import ctypes
mv_init("-timeout=20", *sys.argv[1:])
table = new_array(1000)
mv.MV_AddAsyncArrayTable(table, floats([1] * 1000), 1000)
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "ctypes.CDLL(None).exit(0)"], ids=["end", "sys", "libc"])
def test_a_process_alone_may_exit_without_shutdown(script, ending):
    job = script("alone", OPEN + ending)
    assert (job.returncode, job.stderr) == (0, "")


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("more", ["", "mv.MV_ShutDown(); mv_init('-sync=true'); new_array(3)"], ids=["first", "second"])
def test_ranks_that_exit_without_shutdown_neither_hang_nor_crash(script, world, more):
    job = script(world, OPEN + more)
    assert job.returncode != 0 and "session open" in job.stderr
    assert not re.search(r"signal \d|Segmentation|core dumped|Traceback", job.stderr), job.stderr


@pytest.mark.parametrize(("world", "status"), [(2, 0), (4, 0), (4, 3)])
def test_a_rank_that_exits_without_shutdown_is_not_waited_for(script, world, status):
    """A rank that exits with a status other than 0 is dead to the others."""
    code = (
        OPEN
        + f"if mv.MV_WorkerId() == 1: sys.exit({status})"
        + """
mv.MV_Barrier()
code, words = mv_error()
os.write(1, f"{code} {words}\\n".encode())
"""
    )
    job = script(world, code, recovery=True)  # otherwise mpirun ends the others before they can print
    said = job.stdout.splitlines()
    assert len(said) == world - 1, job.stderr
    words = r"4 .*rank 1 .*died" if status else r"3 .*rank 1 .*shut down"
    assert all(re.match(words, line) for line in said), said


@pytest.mark.parametrize("world", ["alone", 2, 4])
def test_a_forked_child_gets_errors_and_its_parent_continues(script, world):
    code = (
        OPEN
        + """
sys.stdout.flush()
child = os.fork()
if child == 0:
    out, handle = floats([UNTOUCHED] * 1000), c_void_p(77)
    calls = [lambda: mv.MV_GetArrayTable(table, out, 1000), lambda: mv.MV_AddArrayTable(table, out, 1000), mv.MV_Barrier,
             lambda: mv.MV_NewArrayTable(3, byref(handle)), mv.MV_ShutDown, mv.MV_WorkerId, lambda: mv.MV_Init(None, None)]
    for call in calls:
        call()
        mv_fails(STATE, "forked")
    assert list(out) == [UNTOUCHED] * 1000 and handle.value == 77
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
mv.MV_Barrier()
assert get_array(table, 1000) == [mv.MV_NumWorkers()] * 1000
mv.MV_ShutDown()
mv_fine()
os.write(1, b"fine\\n")
"""
    )
    job = script(world, code)
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines() == ["fine"] * (1 if world == "alone" else world)


def test_a_child_of_a_process_without_a_session_may_start_one(script):
    code = """
child = os.fork()
if child == 0:
    mv_init("-log_level=off")
    table = new_array(3)
    mv.MV_AddArrayTable(table, floats([1, 2, 3]), 3)
    good = get_array(table, 3) == [1, 2, 3]
    mv.MV_ShutDown()
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    job = script("alone", code)
    assert job.returncode == 0, job.stderr


def test_errors_are_logged_and_unknown_flags_too(script):
    code = """
mv.MV_Barrier()
mv_fails(STATE, "MV_Init")
mv_init("-snyc=true", "-mine=1", "-port=5", "-log_level=debug", "--ma=true")
table = new_array(3)
mv.MV_GetArrayTable(table, floats([0] * 4), 4)
mv_fails(INVALID_ARGUMENT, "4")
mv.MV_ShutDown()
mv_init("-log_level=off", "-x=y")
mv.MV_GetArrayTable(table, floats([0] * 4), 4)
mv.MV_ShutDown()
"""
    job = script("alone", code)
    assert job.returncode == 0, job.stderr
    lines = job.stderr.splitlines()
    assert re.fullmatch(r"multiverso: MV_Barrier: there is no session; call MV_Init first", lines[0])
    assert "debug: flags without effect: -port=5" in lines[1]
    assert (
        'warning: unknown flags "-snyc=true", "-mine=1", "--ma=true" left in argv; known: sync, updater_type'
        in lines[2]
    )
    assert lines[2].endswith('(did you mean "-sync", "-ma"?)')
    assert re.search(r"rank 0/1 \S+\] error: MV_GetArrayTable: .*3 values; received an array of 4", lines[3])
    assert len(lines) == 4, "log_level=off is silent"


FAILED_INIT = "argc, argv = ctypes.c_int(2), (ctypes.c_char_p * 2)(b'program', b'-sync=maybe')\n"
FAILED_INIT += "mv.MV_Init(ctypes.byref(argc), argv)\n"


def test_a_failed_init_is_printed_and_ends_the_process_with_code_1(script):
    job = script("alone", FAILED_INIT + "import atexit; print('after', flush=True)")
    assert job.returncode == 1
    assert "multiverso: MV_Init: " in job.stderr and "maybe" in job.stderr
    assert "after" in job.stdout, "the process goes on"


@pytest.mark.parametrize(
    "after",
    [
        "c.pleiad_last_error()",
        "c.pleiad_clear_error()",
        "mv_init('-sync=true'); mv.MV_ShutDown()",  # a later successful init resets the failure
    ],
)
def test_a_failed_init_that_the_program_has_looked_at_leaves_the_exit_code_alone(script, after):
    assert script("alone", FAILED_INIT + after).returncode == 0


def test_a_failed_init_leaves_other_exit_codes_alone(script):
    assert script("alone", FAILED_INIT + "import sys; sys.exit(7)").returncode == 7


def test_unknown_flags_are_reported_once_in_a_job(script):
    job = script(4, "mv_init('-mine=1'); mv.MV_ShutDown()")
    assert job.returncode == 0, job.stderr
    assert job.stderr.count("unknown flag") == 1


@pytest.mark.parametrize("world", ["alone", 1, 2, 4])
def test_the_c_plus_plus_classes_keep_their_promises(build_dir, run, mpirun, world):
    program = build_dir / "bin" / "mv_cxx_test"
    job = run(program, timeout=60) if world == "alone" else mpirun(world, program)
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.count("[  PASSED  ]") == (1 if world == "alone" else world), job.stdout
