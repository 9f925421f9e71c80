"""The Lua module under LuaJIT and plain Lua 5.1 to 5.4: every case of tests/bindings/lua in worlds of 1, 2 and 4 ranks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = Path(__file__).resolve().parent / "lua"
PLAIN = ["lua5.1", "lua5.2", "lua5.3", "lua5.4"]
WORLDS = [("luajit", n) for n in ("alone", 1, 2, 4)] + [(lua, n) for lua in PLAIN for n in ("alone", 2)]


@pytest.fixture(scope="session")
def lua_env(build_dir):
    """lua_env(lua, *folders) returns the environment in which `lua` finds the module of the build under test."""

    def call(lua, *folders):
        places = [build_dir / "lua", FOLDER, *folders]
        env = {"LUA_PATH": ";".join(f"{p}/?.lua;{p}/?/init.lua" for p in places), "PYTHONDONTWRITEBYTECODE": "1"}
        env["PLEIAD_LIBRARY"] = ""
        for name in ("LUA_CPATH", "LUA_PATH_5_2", "LUA_PATH_5_3", "LUA_PATH_5_4"):
            env[name] = env["LUA_PATH"] if "PATH_5" in name else ";;"
        return env

    return call


@pytest.fixture(scope="session")
def job(run, mpirun, lua_env):
    """job(lua, world, script, *arguments) returns a finished job whose ranks ran the script."""

    def call(lua, world, script, *arguments, folders=(), timeout=60, env=None):
        assert shutil.which(lua), f"{lua} is not on the PATH; tools/setup.sh base installs it"
        env = {**lua_env(lua, *folders), **(env or {})}
        if world == "alone":
            return run(lua, script, *arguments, env=env, timeout=timeout)
        return mpirun(world, lua, script, *arguments, env=env, timeout=timeout)

    return call


def check_cases(finished, script, world):
    """Checks that every rank printed ok for every case."""
    names = re.findall(r'^case\("(\w+)"', (FOLDER / script).read_text(), re.M)
    ranks = 1 if world == "alone" else world
    said = [line.split("\t") for line in finished.stdout.splitlines()]
    problems = [line for line in said if len(line) != 3 or line[2] != "ok"]
    assert not problems, f"{problems}\n{finished.stderr}"
    assert len(names) > 3
    assert sorted((name, int(rank)) for name, rank, _ in said) == sorted((n, r) for n in names for r in range(ranks))
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(("lua", "world"), WORLDS)
def test_the_document_and_its_errors(job, lua, world):
    check_cases(job(lua, world, FOLDER / "cases.lua"), "cases.lua", world)


@pytest.mark.parametrize(
    ("lua", "world"), [("luajit", "alone"), ("luajit", 2), ("lua5.1", "alone"), ("lua5.4", "alone")]
)
def test_torch_behind_its_adapter(job, lua, world):
    finished = job(lua, world, FOLDER / "torch_cases.lua", folders=[FOLDER / "standin"])
    check_cases(finished, "torch_cases.lua", world)


def test_the_c_module_under_luajit(job):
    finished = job("luajit", "alone", FOLDER / "cases.lua", env={"MULTIVERSO_LUA_BACKEND": "c"})
    check_cases(finished, "cases.lua", "alone")


def test_python_and_lua_workers_share_a_table(mpirun, lua_env, build_dir):
    env = {**lua_env("luajit"), "PLEIAD_BUILD": str(build_dir)}
    other = [sys.executable, FOLDER / "mixed.py", ":", "-n", 1, "lua5.4", FOLDER / "mixed.lua"]
    finished = mpirun(2, "luajit", FOLDER / "mixed.lua", ":", "-n", 1, *other, env=env)
    assert finished.returncode == 0, finished.stderr
    values = "1 2 13 4"  # row 2: 3 + 1 + 2 + 3 + 4
    assert sorted(finished.stdout.splitlines()) == sorted(
        [f"lua 0: {values}", f"lua 1: {values}", f"python 2: {values}", f"lua 3: {values}"]
    )


@pytest.mark.parametrize("lua", ["luajit", "lua5.4"])
def test_a_million_adds_leak_nothing(job, lua):
    finished = job(lua, "alone", FOLDER / "leak.lua", timeout=120)
    assert finished.returncode == 0, finished.stderr
    before, after = map(float, finished.stdout.split())
    assert after - before < 2048, f"{before} kB became {after} kB"


def test_a_missing_library_is_an_error_with_the_searched_paths(job, tmp_path):
    script = tmp_path / "script.lua"
    script.write_text('print(pcall(require, "multiverso"))')
    said = job("luajit", "alone", script, env={"PLEIAD_LIBRARY": str(tmp_path)}).stdout
    assert said.startswith("false") and "Searched:" in said and f"{tmp_path}/libpleiad.so (PLEIAD_LIBRARY)" in said
    shutil.copytree(ROOT / "bindings" / "lua" / "multiverso", tmp_path / "there" / "multiverso")
    path = {"LUA_PATH": f"{tmp_path}/there/?.lua;{tmp_path}/there/?/init.lua"}
    said = job("luajit", "alone", script, env=path).stdout
    if said.startswith("false"):  # the real torch may be installed on this machine
        for place in ("../../lib/libpleiad.so", "../../../../lib/libpleiad.so.0", "libpleiad.so.0 (the system's"):
            assert place in said, said
    said = job("lua5.3", "alone", script, env={**path, "LUA_PATH_5_3": path["LUA_PATH"]}).stdout
    assert "multiverso.core" in said and "5.3/multiverso/core.so" in said


def install(build_dir, prefix, *more):
    cmake = "/usr/bin/cmake" if os.path.exists("/usr/bin/cmake") else "cmake"
    command = [cmake, "--install", build_dir, "--prefix", prefix, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_luarocks_builds_the_module(build_dir, run, tmp_path):
    install(build_dir, tmp_path / "installed")
    source = shutil.copytree(ROOT / "bindings" / "lua", tmp_path / "source")
    made = subprocess.run(
        ["luarocks", "--lua-version=5.1", "--tree", tmp_path / "tree", "make", f"PLEIAD_DIR={tmp_path / 'installed'}"],
        cwd=source, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    script = tmp_path / "script.lua"
    script.write_text('local m = require "multiverso" m.init() print(m.about.backend, m.num_workers()) m.shutdown()')
    share = tmp_path / "tree" / "share" / "lua" / "5.1"
    env = {"LUA_PATH": f"{share}/?.lua;{share}/?/init.lua", "LUA_CPATH": f"{tmp_path}/tree/lib/lua/5.1/?.so"}
    env["PLEIAD_LIBRARY"] = str(next((tmp_path / "installed").rglob("libpleiad.so")))
    for lua, backend in (("luajit", "ffi"), ("lua5.1", "c")):
        assert run(lua, script, env=env).stdout == f"{backend}\t1\n"


def test_an_installed_module_finds_its_library(build_dir, run, tmp_path):
    for more in ([], ["--component", "lua"]):
        install(build_dir, tmp_path, *more)
    script = tmp_path / "script.lua"
    script.write_text(
        'local m = require "multiverso" m.init() print(m.about.library, m.about.backend, m.num_workers()) m.shutdown()'
    )
    for lua, version in (("luajit", "5.1"), ("lua5.1", "5.1"), ("lua5.4", "5.4")):
        share = tmp_path / "share" / "lua" / version
        env = {"LUA_PATH": f"{share}/?.lua;{share}/?/init.lua", "PLEIAD_LIBRARY": ""}
        env["LUA_PATH_5_4"] = env["LUA_PATH"]
        env["LUA_CPATH"] = env["LUA_CPATH_5_4"] = f"{tmp_path}/lib/lua/{version}/?.so"
        done = run(lua, script, env=env)
        assert str(tmp_path) in done.stdout and done.stdout.endswith("1\n"), done.stdout + done.stderr


# The examples.


@pytest.mark.parametrize("world", ["alone", 4])
def test_the_xor_example_learns(job, world):
    finished = job("luajit", world, ROOT / "examples" / "lua" / "xor.lua")
    assert finished.returncode == 0, finished.stderr
    assert re.findall(r"^(\d) xor (\d) = (\d)", finished.stdout, re.M) == [
        ("0", "0", "0"), ("0", "1", "1"), ("1", "0", "1"), ("1", "1", "0"),
    ], finished.stdout  # fmt: skip


@pytest.mark.parametrize("world", ["alone", 4])
def test_the_fashion_example_learns(job, world):
    finished = job(
        "luajit", world, ROOT / "examples" / "lua" / "fashion.lua", "--images", 24000, "--epochs", 3, "--rate", 0.03
    )
    assert finished.returncode == 0, finished.stderr
    accuracy = float(re.search(r"test accuracy (\S+)", finished.stdout).group(1))
    assert accuracy > 0.75, finished.stdout


def test_the_pages_lua_program_prints_the_shown_output(job):
    example = ROOT / "examples" / "lua" / "first.lua"
    assert example.read_text() in (ROOT / "docs" / "lua.md").read_text()
    assert job("luajit", 2, example).stdout == "2 workers made row 10 = 4 4 4\n"


FAILS = """
local mv = require "multiverso"
mv.init(true)
local array = mv.ArrayTableHandler:new(3)
local rounds = 0
local good, problem = pcall(function()
  for step = 1, 1000 do
    array:add{1, 1, 1}
    if mv.worker_id() == 2 and step == 5 then os.exit(9) end
    local values = array:get()
    assert(values[1] == 3 * step, values[1])
    rounds = step
  end
end)
io.write(rounds, " ", tostring(problem), "\\n")
print(select(2, pcall(array.get, array)))
"""


def test_a_worker_that_fails_between_an_add_and_a_get_stops_the_others(run, pleiad, lua_env, tmp_path):
    script = tmp_path / "fails.lua"
    script.write_text(FAILS)
    done = run(pleiad, "launch", "-n", 3, "luajit", script, env=lua_env("luajit"))
    assert done.returncode == 9, done.stderr
    lines = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    assert len(lines) == 2 and all(re.match(r"[45] .*rank 2 .* died", line) for line in lines), done.stdout
    assert done.stdout.count("is closed, because an earlier call failed") == 2, done.stdout
